#include "arch/x86_64/decode_table.h"

#include <array>
#include <cstring>

namespace pinprick::arch {
namespace {

// What follows an opcode, if it is in the table.
enum class Encoding : uint8_t {
  other,       // not in the table
  bare,        // nothing
  imm8,        // a sign-extended byte
  imm,         // 4 bytes, 2 with an operand size prefix; sign-extended
  wide_imm,    // 4 bytes, 2 with the prefix, 8 with REX.W
  modrm,       // operands
  modrm_imm8,  // operands, then a byte
  modrm_imm,
  lea,
  add,  // operands; between registers: the last step in computing a jump table's target
  shift,
  shift_uimm8,
  mov_imm8,
  mov_imm,
  unary8,   // /0 has a byte, /1 does not exist
  unary,    // /0 has 4 bytes, /1 does not exist
  inc_dec,  // /0 and /1
  group5,   // inc, dec, call, jmp, push
  bit_test,
  nop,
  long_nop,
  simd,  // operands; only with an operand size prefix
  ret,
  jump8,
  jump_if8,
  jump32,
  jump_if32,
  call32,
};

using Table = std::array<Encoding, 256>;

constexpr void set(Table& table, unsigned first, unsigned last, Encoding encoding) {
  for (unsigned i = first; i <= last; ++i) table[i] = encoding;
}

constexpr Table kOneByte = [] {
  Table table = {};
  // add, or, adc, sbb, and, sub, xor, cmp: to and from memory, and with an immediate
  for (unsigned operation = 0; operation < 8; ++operation) {
    set(table, 8 * operation, 8 * operation + 3, Encoding::modrm);
    table[8 * operation + 4] = Encoding::imm8;
    table[8 * operation + 5] = Encoding::imm;
  }
  set(table, 0x00, 0x03, Encoding::add);
  set(table, 0x50, 0x5f, Encoding::bare);  // push, pop
  table[0x63] = Encoding::modrm;           // movsxd
  table[0x68] = Encoding::imm;             // push
  table[0x69] = Encoding::modrm_imm;       // imul
  table[0x6a] = Encoding::imm8;            // push
  table[0x6b] = Encoding::modrm_imm8;      // imul
  set(table, 0x70, 0x7f, Encoding::jump_if8);
  table[0x80] = Encoding::modrm_imm8;
  table[0x81] = Encoding::modrm_imm;
  table[0x83] = Encoding::modrm_imm8;
  set(table, 0x84, 0x8b, Encoding::modrm);  // test, xchg, mov
  table[0x8d] = Encoding::lea;
  table[0x90] = Encoding::nop;
  set(table, 0x98, 0x99, Encoding::bare);  // cdqe, cqo
  table[0xa8] = Encoding::imm8;            // test
  table[0xa9] = Encoding::imm;
  set(table, 0xb0, 0xb7, Encoding::imm8);  // mov
  set(table, 0xb8, 0xbf, Encoding::wide_imm);
  set(table, 0xc0, 0xc1, Encoding::shift_uimm8);
  table[0xc3] = Encoding::ret;
  table[0xc6] = Encoding::mov_imm8;
  table[0xc7] = Encoding::mov_imm;
  table[0xc9] = Encoding::bare;  // leave
  set(table, 0xd0, 0xd3, Encoding::shift);
  table[0xe8] = Encoding::call32;
  table[0xe9] = Encoding::jump32;
  table[0xeb] = Encoding::jump8;
  table[0xf6] = Encoding::unary8;
  table[0xf7] = Encoding::unary;
  table[0xfe] = Encoding::inc_dec;
  table[0xff] = Encoding::group5;
  return table;
}();

constexpr Table kTwoByte = [] {  // after 0f
  Table table = {};
  set(table, 0x10, 0x11, Encoding::modrm);  // movups
  table[0x1f] = Encoding::long_nop;
  set(table, 0x28, 0x29, Encoding::modrm);  // movaps
  set(table, 0x40, 0x4f, Encoding::modrm);  // cmov
  table[0x6e] = table[0x6f] = table[0x7e] = table[0x7f] = table[0xd6] = table[0xef] =
      Encoding::simd;
  set(table, 0x80, 0x8f, Encoding::jump_if32);
  set(table, 0x90, 0x9f, Encoding::modrm);                                  // set
  table[0xa3] = Encoding::modrm;                                            // bt
  table[0xaf] = Encoding::modrm;                                            // imul
  table[0xb6] = table[0xb7] = table[0xbe] = table[0xbf] = Encoding::modrm;  // movzx, movsx
  table[0xba] = Encoding::bit_test;
  return table;
}();

struct Prefixes {
  bool operand_size = false;
  bool wide = false;  // REX.W
  bool rex = false;
};

// Reads the bytes of an instruction. Reading past the end clears ok(). With `Enough`, there are as
// many bytes as any instruction has, and no read can get past the end.
template <bool Enough>
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t position() const { return at_; }

