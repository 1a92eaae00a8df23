#include "target/self_target.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <csignal>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>

#include "base/process_folder.h"
#include "target/child.h"

namespace pinprick::target {
namespace {

volatile uint32_t value = 0;

uint32_t read_value() {
  std::array<uint8_t, sizeof value> bytes = {};
  if (!read_own_memory(reinterpret_cast<Address>(&value), bytes)) return ~uint32_t{0};
  return std::bit_cast<uint32_t>(bytes);
}

TEST(ReadOwnMemory, ReadsThatOfTheProcessThatCalls) {
  value = 1;
  EXPECT_EQ(read_value(), 1u);
  Child child([](Shared& shared) {
    value = 2;
    if (read_value() != 2) shared.failures = 1;
  });
  EXPECT_EQ(child.finish(), 0);
  EXPECT_EQ(read_value(), 1u);
}

TEST(ReadOwnMemory, FailsWhereSomeOfItIsNotMapped) {
  void* const pages =
      ::mmap(nullptr, 2 * kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const auto begin = reinterpret_cast<Address>(pages);
  std::array<uint8_t, 16> bytes = {};
  EXPECT_TRUE(read_own_memory(begin + kPageSize - 8, bytes));
  ::munmap(reinterpret_cast<void*>(begin + kPageSize), kPageSize);
  EXPECT_FALSE(read_own_memory(begin + kPageSize - 8, bytes));
  EXPECT_TRUE(read_own_memory(begin + kPageSize - 16, bytes));
  ::munmap(pages, kPageSize);
}

TEST(ReadOwnMemory, ReadsPagesThatTheProgramItselfMayNotRead) {
  void* const page = ::mmap(nullptr, kPageSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::array<uint8_t, 16> bytes = {};
  EXPECT_TRUE(read_own_memory(reinterpret_cast<Address>(page), bytes));
  ::munmap(page, kPageSize);
}

TEST(ReadOwnMemory, LeavesNoDescriptor) {
  const auto before = descriptor_numbers(::getpid());
  read_value();
  EXPECT_EQ(descriptor_numbers(::getpid()), before);
}

TEST(ReadOwnMemory, WorksUnderAFilterThatKillsForUnexpectedCalls) {
  Child child([](Shared& shared) {
    std::array<sock_filter, 4> program = {{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    }};
    const sock_fprog code = {program.size(), program.data()};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &code) != 0)
      _exit(2);
    value = 3;
    if (read_value() != 3) shared.failures = 1;
  });
  EXPECT_EQ(child.finish(), 0);
}

// ------------------------------------------------------------------------------ the only thread

// A child of fork() has one thread.
template <class F>
void in_one_thread(F&& f) {
  Child child([&](Shared& shared) {
    if (!f()) shared.failures = 1;
  });
  EXPECT_EQ(child.finish(), 0);
}

TEST(OnlyThread, IsThatOfAForkedChild) {
  in_one_thread([] { return is_only_thread() && is_only_thread(); });
}

TEST(OnlyThread, IsNoneWhileAnotherRunsAndIsOneAgainOnceThatHasEnded) {
  in_one_thread([] {
    std::atomic<bool> stop = false;
    std::thread other([&] { stop.wait(false); });
    const bool was_only = is_only_thread();
    stop = true;
    stop.notify_all();
    other.join();
    while (!is_only_thread()) ::sched_yield();  // the kernel wakes the joining thread first
    return !was_only;
  });
}

struct SameMemory {
  std::atomic<bool> runs = false, stop = false;
  alignas(16) std::array<uint8_t, 65536> stacks[2] = {};
  void* top(size_t i) { return stacks[i].data() + stacks[i].size(); }
};

int run_in_same_memory(void* argument) {
  auto& same = *static_cast<SameMemory*>(argument);
  same.runs = true;
  while (!same.stop) ::sched_yield();
  return 0;
}

int leave_a_child(void* argument) {
  auto& same = *static_cast<SameMemory*>(argument);
  return ::clone(run_in_same_memory, same.top(1), CLONE_VM, argument) > 0 ? 0 : 1;
}

// The second one is the child of a process that has ended, and so of none that is known.
TEST(OnlyThread, IsNoneWhileAnotherProcessHasTheSameMemory) {
  for (auto* const function : {&run_in_same_memory, &leave_a_child})
    in_one_thread([&] {
      const auto same = std::make_unique<SameMemory>();
      if (::clone(function, same->top(0), CLONE_VM | SIGCHLD, same.get()) < 0) return false;
      while (!same->runs) ::sched_yield();
      const bool was_only = is_only_thread();
      same->stop = true;
      while (!is_only_thread()) ::sched_yield();
      return !was_only;
    });
}

TEST(OnlyThread, IsNotAChildOfVfork) {
  in_one_thread([] {
    static volatile bool was_only;
    was_only = true;
    if (::vfork() == 0) {
      was_only = is_only_thread();
      ::_exit(0);
    }
    return !was_only;
  });
}

}  // namespace
}  // namespace pinprick::target
