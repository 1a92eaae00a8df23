#include "arch/registers.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <ucontext.h>

#include <array>
#include <cstring>

namespace pinprick::arch {
namespace {

Address handled_at, stack_pointer;
std::array<uint64_t, sizeof(ucontext_t) / 8> frame;  // a handler must not allocate

// Reads the words of the frame that the kernel made for this handler.
void keep_frame(int, siginfo_t*, void* context) {
  const auto* const interrupted = static_cast<ucontext_t*>(context);
  handled_at = static_cast<Address>(interrupted->uc_mcontext.gregs[REG_RIP]);
  stack_pointer = static_cast<Address>(interrupted->uc_mcontext.gregs[REG_RSP]);
  std::memcpy(frame.data(), context, sizeof frame);
}

TEST(SignalFrameFinder, FindsWhereTheHandlerOfARealSignalReturnsTo) {
  struct sigaction action = {}, before;
  action.sa_sigaction = keep_frame;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  ::raise(SIGUSR1);
  ::sigaction(SIGUSR1, &before, nullptr);
  ASSERT_NE(handled_at, 0u);
  SignalFrameFinder frames;
  bool found = false;
  for (uint64_t word : frame)
    if (const auto one = frames.next(word))
      found = found || (one->is_certain && one->instruction_pointer == handled_at &&
                        one->stack_pointer == stack_pointer);
  EXPECT_TRUE(found);
}

TEST(SignalFrameFinder, FindsNothingInWordsThatAreNotAFrame) {
  SignalFrameFinder frames;
  for (uint64_t word : {0x1000, 0x2000, 0x34, 0x3300, 0x0}) EXPECT_FALSE(frames.next(word));
}

TEST(Registers, OfAThreadAtABreakpointNameTheBreakpoint) {
  Registers registers = {};
  set_instruction_pointer(registers, 0x1001);
  EXPECT_EQ(breakpoint_of(registers), 0x1000u);
}

}  // namespace
}  // namespace pinprick::arch
