#include "arch/x86_64/borrowed_call.h"

#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "arch/x86_64/emit.h"

namespace pinprick::arch {
namespace {

constexpr uint64_t kOverflowFlag = 1 << 11;
constexpr uint64_t kDirectionFlag = 1 << 10;

// Where the code holds what it restores.
constexpr size_t kArithmeticFlags = 34;  // lahf's byte
constexpr size_t kOverflow = 33;
constexpr size_t kDirection = 40;  // the instruction cld or std
constexpr uint8_t kStd = 0xfd;
constexpr size_t kFirstRegister = 41;  // movabs each: two bytes, then the value
constexpr size_t kPerRegister = 10;
using Register = decltype(user_regs_struct::rax);
constexpr Register user_regs_struct::*kRestored[] = {
    &user_regs_struct::rax, &user_regs_struct::rbx, &user_regs_struct::rcx, &user_regs_struct::rdx,
    &user_regs_struct::rsi, &user_regs_struct::rdi, &user_regs_struct::rbp, &user_regs_struct::r8,
    &user_regs_struct::r9,  &user_regs_struct::r10, &user_regs_struct::r11, &user_regs_struct::r12,
    &user_regs_struct::r13, &user_regs_struct::r14, &user_regs_struct::r15};
constexpr size_t kInstructionPointer = kFirstRegister + std::size(kRestored) * kPerRegister + 6;
constexpr size_t kSignalMask = kInstructionPointer + 8;
constexpr size_t kEnd = kSignalMask + 8;

}  // namespace

std::vector<uint8_t> borrowed_call(Address at, const user_regs_struct& home, uint64_t signal_mask) {
  Assembler code(at);
  const auto mask = code.new_label();
  const auto target = code.new_label();
  code.syscall();

  code.mov_imm32(Reg::rax, SYS_rt_sigprocmask);
  code.mov_imm32(Reg::rdi, SIG_SETMASK);
  code.lea(Reg::rsi, mask);
  code.mov_imm32(Reg::rdx, 0);
  code.mov_imm32(Reg::r10, sizeof signal_mask);
  code.syscall();

  // lahf's layout in ah, and al such that adding 127 overflows iff the overflow flag is to be set.
  const auto arithmetic = static_cast<uint32_t>(home.eflags & 0xff) << 8;
  code.mov_imm32(Reg::rax, arithmetic | ((home.eflags & kOverflowFlag) != 0 ? 1 : 0));
  code.add_al(127);
  code.sahf();
  if (home.eflags & kDirectionFlag)
    code.std_();
  else
    code.cld();

  code.mov_imm64(Reg::rax, home.rax);
  code.mov_imm64(Reg::rbx, home.rbx);
  code.mov_imm64(Reg::rcx, home.rcx);
  code.mov_imm64(Reg::rdx, home.rdx);
  code.mov_imm64(Reg::rsi, home.rsi);
  code.mov_imm64(Reg::rdi, home.rdi);
  code.mov_imm64(Reg::rbp, home.rbp);
  code.mov_imm64(Reg::r8, home.r8);
  code.mov_imm64(Reg::r9, home.r9);
  code.mov_imm64(Reg::r10, home.r10);
  code.mov_imm64(Reg::r11, home.r11);
  code.mov_imm64(Reg::r12, home.r12);
  code.mov_imm64(Reg::r13, home.r13);
  code.mov_imm64(Reg::r14, home.r14);
  code.mov_imm64(Reg::r15, home.r15);
  code.jmp_memory(target);
  code.bind(target);
  code.u64(home.rip);
  code.bind(mask);
  code.u64(signal_mask);
  auto bytes = code.finish();
  assert(bytes && bytes->size() == kEnd && kEnd <= kBorrowedCallMaxSize);
  return *bytes;
}

std::optional<BorrowedHome> home_of_borrowed_call(Address at, std::span<const uint8_t> bytes) {
  if (bytes.size() < kEnd) return std::nullopt;
  const auto value_at = [&](size_t offset) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  };
  BorrowedHome home;
  for (size_t i = 0; i < std::size(kRestored); ++i)
    home.registers.*kRestored[i] = value_at(kFirstRegister + i * kPerRegister + 2);
  home.registers.rip = value_at(kInstructionPointer);
  home.signal_mask = value_at(kSignalMask);
  home.registers.eflags = bytes[kArithmeticFlags] | (bytes[kOverflow] != 0 ? kOverflowFlag : 0) |
                          (bytes[kDirection] == kStd ? kDirectionFlag : 0);
  // What was read in the wrong places makes other bytes.
  const auto again = borrowed_call(at, home.registers, home.signal_mask);
  if (!std::equal(again.begin(), again.end(), bytes.begin())) return std::nullopt;
  home.registers.eflags &= kBorrowedFlags;
  return home;
}

}  // namespace pinprick::arch
