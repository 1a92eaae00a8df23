// Assembler: writes machine code for a given final address into a byte vector. One call per
// instruction.
//
// Pure: nothing is executed before the bytes are copied to where they belong. Labels may be bound
// after they are used. If a displacement does not fit, settle() returns false and finish() returns
// nullopt, so that callers need no check at each instruction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/address.h"

namespace pinprick::arch {

enum class Reg : uint8_t {
  rax,
  rcx,
  rdx,
  rbx,
  rsp,
  rbp,
  rsi,
  rdi,
  r8,
  r9,
  r10,
  r11,
  r12,
  r13,
  r14,
  r15,
};

// The condition of a jump, as it is encoded.
enum class Condition : uint8_t {
  overflow,
  no_overflow,
  below,
  above_or_equal,
  equal,
  not_equal,
  below_or_equal,
  above,
  negative,
  not_negative,
  parity,
  no_parity,
  less,
  greater_or_equal,
  less_or_equal,
  greater,
};

// The factor of an index.
enum class Scale : uint8_t { by_1, by_2, by_4, by_8 };

enum class Segment : uint8_t { none, fs, gs };

// Memory at offset + base + index * scale, in a segment.
struct MemoryOperand {
  std::optional<Reg> base = std::nullopt;
  std::optional<Reg> index = std::nullopt;  // not rsp
  Scale scale = Scale::by_1;
  int32_t offset = 0;
  Segment segment = Segment::none;
};

class Assembler {
 public:
  explicit Assembler(Address base) : base_(base) {
    constexpr size_t kUsual = 256, kUsualLabels = 8;  // of a stub
    code_.reserve(kUsual);
    labels_.reserve(kUsualLabels);
    fixups_.reserve(kUsualLabels);
  }

  // A position in the code, which can be used before or after it is bound.
  struct Label {
    uint32_t id = 0;
  };
  Label new_label();
  void bind(Label label);
  Label bind_here();
  void bind_at(Label label, Address address);  // of code that is already emitted

  Address here() const { return base_ + code_.size(); }
  size_t size() const { return code_.size(); }

  // Returns the code; nullopt if a displacement did not fit (the stub is out of reach of
  // something).
  std::optional<std::vector<uint8_t>> finish();
  // The same after each of several stubs; its labels are forgotten. Returns false if a displacement
  // did not fit.
  bool settle();
  // Discards what was emitted from offset `size` on.
  void take_back(size_t size) { code_.resize(size); }
  std::span<const uint8_t> bytes() const;  // requires that all of it is settled

  void raw(std::span<const uint8_t> bytes);
  void u8(uint8_t value) { code_.push_back(value); }
  void u32(uint32_t value);
  void u64(uint64_t value);
  void u64(Label address_of);           // the label's absolute address
  void distance(Label from, Label to);  // 8 bytes: to - from
  void string(std::string_view text);   // with a terminating 0
  void align(uint64_t alignment, uint8_t filler);

