// Calls code with chosen values in every general register and flag, and shows what it leaves there.
#pragma once

#include <cstdint>

namespace pinprick {

// Layout known to call_with_registers.S. rsp is not among them.
struct CallRegisters {
  uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, flags;
};

inline constexpr uint64_t kArithmeticFlags = 0x8d5;  // CF PF AF ZF SF OF

extern "C" void call_with_registers(void* function, CallRegisters* in_out);

}  // namespace pinprick