  template <class T>
  T take() {
    T value{};
    if (!Enough && bytes_.size() - at_ < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

struct Operands {
  uint8_t mod = 0;
  uint8_t reg = 0;
  bool is_register() const { return mod == 3; }
};

// ModRM, SIB and displacement.
template <class Reader>
Operands take_operands(Reader& reader, Instruction& out) {
  const auto modrm = reader.template take<uint8_t>();
  const Operands operands = {static_cast<uint8_t>(modrm >> 6),
                             static_cast<uint8_t>(modrm >> 3 & 7)};
  const uint8_t rm = modrm & 7;
  if (operands.mod == 3) return operands;
  out.has_memory_operand = true;
  bool has_displacement32 = operands.mod == 2;
  if (rm == 4) {
    const auto sib = reader.template take<uint8_t>();
    if (operands.mod == 0 && (sib & 7) == 5) has_displacement32 = true;
  } else if (rm == 5 && operands.mod == 0) {
    has_displacement32 = true;
    out.has_rip_operand = true;
  }
  if (has_displacement32) {
    out.displacement_size = 4;
    out.displacement = reader.template take<int32_t>();
  } else if (operands.mod == 1) {
    out.displacement_size = 1;
    // It is a number, not a character: sign extension is intended.
    // NOLINTNEXTLINE(bugprone-signed-char-misuse,cert-str34-c)
    out.displacement = reader.template take<int8_t>();
  }
  return operands;
}

template <class T, class Reader>
void take_immediate(Reader& reader, Instruction& out) {
  out.immediate_size = sizeof(T);
  out.immediate = static_cast<uint64_t>(static_cast<int64_t>(reader.template take<T>()));
}

template <class Reader>
void take_immediate_of_operand_size(Reader& reader, Instruction& out, Prefixes prefixes) {
  if (prefixes.operand_size && !prefixes.wide)
    take_immediate<int16_t>(reader, out);
  else
    take_immediate<int32_t>(reader, out);
}

template <class Reader>
void take_wide_immediate(Reader& reader, Instruction& out, Prefixes prefixes) {
  if (prefixes.wide)
    take_immediate<int64_t>(reader, out);
  else
    take_immediate_of_operand_size(reader, out, prefixes);
}

// `target` holds the distance until the length is known.
template <class T, class Reader>
bool take_branch(Reader& reader, Instruction& out, Flow flow, Prefixes prefixes) {
  out.flow = flow;
  out.target = static_cast<uint64_t>(static_cast<int64_t>(reader.template take<T>()));
  return !prefixes.operand_size;  // processors disagree on what it means then
}

// inc, dec, call, jmp, push. Far branches and /7 are not in the table.
template <class Reader>
bool take_group5(Reader& reader, Instruction& out, Prefixes prefixes) {
  switch (take_operands(reader, out).reg) {
    case 0:
    case 1:
      return true;
    case 2:
      out.flow = Flow::call_indirect;
      return !prefixes.operand_size;
    case 4:
      out.flow = Flow::jump_indirect;
      return !prefixes.operand_size;
    case 6:
      return !prefixes.operand_size;
    default:
      return false;
  }
}

// Returns false if the instruction is not in the table after all.
template <class Reader>
bool take_rest(Encoding encoding, Reader& reader, Instruction& out, Prefixes prefixes) {
  switch (encoding) {
    case Encoding::other:
      return false;
    case Encoding::bare:
      return true;
    case Encoding::imm8:
      take_immediate<int8_t>(reader, out);
      return true;
    case Encoding::imm:
      take_immediate_of_operand_size(reader, out, prefixes);
      return true;
    case Encoding::wide_imm:
      take_wide_immediate(reader, out, prefixes);
      return true;
    case Encoding::modrm:
      take_operands(reader, out);
      return true;
    case Encoding::modrm_imm8:
      take_operands(reader, out);
      take_immediate<int8_t>(reader, out);
      return true;
    case Encoding::modrm_imm:
      take_operands(reader, out);
      take_immediate_of_operand_size(reader, out, prefixes);
      return true;
    case Encoding::lea:
      out.special = Special::lea;
      return !take_operands(reader, out).is_register();
    case Encoding::add:
      out.special =
          take_operands(reader, out).is_register() ? Special::add_register : Special::add_memory;
      return true;
    case Encoding::shift:
      return take_operands(reader, out).reg != 6;
    case Encoding::shift_uimm8: {
      const bool known = take_operands(reader, out).reg != 6;
      take_immediate<uint8_t>(reader, out);
      return known;
    }
    case Encoding::mov_imm8: {
      const bool known = take_operands(reader, out).reg == 0;
      take_immediate<int8_t>(reader, out);
      return known;
    }
    case Encoding::mov_imm: {
      const bool known = take_operands(reader, out).reg == 0;
      take_immediate_of_operand_size(reader, out, prefixes);
      return known;
    }
    case Encoding::unary8:
    case Encoding::unary: {
      const uint8_t operation = take_operands(reader, out).reg;
      if (operation == 0 && encoding == Encoding::unary8) take_immediate<int8_t>(reader, out);
      if (operation == 0 && encoding == Encoding::unary)
        take_immediate_of_operand_size(reader, out, prefixes);
      return operation != 1;
    }
    case Encoding::inc_dec:
      return take_operands(reader, out).reg <= 1;
    case Encoding::group5:
      return take_group5(reader, out, prefixes);
    case Encoding::bit_test: {
      const bool known = take_operands(reader, out).reg >= 4;
      take_immediate<uint8_t>(reader, out);
      return known;
    }
    case Encoding::nop:  // with prefixes it is xchg
      out.special = Special::nop;
      return !prefixes.operand_size && !prefixes.rex;
    case Encoding::long_nop:
      out.special = Special::nop;
      return take_operands(reader, out).reg == 0;
    case Encoding::simd:
      take_operands(reader, out);
      return prefixes.operand_size;
    case Encoding::ret:
      out.flow = Flow::ret;
      return !prefixes.operand_size;
    case Encoding::jump8:
      return take_branch<int8_t>(reader, out, Flow::jump, prefixes);
    case Encoding::jump_if8:
      return take_branch<int8_t>(reader, out, Flow::jump_if, prefixes);
    case Encoding::jump32:
      return take_branch<int32_t>(reader, out, Flow::jump, prefixes);
    case Encoding::jump_if32:
      return take_branch<int32_t>(reader, out, Flow::jump_if, prefixes);
    case Encoding::call32:
      return take_branch<int32_t>(reader, out, Flow::call, prefixes);
  }
  return false;
}

template <class Reader>
bool take(Reader reader, Address address, Instruction& out) {
  constexpr uint8_t kOperandSize = 0x66, kRex = 0x40, kRexMask = 0xf0, kRexWide = 8, kEscape = 0x0f;
  Prefixes prefixes;
  auto byte = reader.template take<uint8_t>();
  if (byte == kOperandSize) {
    prefixes.operand_size = true;
    byte = reader.template take<uint8_t>();
  }
  if ((byte & kRexMask) == kRex) {
    prefixes.rex = true;
    prefixes.wide = (byte & kRexWide) != 0;
    byte = reader.template take<uint8_t>();
  }
  const Encoding encoding =
      byte == kEscape ? kTwoByte[reader.template take<uint8_t>()] : kOneByte[byte];
  if (!take_rest(encoding, reader, out, prefixes) || !reader.ok()) return false;
  out.address = address;
  out.length = static_cast<uint8_t>(reader.position());
  if (out.has_target()) out.target += out.end();
  if (out.has_rip_operand) out.memory = out.end() + static_cast<uint64_t>(out.displacement);
  return true;
}

}  // namespace

std::optional<Instruction> decode_by_table(std::span<const uint8_t> bytes, Address address) {
  std::optional<Instruction> out(std::in_place);
  const bool known = bytes.size() >= kMaxInstructionLength
                         ? take(Reader<true>(bytes), address, *out)
                         : take(Reader<false>(bytes), address, *out);
  if (!known) out.reset();
  return out;
}

}  // namespace pinprick::arch