  void push(Reg reg);
  void pop(Reg reg);
  void pushfq();
  void popfq();
  void push_imm(int32_t value);  // push $value, sign-extended
  void push(Label memory);       // push memory(%rip)
  void push_memory(Address memory);
  // Names without a number are 64-bit instructions. The suffixes _imm8 and _imm32 are the encoded
  // size of an immediate value; it is sign-extended.
  void mov(Reg to, Reg from);
  // Clears all but the lowest 1, 2 or 4 bytes of rax, rcx, rdx or rbx.
  void zero_extend(Reg reg, unsigned bytes);
  // Makes all of it the number with a sign that the lowest 1, 2 or 4 bytes are.
  void sign_extend(Reg reg, unsigned bytes);
  // Loads the second byte of rax, rcx, rdx or rbx; the upper bytes become 0.
  void mov_high_byte(Reg to, Reg from);
  void mov_imm32(Reg to, uint32_t value);  // zero-extends
  void mov_imm64(Reg to, uint64_t value);
  void load(Reg to, Reg base, int32_t offset);
  void load(Reg to, Label memory);
  // Loads 1, 2, 4 or 8 bytes; the upper bytes become 0.
  void load_zero_extended(Reg to, const MemoryOperand& from, unsigned bytes);
  // Converts a floating-point number of 4 or 8 bytes to an integer, towards 0: that in memory, or
  // in one of xmm0 to xmm15. The smallest integer stands for all that have none.
  void truncate(Reg to, const MemoryOperand& from, unsigned bytes);
  void truncate(Reg to, unsigned vector, unsigned bytes);
  void move_from_vector(Reg to, unsigned vector);  // its lowest 8 bytes
  // These are of xmm0, of which they leave all above the lowest 16 bytes as it is. The first two
  // store and load these 16 bytes.
  void store_vector(Reg base, int32_t offset);
  void load_vector(Reg base, int32_t offset);
  void move_to_vector(Reg from);
  enum class RealOperation : uint8_t {
    add = 0x58,
    multiply = 0x59,
    subtract = 0x5c,
    divide = 0x5e
  };
  void compute_real(RealOperation operation, Reg base, int32_t offset);  // xmm0 op= [base + offset]
  void convert_to_real(Reg from);                                        // xmm0 = the integer
  void widen_real(Reg base, int32_t offset);           // xmm0 = the number of 4 bytes, as one of 8
  void store_float_control(Reg base, int32_t offset);  // stmxcsr
  void load_float_control(Reg base, int32_t offset);   // ldmxcsr
  void load_indexed8(Reg to, Reg base, Reg index);     // to = [base + index * 8]
  void store(Reg base, int32_t offset, Reg from);
  void store_imm32(Reg base, int32_t offset, int32_t value);
  void lea(Reg to, Reg base, int32_t offset);
  void lea_wide(Reg to, Reg base, int32_t offset);  // the offset always takes four bytes, its last
  void lea(Reg to, Label address);
  void lea(Reg to, Address address);  // RIP-relative
  void lea_indexed(Reg to, Reg base, Reg index, Scale scale = Scale::by_1);
  void store_fs(int32_t offset, Reg from);  // %fs:offset = from
  void store_fs_imm32(int32_t offset, int32_t value);
  void store_fs32(int32_t offset, Reg from);
  void store_fs32_imm32(int32_t offset, uint32_t value);
  void pop_fs(int32_t offset);                // pop %fs:offset
  void load_fs_sx32(Reg to, int32_t offset);  // sign-extends a 32-bit value
  void load_sx32(Reg to, Reg base, int32_t offset);
  void locked_increment(Reg base, int32_t offset);
  void locked_add(Reg base, int32_t offset, Reg number);  // [base + offset] += number
  void read_clock();                                      // edx:eax = the time-stamp counter
  void lahf();
  void sahf();
  void seto_al();
  void add_al(uint8_t value);
  void add(Reg to, Reg from);
  void add(Reg to, Reg base, int32_t offset);  // to += [base + offset]
  void add_imm32(Reg to, int32_t value);       // sign-extends, as the next five
  void sub_imm32(Reg to, int32_t value);
  void and_imm32(Reg to, int32_t value);
  void or_imm32(Reg to, int32_t value);
  void xor_imm32(Reg to, int32_t value);
  void multiply_imm32(Reg to, int32_t value);
  void and_(Reg to, Reg from);
  void or_(Reg to, Reg from);
  void xor_(Reg to, Reg from);
  void multiply(Reg to, Reg from);
  void negate(Reg reg);
  void complement(Reg reg);
  // rax = rdx:rax / reg, rdx = the remainder. A quotient that does not fit is a fault.
  void divide(Reg reg);
  void divide_signed(Reg reg);
  void sign_into_rdx();  // rdx:rax = rax with its sign
  // By a number of bits, or by the lowest 6 bits of rcx.
  void shift_left(Reg reg, uint8_t bits);
  void shift_right_signed(Reg reg, uint8_t bits);
  void shift_left_by_cl(Reg reg);
  void shift_right_by_cl(Reg reg);
  void shift_right_signed_by_cl(Reg reg);
  void sub(Reg to, Reg from);
  void sub(Reg to, Reg base, int32_t offset);
  void cmp(Reg left, Reg right);
  void cmp(Reg left, Reg base, int32_t offset);         // with [base + offset]
  void cmp_memory(Reg base, int32_t offset, Reg with);  // [base + offset] with a register
  void cmp_indexed(Reg base, Reg index, Reg with);      // [base + index] with a register
  void cmp_imm32(Reg reg, int32_t value);
  void cmp32_imm8(Reg reg, int8_t value);
  void cmp32_imm32(Reg reg, uint32_t value);
  void and32_imm32(Reg reg, uint32_t value);
  void shift_right(Reg reg, uint8_t bits);
  void halve32(Reg reg);
  void test(Reg reg);  // against itself
  void test32(Reg reg);
  void multiply32(Reg reg, uint32_t factor);  // 32-bit, zero-extends
  void cld();
  void std_();
  void syscall();
  void jmp(Address to);
  void jmp(Label to);        // rel32
  void jmp_short(Label to);  // rel8
  void jmp_short(Address to);
  void jmp_memory(Address memory);
  void jmp_memory(Label memory);
  void jmp_memory(Reg base, int32_t offset);
  void call(Address to);
  void call(Label to);
  void call_memory(Address memory);
  void call_memory(Label memory);
  void call_memory(Reg base, int32_t offset);
  void nop(Label memory);  // 7 bytes; the last four are the distance from its end to `memory`
  void ret();
  void jrcxz(Label to);  // rel8
  void loop(Label to);   // rel8; decrements rcx first
  void pause();
  void jump_if(Condition condition, Label to);  // rel8
  void jump_far_if(Condition condition, Label to);
  void jump_if(Condition condition, Address to);

