#include "arch/code.h"

#include <Zydis/Zydis.h>

#include <algorithm>

#include "arch/x86_64/decode_table.h"

namespace pinprick::arch {
namespace {

// Minimal mode: length, mnemonic and raw fields, at half the cost of a full decode. relocate.cc
// decides with a full decode whether an instruction may be moved.
const ZydisDecoder& minimal_decoder() {
  static const ZydisDecoder decoder = [] {
    ZydisDecoder d;
    ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    ZydisDecoderEnableMode(&d, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
    return d;
  }();
  return decoder;
}

Flow flow_of(const ZydisDecodedInstruction& raw) {
  const bool relative = raw.raw.imm[0].is_relative;
  switch (raw.mnemonic) {
    case ZYDIS_MNEMONIC_JMP:
      return relative ? Flow::jump : Flow::jump_indirect;
    case ZYDIS_MNEMONIC_CALL:
      return relative ? Flow::call : Flow::call_indirect;
    case ZYDIS_MNEMONIC_RET:
    case ZYDIS_MNEMONIC_IRET:
    case ZYDIS_MNEMONIC_IRETD:
    case ZYDIS_MNEMONIC_IRETQ:
    case ZYDIS_MNEMONIC_SYSRET:
    case ZYDIS_MNEMONIC_SYSEXIT:
      return Flow::ret;
    case ZYDIS_MNEMONIC_UD0:
    case ZYDIS_MNEMONIC_UD1:
    case ZYDIS_MNEMONIC_UD2:
    case ZYDIS_MNEMONIC_HLT:
    case ZYDIS_MNEMONIC_INT3:
      return Flow::trap;
    default:
      return relative ? Flow::jump_if : Flow::next;
  }
}

Special special_of(const ZydisDecodedInstruction& raw) {
  switch (raw.mnemonic) {
    case ZYDIS_MNEMONIC_NOP:
      return Special::nop;
    case ZYDIS_MNEMONIC_XCHG:  // 66 90 is the two-byte nop
      return raw.opcode == 0x90 && raw.raw.modrm.offset == 0 && raw.operand_width == 16 &&
                     raw.length == 2
                 ? Special::nop
                 : Special::none;
    case ZYDIS_MNEMONIC_ENDBR64:
      return Special::landing_pad;
    case ZYDIS_MNEMONIC_INT3:
      return Special::int3;
    case ZYDIS_MNEMONIC_SYSCALL:
      return Special::syscall;
    case ZYDIS_MNEMONIC_LEA:
      return Special::lea;
    case ZYDIS_MNEMONIC_ADD:
      if (raw.raw.modrm.offset == 0 || raw.raw.imm[0].size != 0) return Special::none;
      return raw.raw.modrm.mod == 3 ? Special::add_register : Special::add_memory;
    default:
      return Special::none;
  }
}

}  // namespace

bool is_signal_restorer(std::span<const uint8_t> function) {
  // mov $15, %rax (in two encodings); syscall
  constexpr uint8_t kWide[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
  constexpr uint8_t kNarrow[] = {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05};
  const auto starts_with = [&](std::span<const uint8_t> bytes) {
    return function.size() >= bytes.size() &&
           std::equal(bytes.begin(), bytes.end(), function.begin());
  };
  return starts_with(kWide) || starts_with(kNarrow);
}

std::optional<Instruction> decode(std::span<const uint8_t> bytes, Address address) {
  auto found = decode_by_table(bytes, address);
  if (!found) found = decode_without_table(bytes, address);
  return found;
}

std::optional<Instruction> decode_without_table(std::span<const uint8_t> bytes, Address address) {
  ZydisDecodedInstruction raw;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&minimal_decoder(), nullptr, bytes.data(),
                                                  bytes.size(), &raw)))
    return std::nullopt;

  Instruction out;
  out.address = address;
  out.length = raw.length;
  out.flow = flow_of(raw);
  out.special = special_of(raw);
  const auto& immediate = raw.raw.imm[0];
  if (out.has_target()) {
    out.target = out.end() + static_cast<uint64_t>(immediate.value.s);
  } else if (immediate.size != 0) {
    out.immediate_size = immediate.size / 8;
    out.immediate = immediate.value.u;
  }
  const auto& modrm = raw.raw.modrm;
  out.has_memory_operand = modrm.offset != 0 && modrm.mod != 3;
  if (raw.raw.disp.size != 0) {
    out.displacement_size = raw.raw.disp.size / 8;
    out.displacement = raw.raw.disp.value;
    if (modrm.offset != 0 && modrm.mod == 0 && modrm.rm == 5) {
      out.has_rip_operand = true;
      out.memory = out.end() + static_cast<uint64_t>(out.displacement);
    }
  }
  return out;
}

}  // namespace pinprick::arch
