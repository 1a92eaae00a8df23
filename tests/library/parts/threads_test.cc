#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "runtime/thread.h"
#include "runtime/trap_table.h"
#include "runtime/traps.h"

namespace pinprick::runtime {
namespace {

// A child of vfork has its parent's thread-local variables, and its own TID.
TEST(Threads, KeepARecordThatAChildOfVforkHasTaken) {
  note_process();
  std::thread([] {
    ASSERT_EQ(current_thread, nullptr);
    const pid_t child = ::vfork();
    if (child == 0) {
      this_thread();
      ::_exit(0);
    }
    ASSERT_GT(child, 0);
    Thread* const own = current_thread;
    ASSERT_NE(own, nullptr);
    enter(*own);
    take_back_from_ended_threads();
    EXPECT_NE(own->tid.load(), 0);
    EXPECT_TRUE(runs_handlers(*own));
    leave(*own);
    std::thread([own] { EXPECT_NE(&this_thread(), own); }).join();
  }).join();
}

TEST(Threads, GiveTheirRecordBackWhenTheyEnd) {
  note_process();
  Thread* record = nullptr;
  std::thread([&] { record = &this_thread(); }).join();
  take_back_from_ended_threads();
  EXPECT_EQ(record->tid.load(), 0);
}

TEST(TrapTable, HasNothingForAKeyWhoseSlotIsAnothers) {
  TrapTable table(1);
  table.set(0x1000, 1);
  EXPECT_EQ(table.get(0x1000), 1u);
  EXPECT_EQ(table.get(0x2000), 0u);
}

// An object may lie where another one was, and have a breakpoint at the same address.
TEST(Traps, ForgetAContinuationOnlyIfItIsTheFormerOne) {
  constexpr Address kTrap = 0x10'000, kFormer = 0x20'000, kPresent = 0x30'000;
  set_continuation(kTrap, kPresent);
  forget_continuation(kTrap, kFormer);
  EXPECT_EQ(continuation_of(kTrap), kPresent);
  forget_continuation(kTrap, kPresent);
  EXPECT_EQ(continuation_of(kTrap), 0u);
}

}  // namespace
}  // namespace pinprick::runtime