  // For instructions that are copied except for their last field, which is relative.
  void relative8(Label to);
  void relative32(Address to);
  void mark_out_of_reach() { out_of_reach_ = true; }

 private:
  struct Fixup {
    size_t position;  // of the displacement
    uint32_t label;
    enum class Kind : uint8_t { rel8, rel32, abs64, distance64 } kind;
    uint32_t from = 0;  // the other label of a distance
  };

  void rex_w(Reg reg, Reg rm, Reg index = Reg::rax);
  void rex_if_high(Reg rm);
  // Instructions on 64 bits with a register and another one, or memory.
  void wide(uint8_t opcode, Reg reg, Reg rm);
  void wide(uint8_t opcode, Reg reg, Reg base, int32_t offset);
  void modrm_memory(uint8_t reg, Reg base, int32_t offset);
  void modrm_fs(uint8_t reg, int32_t offset);
  void modrm_indexed(Reg reg, Reg base, Reg index, Scale scale);
  void segment_prefix(Segment segment);
  uint8_t rex_bits(Reg reg, const MemoryOperand& memory) const;
  void modrm_operand(Reg reg, const MemoryOperand& memory);
  void group1_imm32(uint8_t operation, Reg reg, uint32_t value);
  void group1_imm(uint8_t operation, Reg reg, int32_t value);  // of 64 bits
  void group2(uint8_t operation, Reg reg, uint8_t bits);
  void group2_by_cl(uint8_t operation, Reg reg);
  void group3(uint8_t operation, Reg reg);
  void modrm_rip(uint8_t reg, Label label);
  void modrm_rip(uint8_t reg, Address address);  // the displacement ends the instruction
  void reference(Label label, Fixup::Kind kind);

  Address base_;
  std::vector<uint8_t> code_;
  std::vector<std::optional<size_t>> labels_;
  std::vector<Fixup> fixups_;
  bool out_of_reach_ = false;
};

}  // namespace pinprick::arch
