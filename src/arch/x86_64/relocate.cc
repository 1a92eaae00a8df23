#include "arch/relocate.h"

#include <array>
#include <cassert>
#include <cstring>

#include "arch/jump.h"
#include "arch/x86_64/decode_table.h"
#include "arch/x86_64/full_decoder.h"

namespace pinprick::arch {
namespace {

bool decode_fully(std::span<const uint8_t> bytes, ZydisDecodedInstruction& out) {
  return ZYAN_SUCCESS(
      ZydisDecoderDecodeInstruction(&full_decoder(), nullptr, bytes.data(), bytes.size(), &out));
}

// Zydis marks most privileged instructions, but not those that depend on the I/O privilege level,
// nor AMD's virtualisation, nor lgdt.
bool is_privileged(const ZydisDecodedInstruction& raw) {
  switch (raw.mnemonic) {
    case ZYDIS_MNEMONIC_CLI:
    case ZYDIS_MNEMONIC_STI:
    case ZYDIS_MNEMONIC_IN:
    case ZYDIS_MNEMONIC_OUT:
    case ZYDIS_MNEMONIC_INSB:
    case ZYDIS_MNEMONIC_INSW:
    case ZYDIS_MNEMONIC_INSD:
    case ZYDIS_MNEMONIC_OUTSB:
    case ZYDIS_MNEMONIC_OUTSW:
    case ZYDIS_MNEMONIC_OUTSD:
    case ZYDIS_MNEMONIC_LGDT:
    case ZYDIS_MNEMONIC_RSM:
    case ZYDIS_MNEMONIC_GETSEC:
    case ZYDIS_MNEMONIC_VMRUN:
    case ZYDIS_MNEMONIC_VMLOAD:
    case ZYDIS_MNEMONIC_VMSAVE:
    case ZYDIS_MNEMONIC_STGI:
    case ZYDIS_MNEMONIC_CLGI:
    case ZYDIS_MNEMONIC_SKINIT:
      return true;
    default:
      return (raw.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED) != 0;
  }
}

bool has_index_byte(const ZydisDecodedInstruction& raw) {
  return raw.raw.modrm.mod != 3 && raw.raw.modrm.rm == 4;
}

bool base_is_rsp(const ZydisDecodedInstruction& raw) {
  return has_index_byte(raw) && raw.raw.sib.base == 4 && !raw.raw.rex.B;
}

// A call reads its operand first and then pushes; the copy pushes first, and must not overwrite the
// operand. Other registers may hold such an address too, but compilers do not call through memory
// below rsp.
bool call_reads_where_it_pushes(const ZydisDecodedInstruction& raw) {
  constexpr uint8_t kNoIndex = 4;
  const bool indexed = raw.raw.sib.index != kNoIndex || raw.raw.rex.X;
  return base_is_rsp(raw) && !indexed && raw.raw.disp.value > -16 && raw.raw.disp.value < 0;
}

bool is_branch(Flow flow) {
  return flow != Flow::next && flow != Flow::trap;
}

// Rebuilds an instruction from its raw parts with another opcode extension. If the base of the
// memory operand is rsp, `shift` is added to the displacement.
void emit_ff_group(Assembler& code, std::span<const uint8_t> bytes,
                   const ZydisDecodedInstruction& raw, uint8_t extension, int32_t shift) {
  const auto& m = raw.raw.modrm;
  const bool has_sib = has_index_byte(raw);
  uint8_t mod = m.mod;
  int64_t displacement = raw.raw.disp.value;
  if (base_is_rsp(raw) && shift != 0) {
    displacement += shift;
    mod = displacement >= INT8_MIN && displacement <= INT8_MAX ? 1 : 2;
  }
  code.raw(bytes.first(static_cast<size_t>(m.offset) - 1));  // prefixes, REX
  code.u8(0xff);
  code.u8(static_cast<uint8_t>(mod << 6 | extension << 3 | m.rm));
  if (has_sib) code.u8(bytes[raw.raw.sib.offset]);
  const bool wide = mod == 2 || (mod == 0 && has_sib && raw.raw.sib.base == 5);
  if (wide)
    code.u32(static_cast<uint32_t>(displacement));
  else if (mod == 1)
    code.u8(static_cast<uint8_t>(displacement));
}

// Copies an instruction with a RIP-relative operand, with the displacement for the new address.
void emit_rip_relative(Assembler& code, std::span<const uint8_t> bytes,
                       const ZydisDecodedInstruction& raw, const Instruction& instruction) {
  const size_t at = raw.raw.disp.offset;
  const Address new_end = code.here() + bytes.size();
  std::array<uint8_t, kMaxInstructionLength> copy;
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  const auto displacement = static_cast<int32_t>(instruction.memory - new_end);
  std::memcpy(copy.data() + at, &displacement, sizeof displacement);
  code.raw(std::span(copy).first(bytes.size()));
  if (!reaches(new_end, instruction.memory)) code.mark_out_of_reach();
}

// Returns whether a push of an immediate value can push this address.
constexpr bool fits_push(Address address) {
  return address <= INT32_MAX;
}

}  // namespace

// Everything in the table is displaceable, except that a call may use the stack pointer, which its
// copy moves.
Displaceable displaceable(std::span<const uint8_t> bytes, const Instruction& instruction) {
  if (instruction.flow != Flow::call_indirect && decode_by_table(bytes, instruction.address))
    return Displaceable::yes;
  return displaceable_without_table(bytes, instruction);
}

Displaceable displaceable_without_table(std::span<const uint8_t> bytes,
                                        const Instruction& instruction) {
  ZydisDecodedInstruction raw;
  if (!decode_fully(bytes, raw)) return Displaceable::undecodable;
  if (is_privileged(raw)) return Displaceable::privileged;
  if (raw.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR) return Displaceable::inexact;
  if (is_branch(instruction.flow) && (raw.attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE) &&
      !(raw.attributes & ZYDIS_ATTRIB_HAS_REX && raw.raw.rex.W))
    return Displaceable::inexact;  // processors disagree on what 66 does to a near branch
  if (instruction.has_rip_operand && raw.address_width != 64) return Displaceable::inexact;
  switch (raw.mnemonic) {
    case ZYDIS_MNEMONIC_INT:
    case ZYDIS_MNEMONIC_INT1:
    case ZYDIS_MNEMONIC_INT3:
    case ZYDIS_MNEMONIC_INTO:
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_SYSENTER:
    case ZYDIS_MNEMONIC_SYSEXIT:
    case ZYDIS_MNEMONIC_SYSRET:
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
      return Displaceable::inexact;
    case ZYDIS_MNEMONIC_CALL:
      // `call *%rsp` and the like read rsp after we would have moved it.
      if (instruction.flow == Flow::call_indirect && raw.raw.modrm.mod == 3 &&
          raw.raw.modrm.rm == 4 && !raw.raw.rex.B)
        return Displaceable::inexact;
      // rsp as base is handled by shifting; a 32-bit address size would wrap differently.
      if (instruction.flow == Flow::call_indirect && raw.address_width != 64)
        return Displaceable::inexact;
      if (instruction.flow == Flow::call_indirect && call_reads_where_it_pushes(raw))
        return Displaceable::inexact;
      return Displaceable::yes;
    default:
      return Displaceable::yes;
  }
}

void relocate(Assembler& code, std::span<const uint8_t> bytes, const Instruction& instruction,
              std::vector<Between>* between) {
  using Original = Between::Original;
  const auto note = [&](Original original, int8_t words) {
    if (between != nullptr) between->push_back({code.here(), original, words});
  };
  bytes = bytes.first(instruction.length);
  // Most instructions are copied unchanged, or are known well enough.
  ZydisDecodedInstruction raw;
  if (instruction.has_rip_operand || instruction.flow == Flow::jump_if ||
      instruction.flow == Flow::call_indirect) {
    const bool decoded = decode_fully(bytes, raw);
    assert(decoded && "relocate needs a displaceable instruction");
    if (!decoded) return;
  }

  switch (instruction.flow) {
    case Flow::jump:
      code.jmp(instruction.target);
      return;

    case Flow::jump_if: {
      const bool is_jcc =
          (raw.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && (raw.opcode & 0xf0) == 0x70) ||
          (raw.opcode_map == ZYDIS_OPCODE_MAP_0F && (raw.opcode & 0xf0) == 0x80);
      if (is_jcc) {
        code.jump_if(static_cast<Condition>(raw.opcode & 0xf), instruction.target);
        return;
      }
      if (raw.raw.imm[0].size == 32) {  // xbegin: the abort address
        code.raw(bytes.first(raw.raw.imm[0].offset));
        code.relative32(instruction.target);
        return;
      }
      // loop, loope, loopne, jrcxz, jecxz have no 32-bit form:
      //     loop taken; jmp short next; taken: jmp target; next:
      const auto taken = code.new_label();
      const auto next = code.new_label();
      code.raw(bytes.first(raw.raw.imm[0].offset));
      code.relative8(taken);
      note(Original::over, 0);
      code.jmp_short(next);
      code.bind(taken);
      note(Original::to_come, 0);
      code.jmp(instruction.target);
      code.bind(next);
      return;
    }

    case Flow::call:
    case Flow::call_indirect: {
      const auto literal = code.new_label();
      const Address return_address = instruction.end();
      // The address after the original call, without changing a register.
      if (fits_push(return_address))
        code.push_imm(static_cast<int32_t>(return_address));
      else
        code.push(literal);
      note(Original::to_come, 1);
      if (instruction.flow == Flow::call) {
        code.jmp(instruction.target);
      } else if (instruction.has_rip_operand) {
        std::array<uint8_t, kMaxInstructionLength> jump;
        std::memcpy(jump.data(), bytes.data(), bytes.size());
        jump[raw.raw.modrm.offset] = 4 << 3 | 5;  // call m64 -> jmp m64
        emit_rip_relative(code, std::span(jump).first(bytes.size()), raw, instruction);
      } else {
        emit_ff_group(code, bytes, raw, 4, 8);  // 8: the push moved rsp
      }
      code.bind(literal);
      if (!fits_push(return_address)) code.u64(return_address);
      return;
    }

    default:
      break;
  }

  if (instruction.has_rip_operand)
    emit_rip_relative(code, bytes, raw, instruction);
  else
    code.raw(bytes);
  // The kernel leaves the address after the syscall in rcx.
  if (instruction.special == Special::syscall) {
    note(Original::over, 0);
    code.lea(Reg::rcx, instruction.end());
  }
}

}  // namespace pinprick::arch
