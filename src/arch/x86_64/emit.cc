#include "arch/x86_64/emit.h"

#include <cassert>
#include <cstring>

#include "arch/jump.h"
#include "arch/x86_64/encoding.h"

namespace pinprick::arch {
namespace {

constexpr uint8_t kFs = 0x64, kGs = 0x65;  // prefixes
constexpr uint8_t kWide = 8;               // the bit of a REX prefix for 64 bits

}  // namespace

Assembler::Label Assembler::new_label() {
  labels_.emplace_back();
  return {static_cast<uint32_t>(labels_.size() - 1)};
}

void Assembler::bind(Label label) {
  assert(!labels_[label.id]);
  labels_[label.id] = code_.size();
}

void Assembler::bind_at(Label label, Address address) {
  assert(!labels_[label.id] && address >= base_ && address <= here());
  labels_[label.id] = address - base_;
}

Assembler::Label Assembler::bind_here() {
  Label label = new_label();
  bind(label);
  return label;
}

std::optional<std::vector<uint8_t>> Assembler::finish() {
  if (!settle()) return std::nullopt;
  return std::move(code_);
}

bool Assembler::settle() {
  bool reaches_all = !out_of_reach_;
  for (const Fixup& fixup : fixups_) {
    assert(labels_[fixup.label] && "a label was referred to but never bound");
    const size_t target = *labels_[fixup.label];
    uint8_t* field = code_.data() + fixup.position;
    switch (fixup.kind) {
      case Fixup::Kind::rel8: {
        const int64_t distance = static_cast<int64_t>(target - (fixup.position + 1));
        reaches_all = reaches_all && distance >= INT8_MIN && distance <= INT8_MAX;
        *field = static_cast<uint8_t>(distance);
        break;
      }
      case Fixup::Kind::rel32: {
        const auto distance = static_cast<int32_t>(target - (fixup.position + 4));
        std::memcpy(field, &distance, sizeof distance);
        break;
      }
      case Fixup::Kind::abs64: {
        const Address address = base_ + target;
        std::memcpy(field, &address, sizeof address);
        break;
      }
      case Fixup::Kind::distance64: {
        const uint64_t distance = target - *labels_[fixup.from];
        std::memcpy(field, &distance, sizeof distance);
        break;
      }
    }
  }
  fixups_.clear();
  labels_.clear();
  out_of_reach_ = false;
  return reaches_all;
}

std::span<const uint8_t> Assembler::bytes() const {
  assert(fixups_.empty() && !out_of_reach_);
  return code_;
}

void Assembler::raw(std::span<const uint8_t> bytes) {
  code_.insert(code_.end(), bytes.begin(), bytes.end());
}

void Assembler::u32(uint32_t value) {
  const size_t at = code_.size();
  code_.resize(at + sizeof value);
  std::memcpy(code_.data() + at, &value, sizeof value);
}

void Assembler::u64(uint64_t value) {
  u32(static_cast<uint32_t>(value));
  u32(static_cast<uint32_t>(value >> 32));
}

void Assembler::u64(Label address_of) {
  reference(address_of, Fixup::Kind::abs64);
}

void Assembler::distance(Label from, Label to) {
  reference(to, Fixup::Kind::distance64);
  fixups_.back().from = from.id;
}

void Assembler::string(std::string_view text) {
  code_.insert(code_.end(), text.begin(), text.end());
  u8(0);
}

void Assembler::align(uint64_t alignment, uint8_t filler) {
  while (here() % alignment != 0) u8(filler);
}

void Assembler::reference(Label label, Fixup::Kind kind) {
  fixups_.push_back({code_.size(), label.id, kind});
  const size_t width = kind == Fixup::Kind::rel8 ? 1 : kind == Fixup::Kind::rel32 ? 4 : 8;
  code_.resize(code_.size() + width);
}

void Assembler::relative32(Address to) {
  const Address from = here() + 4;
  if (!reaches(from, to)) out_of_reach_ = true;
  u32(static_cast<uint32_t>(to - from));
}

void Assembler::relative8(Label to) {
  reference(to, Fixup::Kind::rel8);
}

void Assembler::rex_w(Reg reg, Reg rm, Reg index) {
  u8(static_cast<uint8_t>(0x48 | high(reg) << 2 | high(index) << 1 | high(rm)));
}

void Assembler::rex_if_high(Reg rm) {
  if (high(rm)) u8(0x41);
}

void Assembler::wide(uint8_t opcode, Reg reg, Reg rm) {
  rex_w(reg, rm);
  u8(opcode);
  u8(modrm(3, low3(reg), low3(rm)));
}

void Assembler::wide(uint8_t opcode, Reg reg, Reg base, int32_t offset) {
  rex_w(reg, base);
  u8(opcode);
  modrm_memory(low3(reg), base, offset);
}

void Assembler::modrm_memory(uint8_t reg, Reg base, int32_t offset) {
  const bool none = offset == 0 && low3(base) != 5;
  const bool small = offset >= INT8_MIN && offset <= INT8_MAX;
  u8(modrm(none ? 0 : small ? 1 : 2, reg, low3(base)));
  if (low3(base) == 4) u8(0x24);  // rsp and r12 need an index byte
  if (none) return;
  if (small)
    u8(static_cast<uint8_t>(offset));
  else
    u32(static_cast<uint32_t>(offset));
}

void Assembler::modrm_fs(uint8_t reg, int32_t offset) {
  u8(modrm(0, reg, 4));
  u8(0x25);  // neither base nor index
  u32(static_cast<uint32_t>(offset));
}

void Assembler::modrm_indexed(Reg reg, Reg base, Reg index, Scale scale) {
  assert(low3(base) != 5 && index != Reg::rsp);  // would mean: neither base nor index
  u8(modrm(0, low3(reg), 4));
  u8(modrm(static_cast<uint8_t>(scale), low3(index), low3(base)));
}

void Assembler::modrm_rip(uint8_t reg, Label label) {
  u8(modrm(0, reg, 5));
  reference(label, Fixup::Kind::rel32);
}

void Assembler::modrm_rip(uint8_t reg, Address address) {
  u8(modrm(0, reg, 5));
  relative32(address);
}

void Assembler::push(Reg reg) {
  rex_if_high(reg);
  u8(static_cast<uint8_t>(0x50 + low3(reg)));
}

void Assembler::pop(Reg reg) {
  rex_if_high(reg);
  u8(static_cast<uint8_t>(0x58 + low3(reg)));
}

void Assembler::pushfq() {
  u8(0x9c);
}
void Assembler::popfq() {
  u8(0x9d);
}

void Assembler::push_imm(int32_t value) {
  const bool small = value >= INT8_MIN && value <= INT8_MAX;
  u8(small ? 0x6a : 0x68);
  if (small)
    u8(static_cast<uint8_t>(value));
  else
    u32(static_cast<uint32_t>(value));
}

void Assembler::push(Label memory) {
  u8(0xff);
  modrm_rip(6, memory);
}

void Assembler::push_memory(Address memory) {
  u8(0xff);
  modrm_rip(6, memory);
}

void Assembler::mov(Reg to, Reg from) {
  wide(0x89, from, to);
}

void Assembler::zero_extend(Reg reg, unsigned bytes) {
  assert(reg <= Reg::rbx && (bytes == 1 || bytes == 2 || bytes == 4));
  if (bytes == 4) {
    u8(0x89);
  } else {
    u8(0x0f);
    u8(bytes == 2 ? 0xb7 : 0xb6);
  }
  u8(modrm(3, low3(reg), low3(reg)));
}

void Assembler::sign_extend(Reg reg, unsigned bytes) {
  assert(bytes == 1 || bytes == 2 || bytes == 4);
  rex_w(reg, reg);
  if (bytes == 4) {
    u8(0x63);
  } else {
    u8(0x0f);
    u8(bytes == 2 ? 0xbf : 0xbe);
  }
  u8(modrm(3, low3(reg), low3(reg)));
}

// A prefix for 64 bits would turn %ah into %spl.
void Assembler::mov_high_byte(Reg to, Reg from) {
  assert(!high(to) && from <= Reg::rbx);
  u8(0x0f);
  u8(0xb6);
  u8(modrm(3, low3(to), low3(from) + 4u));
}

void Assembler::mov_imm32(Reg to, uint32_t value) {
  rex_if_high(to);
  u8(static_cast<uint8_t>(0xb8 + low3(to)));
  u32(value);
}

void Assembler::mov_imm64(Reg to, uint64_t value) {
  rex_w(Reg::rax, to);
  u8(static_cast<uint8_t>(0xb8 + low3(to)));
  u64(value);
}

void Assembler::load(Reg to, Reg base, int32_t offset) {
  wide(0x8b, to, base, offset);
}

void Assembler::load(Reg to, Label memory) {
  rex_w(to, Reg::rax);
  u8(0x8b);
  modrm_rip(low3(to), memory);
}

void Assembler::segment_prefix(Segment segment) {
  if (segment == Segment::fs) u8(kFs);
  if (segment == Segment::gs) u8(kGs);
}

uint8_t Assembler::rex_bits(Reg reg, const MemoryOperand& memory) const {
  const bool high_index = memory.index && high(*memory.index);
  const bool high_base = memory.base && high(*memory.base);
  return static_cast<uint8_t>(0x40 | high(reg) << 2 | high_index << 1 | high_base);
}

void Assembler::modrm_operand(Reg reg, const MemoryOperand& memory) {
  assert(memory.index != Reg::rsp);
  constexpr unsigned kNoIndex = 4, kNoBase = 5;
  u8(modrm(memory.base ? 2 : 0, low3(reg), 4));
  u8(modrm(static_cast<uint8_t>(memory.scale), memory.index ? low3(*memory.index) : kNoIndex,
           memory.base ? low3(*memory.base) : kNoBase));
  u32(static_cast<uint32_t>(memory.offset));
}

void Assembler::load_zero_extended(Reg to, const MemoryOperand& from, unsigned bytes) {
  assert(bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8);
  segment_prefix(from.segment);
  u8(static_cast<uint8_t>(rex_bits(to, from) | (bytes == 8 ? kWide : 0)));
  if (bytes >= 4) {
    u8(0x8b);
  } else {
    u8(0x0f);
    u8(bytes == 2 ? 0xb7 : 0xb6);
  }
  modrm_operand(to, from);
}

void Assembler::truncate(Reg to, const MemoryOperand& from, unsigned bytes) {
  assert(bytes == 4 || bytes == 8);
  segment_prefix(from.segment);
  u8(bytes == 8 ? 0xf2 : 0xf3);
  u8(static_cast<uint8_t>(rex_bits(to, from) | kWide));
  u8(0x0f);
  u8(0x2c);
  modrm_operand(to, from);
}

void Assembler::truncate(Reg to, unsigned vector, unsigned bytes) {
  assert(vector < 16 && (bytes == 4 || bytes == 8));
  u8(bytes == 8 ? 0xf2 : 0xf3);
  rex_w(to, static_cast<Reg>(vector));
  u8(0x0f);
  u8(0x2c);
  u8(modrm(3, low3(to), vector & 7));
}

void Assembler::move_from_vector(Reg to, unsigned vector) {
  assert(vector < 16);
  u8(0x66);
  rex_w(static_cast<Reg>(vector), to);
  u8(0x0f);
  u8(0x7e);
  u8(modrm(3, vector & 7, low3(to)));
}

void Assembler::store_vector(Reg base, int32_t offset) {
  rex_if_high(base);
  u8(0x0f);
  u8(0x11);
  modrm_memory(0, base, offset);
}

void Assembler::load_vector(Reg base, int32_t offset) {
  rex_if_high(base);
  u8(0x0f);
  u8(0x10);
  modrm_memory(0, base, offset);
}

void Assembler::move_to_vector(Reg from) {
  u8(0x66);
  rex_w(Reg::rax, from);
  u8(0x0f);
  u8(0x6e);
  u8(modrm(3, 0, low3(from)));
}

void Assembler::compute_real(RealOperation operation, Reg base, int32_t offset) {
  u8(0xf2);
  rex_if_high(base);
  u8(0x0f);
  u8(static_cast<uint8_t>(operation));
  modrm_memory(0, base, offset);
}

void Assembler::convert_to_real(Reg from) {
  u8(0xf2);
  rex_w(Reg::rax, from);
  u8(0x0f);
  u8(0x2a);
  u8(modrm(3, 0, low3(from)));
}

void Assembler::widen_real(Reg base, int32_t offset) {
  u8(0xf3);
  rex_if_high(base);
  u8(0x0f);
  u8(0x5a);
  modrm_memory(0, base, offset);
}

void Assembler::store_float_control(Reg base, int32_t offset) {
  rex_if_high(base);
  u8(0x0f);
  u8(0xae);
  modrm_memory(3, base, offset);
}

void Assembler::load_float_control(Reg base, int32_t offset) {
  rex_if_high(base);
  u8(0x0f);
  u8(0xae);
  modrm_memory(2, base, offset);
}

void Assembler::load_indexed8(Reg to, Reg base, Reg index) {
  rex_w(to, base, index);
  u8(0x8b);
  modrm_indexed(to, base, index, Scale::by_8);
}

void Assembler::store(Reg base, int32_t offset, Reg from) {
  wide(0x89, from, base, offset);
}

void Assembler::lea(Reg to, Reg base, int32_t offset) {
  wide(0x8d, to, base, offset);
}

void Assembler::lea_wide(Reg to, Reg base, int32_t offset) {
  assert(low3(base) != 4);
  rex_w(to, base);
  u8(0x8d);
  u8(modrm(2, low3(to), low3(base)));
  u32(static_cast<uint32_t>(offset));
}

void Assembler::lea(Reg to, Label address) {
  rex_w(to, Reg::rax);
  u8(0x8d);
  modrm_rip(low3(to), address);
}

void Assembler::lea(Reg to, Address address) {
  rex_w(to, Reg::rax);
  u8(0x8d);
  modrm_rip(low3(to), address);
}

void Assembler::lea_indexed(Reg to, Reg base, Reg index, Scale scale) {
  rex_w(to, base, index);
  u8(0x8d);
  modrm_indexed(to, base, index, scale);
}

void Assembler::store_imm32(Reg base, int32_t offset, int32_t value) {
  rex_w(Reg::rax, base);
  u8(0xc7);
  modrm_memory(0, base, offset);
  u32(static_cast<uint32_t>(value));
}

void Assembler::store_fs(int32_t offset, Reg from) {
  u8(kFs);
  rex_w(from, Reg::rax);
  u8(0x89);
  modrm_fs(low3(from), offset);
}

void Assembler::store_fs_imm32(int32_t offset, int32_t value) {
  u8(kFs);
  rex_w(Reg::rax, Reg::rax);
  u8(0xc7);
  modrm_fs(0, offset);
  u32(static_cast<uint32_t>(value));
}

void Assembler::store_fs32(int32_t offset, Reg from) {
  u8(kFs);
  if (high(from)) u8(0x44);
  u8(0x89);
  modrm_fs(low3(from), offset);
}

void Assembler::store_fs32_imm32(int32_t offset, uint32_t value) {
  u8(kFs);
  u8(0xc7);
  modrm_fs(0, offset);
  u32(value);
}

void Assembler::pop_fs(int32_t offset) {
  u8(kFs);
  u8(0x8f);
  modrm_fs(0, offset);
}

void Assembler::load_sx32(Reg to, Reg base, int32_t offset) {
  wide(0x63, to, base, offset);
}

void Assembler::load_fs_sx32(Reg to, int32_t offset) {
  u8(kFs);
  rex_w(to, Reg::rax);
  u8(0x63);
  modrm_fs(low3(to), offset);
}

void Assembler::locked_add(Reg base, int32_t offset, Reg number) {
  u8(0xf0);
  wide(0x01, number, base, offset);
}

void Assembler::read_clock() {
  u8(0x0f);
  u8(0x31);
}

void Assembler::locked_increment(Reg base, int32_t offset) {
  u8(0xf0);
  rex_w(Reg::rax, base);
  u8(0xff);
  modrm_memory(0, base, offset);
}

void Assembler::cld() {
  u8(0xfc);
}

void Assembler::std_() {
  u8(0xfd);
}

void Assembler::syscall() {
  u8(0x0f);
  u8(0x05);
}

void Assembler::jmp(Address to) {
  u8(kJumpOpcode);
  relative32(to);
}

void Assembler::jmp(Label to) {
  u8(kJumpOpcode);
  reference(to, Fixup::Kind::rel32);
}

void Assembler::jmp_short(Label to) {
  u8(kShortJumpOpcode);
  reference(to, Fixup::Kind::rel8);
}

void Assembler::jmp_short(Address to) {
  u8(kShortJumpOpcode);
  const auto distance = static_cast<int64_t>(to - here() - 1);
  if (distance < INT8_MIN || distance > INT8_MAX) out_of_reach_ = true;
  u8(static_cast<uint8_t>(distance));
}

void Assembler::jmp_memory(Address memory) {
  u8(0xff);
  modrm_rip(4, memory);
}

void Assembler::jmp_memory(Label memory) {
  u8(0xff);
  modrm_rip(4, memory);
}

void Assembler::jmp_memory(Reg base, int32_t offset) {
  rex_if_high(base);
  u8(0xff);
  modrm_memory(4, base, offset);
}

void Assembler::call(Address to) {
  u8(0xe8);
  relative32(to);
}

void Assembler::call(Label to) {
  u8(0xe8);
  reference(to, Fixup::Kind::rel32);
}

void Assembler::call_memory(Address memory) {
  u8(0xff);
  modrm_rip(2, memory);
}
void Assembler::call_memory(Label memory) {
  u8(0xff);
  modrm_rip(2, memory);
}

void Assembler::call_memory(Reg base, int32_t offset) {
  rex_if_high(base);
  u8(0xff);
  modrm_memory(2, base, offset);
}

void Assembler::nop(Label memory) {
  u8(0x0f);
  u8(0x1f);
  u8(modrm(2, 0, 0));
  reference(memory, Fixup::Kind::rel32);
}

void Assembler::ret() {
  u8(0xc3);
}

void Assembler::jrcxz(Label to) {
  u8(0xe3);
  reference(to, Fixup::Kind::rel8);
}

void Assembler::loop(Label to) {
  u8(0xe2);
  reference(to, Fixup::Kind::rel8);
}

void Assembler::pause() {
  u8(0xf3);
  u8(0x90);
}

void Assembler::jump_if(Condition condition, Label to) {
  u8(static_cast<uint8_t>(0x70 | static_cast<uint8_t>(condition)));
  reference(to, Fixup::Kind::rel8);
}

void Assembler::jump_far_if(Condition condition, Label to) {
  u8(0x0f);
  u8(static_cast<uint8_t>(0x80 | static_cast<uint8_t>(condition)));
  reference(to, Fixup::Kind::rel32);
}

void Assembler::jump_if(Condition condition, Address to) {
  u8(0x0f);
  u8(static_cast<uint8_t>(0x80 | static_cast<uint8_t>(condition)));
  relative32(to);
}

}  // namespace pinprick::arch
