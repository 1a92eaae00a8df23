// The stacks of a child that handles signals.
#include "patch/thread_stacks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "target/child.h"

namespace pinprick::patch {
namespace {

// What a handler in the child has seen of what it interrupted.
struct Interrupted {
  volatile uint64_t instruction_pointer, stack_pointer;
};
struct Seen {
  Interrupted first, second;
  volatile int is_there;
};
Seen* seen;

void note(Interrupted& one, const void* context) {
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  one.instruction_pointer = static_cast<uint64_t>(registers[REG_RIP]);
  one.stack_pointer = static_cast<uint64_t>(registers[REG_RSP]);
}
void on_its_own_stack(int, siginfo_t*, void* context) {
  note(seen->second, context);
  seen->is_there = 1;
  for (;;) ::pause();
}
void on_the_same_stack(int, siginfo_t*, void* context) {
  note(seen->first, context);
  ::raise(SIGUSR2);
}

// The child's SIGUSR2 has interrupted its SIGUSR1 on the main stack, and runs on one at `other`,
// which is a mapping apart from the main one.
class Nested : public testing::Test {
 protected:
  Nested() {
    seen = new (::mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) Seen{};
    child_.emplace([](target::Shared&) {
      constexpr size_t kSize = 1 << 16;
      stack_t other = {};
      other.ss_sp =
          ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      other.ss_size = kSize;
      ::sigaltstack(&other, nullptr);
      struct sigaction action = {};
      action.sa_flags = SA_SIGINFO;
      action.sa_sigaction = on_the_same_stack;
      ::sigaction(SIGUSR1, &action, nullptr);
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      action.sa_sigaction = on_its_own_stack;
      ::sigaction(SIGUSR2, &action, nullptr);
      ::raise(SIGUSR1);
    });
    while (seen->is_there == 0) ::sched_yield();
    stop_.emplace(*target::Stop::all_threads(child_->pid()));
    stacks_ = read_stacks(*image::read_maps(child_->pid()), *target::Memory::open(child_->pid()),
                          stop_->threads().front());
  }
  ~Nested() override { ::munmap(seen, sizeof(Seen)); }

  bool holds(uint64_t address) const {
    return std::any_of(stacks_.words.begin(), stacks_.words.end(),
                       [&](Range words) { return words.contains(address); });
  }

  std::optional<target::Child> child_;
  std::optional<target::Stop> stop_;
  ThreadStacks stacks_;
};

TEST_F(Nested, HandlersAllReturnToWhatTheyHaveInterrupted) {
  for (const Interrupted* one : {&seen->second, &seen->first}) {
    const Range there = {one->instruction_pointer, one->instruction_pointer + 1};
    EXPECT_TRUE(signal_returns_to(stacks_, {&there, 1}));
  }
  const Range elsewhere = {uint64_t{1} << 46, (uint64_t{1} << 46) + 4096};
  EXPECT_FALSE(signal_returns_to(stacks_, {&elsewhere, 1}));
}

TEST_F(Nested, TheInterruptedStackIsLookedAtFromItsTop) {
  ASSERT_EQ(stacks_.words.size(), 2u);
  EXPECT_TRUE(stacks_.words.front().contains(stop_->threads().front().stack_pointer()));
  EXPECT_FALSE(stacks_.words.front().contains(seen->second.stack_pointer));
  EXPECT_TRUE(stacks_.words.back().contains(seen->second.stack_pointer));
  EXPECT_TRUE(stacks_.words.back().contains(seen->first.stack_pointer));
  EXPECT_FALSE(holds(seen->second.stack_pointer - 4096));
}

}  // namespace
}  // namespace pinprick::patch
