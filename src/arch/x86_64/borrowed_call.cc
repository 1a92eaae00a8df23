#include "arch/x86_64/borrowed_call.h"

#include <signal.h>
#include <sys/syscall.h>

#include <cassert>

#include "arch/x86_64/emit.h"

namespace pinprick::arch {
namespace {

constexpr uint64_t kOverflowFlag = 1 << 11;
constexpr uint64_t kDirectionFlag = 1 << 10;

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
  assert(bytes && bytes->size() <= kBorrowedCallMaxSize);
  return *bytes;
}

}  // namespace pinprick::arch
