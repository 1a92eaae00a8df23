// Calls code with chosen values in every general register and flag, and shows what it leaves there.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

namespace pinprick {

// Layout known to call_with_registers.S. rsp is not among them.
struct CallRegisters {
  uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15, flags;
};

inline constexpr uint64_t kArithmeticFlags = 0x8d5;  // CF PF AF ZF SF OF

extern "C" void call_with_registers(void* function, CallRegisters* in_out);

inline constexpr uint64_t kFlagsToPreserve[] = {0, kArithmeticFlags, 0x801, 0x44, 0x90};

// Calls the function with known registers and these flags, and expects that all stay as they are.
template <class Function>
void expect_preserved(Function* function, uint64_t flags) {
  CallRegisters registers;
  auto* words = reinterpret_cast<uint64_t*>(&registers);
  for (uint64_t i = 0; i < 15; ++i) words[i] = 0x1111'2222'3333'0000 + i * 0x0101'0101'0101'0101;
  registers.flags = flags | 2;
  const CallRegisters before = registers;
  call_with_registers(reinterpret_cast<void*>(function), &registers);
  const auto* old_words = reinterpret_cast<const uint64_t*>(&before);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(words[i], old_words[i]) << "register " << i;
  EXPECT_EQ(registers.flags & kArithmeticFlags, flags);
}

}  // namespace pinprick
