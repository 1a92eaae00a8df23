// Which calls will return to their slots, where two sessions time the same call: in this process's
// own memory, which stands for that of a target.
#include "engine/calls/slot_use.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "arch/registers.h"
#include "arch/stub.h"
#include "image/maps.h"

namespace pinprick::engine {
namespace {

using testing::Test;

constexpr size_t kSlots = 8;
constexpr size_t kSize = kPageSize + sizeof(layout::RuntimeContext);  // the slots, the context

// Slots whose code lies nowhere: that it is not executed is all that these tests rely on.
class Slots {
 public:
  explicit Slots(Address code) {
    memory_ = static_cast<uint8_t*>(
        ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (size_t i = 0; i < kSlots; ++i) slot(i).code = code + i * arch::kSlotCodeSize;
    auto* const context = reinterpret_cast<layout::RuntimeContext*>(memory_ + kPageSize);
    context->magic = layout::kContextMagic;
    context->slot_count = context->fresh = kSlots;
  }
  ~Slots() { ::munmap(memory_, kSize); }
  layout::Slot& slot(size_t i) { return reinterpret_cast<layout::Slot*>(memory_)[i]; }
  uint64_t returns_to(size_t i) { return slot(i).code + arch::kSlotReturn; }
  layout::MappingEntry mapping() const {
    return {reinterpret_cast<Address>(memory_), kSize, layout::MappingEntry::Kind::runtime_data,
            layout::MappingEntry::Progress::mapped};
  }

 private:
  uint8_t* memory_;
};

class SlotUseTest : public Test {
 protected:
  // A call that a stub of `slots` has taken over: what lies at `word` becomes the slot's.
  void time(Slots& slots, size_t i, uint64_t& word) {
    slots.slot(i).return_address = word;
    slots.slot(i).stack = reinterpret_cast<Address>(&word);
    word = slots.returns_to(i);
  }

  Result<target::Memory, SystemError> memory_ = target::Memory::open(::getpid());
  Slots first_{0x10000}, second_{0x20000}, third_{0x30000};
  uint64_t stack_[4] = {0xca11e0, 0xca11e1, 0xca11e2, 0xca11e3};
};

TEST_F(SlotUseTest, FindsACallThatNoOtherSessionTimesOnTheStack) {
  time(first_, 2, stack_[1]);
  const SlotUse use = look_at_slots(*memory_, first_.mapping(), {second_.mapping()});
  EXPECT_EQ(use.waiting, std::vector<size_t>{2});
  EXPECT_EQ(use.abandoned, 0u);
  EXPECT_EQ(release_calls(*memory_, use), 1u);
  EXPECT_EQ(stack_[1], 0xca11e1u);
}

TEST_F(SlotUseTest, ACallWhoseSlotAThreadInOurCodeHasAtHandWasNotLeftByLongjmp) {
  for (size_t i : {1, 2, 3, 4}) time(first_, i, stack_[i - 1]);
  time(first_, 5, first_.slot(2).return_address);  // a tail call
  for (uint64_t& word : stack_) word = 0;          // on no stack: as longjmp would leave them
  SlotUse use = look_at_slots(*memory_, first_.mapping());
  EXPECT_EQ(use.left, (std::vector<size_t>{1, 2, 3, 4, 5}));
  const uint64_t words[] = {0, first_.slot(3).code + 7, UINT64_MAX,
                            reinterpret_cast<uint64_t>(&first_.slot(2)),
                            first_.slot(0).code + kSlots * arch::kSlotCodeSize};
  EXPECT_TRUE(has_slot_code(use, words));
  EXPECT_FALSE(has_slot_code(use, std::span(words).first(1)));
  leave_out_slots_at_hand(use, words);
  EXPECT_EQ(use.left, (std::vector<size_t>{1, 4})) << "nor 5, to which 2 returns";
}

TEST_F(SlotUseTest, ACallWhoseThreadIsInOurCodeCloseToItsStackWasNotLeftByLongjmp) {
  for (size_t i : {1, 2, 3}) time(first_, i, stack_[i - 1]);
  for (uint64_t& word : stack_) word = 0;
  SlotUse use = look_at_slots(*memory_, first_.mapping());
  const auto at = reinterpret_cast<Address>(&stack_[1]);
  leave_out_slots_on(use, std::vector<Range>{{at, at + sizeof stack_[1]}});
  EXPECT_EQ(use.left, (std::vector<size_t>{1, 3}));
  EXPECT_EQ(use.kept, use.left);
  EXPECT_EQ(use.abandoned, 2u);
}

// The end of the thread: mov rdi, rax; mov eax, SYS_exit; syscall. What waits may be the call of a
// thread's first function that is running.
TEST_F(SlotUseTest, CallsThatEndedWithTheirThreadNeedNoSlotUnlessTheyAreOnAStack) {
  static constexpr uint8_t kEnd[16] = {0x48, 0x89, 0xc7, 0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05};
  time(first_, 1, stack_[0]);
  time(first_, 2, stack_[1]);
  time(first_, 3, stack_[2]);
  first_.slot(1).return_address = first_.slot(2).return_address = reinterpret_cast<Address>(&kEnd);
  time(first_, 4, first_.slot(2).return_address);  // a tail call
  stack_[0] = stack_[2] = 0;
  SlotUse use = look_at_slots(*memory_, first_.mapping());
  EXPECT_EQ(use.kept, (std::vector<size_t>{1, 3}));
  const auto maps = image::read_maps(::getpid());
  ASSERT_TRUE(maps);
  target::StoppedThread thread;
  thread.tid = ::getpid();
  arch::set_instruction_pointer(thread.registers, 1);
  arch::set_stack_pointer(thread.registers, reinterpret_cast<Address>(&thread));
  take_ended(use, EndedThreads(::getpid(), {&thread, 1}, *maps, *memory_, 1));
  EXPECT_EQ(use.kept, (std::vector<size_t>{3}));
  EXPECT_EQ(use.left, (std::vector<size_t>{3}));
  EXPECT_EQ(use.abandoned, 1u);
  EXPECT_EQ(use.ended, (std::vector<size_t>{1}));
  EXPECT_EQ(use.waiting, (std::vector<size_t>{2}));
  EXPECT_EQ(use.waiting_at.size(), 1u);
}

TEST_F(SlotUseTest, FindsACallThatTwoOthersTimeInTheLastOnesSlotAndGivesItsAddressBackThere) {
  time(first_, 1, stack_[0]);
  time(second_, 3, stack_[0]);
  time(third_, 0, stack_[0]);
  const SlotUse use =
      look_at_slots(*memory_, first_.mapping(), {third_.mapping(), second_.mapping()});
  EXPECT_EQ(use.waiting, std::vector<size_t>{1});
  EXPECT_EQ(use.abandoned, 0u) << "it is no call that longjmp has left";
  EXPECT_EQ(release_calls(*memory_, use), 1u);
  EXPECT_EQ(stack_[0], third_.returns_to(0)) << "the stack is the last one's";
  EXPECT_EQ(third_.slot(0).return_address, second_.returns_to(3));
  EXPECT_EQ(second_.slot(3).return_address, 0xca11e0u) << "not the slot that goes";
}

TEST_F(SlotUseTest, TakesTheOneInTheMiddleOutOfTheLine) {
  time(first_, 1, stack_[0]);
  time(second_, 3, stack_[0]);
  time(third_, 0, stack_[0]);
  const SlotUse use =
      look_at_slots(*memory_, second_.mapping(), {first_.mapping(), third_.mapping()});
  EXPECT_EQ(release_calls(*memory_, use), 1u);
  EXPECT_EQ(third_.slot(0).return_address, first_.returns_to(1));
  EXPECT_EQ(first_.slot(1).return_address, 0xca11e0u);
}

// f, timed by both, makes a tail call of g, timed by both as well.
TEST_F(SlotUseTest, FindsBothCallsOfATailCallThatTwoSessionsTimeByTurns) {
  time(first_, 1, stack_[0]);
  time(second_, 3, stack_[0]);
  time(first_, 2, stack_[0]);
  time(second_, 4, stack_[0]);
  const SlotUse use = look_at_slots(*memory_, first_.mapping(), {second_.mapping()});
  EXPECT_EQ(use.waiting, (std::vector<size_t>{1, 2}));
  EXPECT_EQ(use.abandoned, 0u) << "it is no call that longjmp has left";
  EXPECT_EQ(release_calls(*memory_, use), 2u);
  EXPECT_EQ(stack_[0], second_.returns_to(4));
  EXPECT_EQ(second_.slot(4).return_address, second_.returns_to(3)) << "no slot that goes";
  EXPECT_EQ(second_.slot(3).return_address, 0xca11e0u) << "no slot that goes";
}

TEST_F(SlotUseTest, ReleasesEachCallOnceWhereTwoSlotsOfASessionFollowEachOther) {
  time(first_, 1, stack_[0]);
  time(first_, 2, stack_[0]);
  time(second_, 4, stack_[0]);
  const SlotUse use = look_at_slots(*memory_, first_.mapping(), {second_.mapping()});
  EXPECT_EQ(use.waiting, std::vector<size_t>{2}) << "the other one is the end of its line";
  EXPECT_EQ(use.abandoned, 0u);
  EXPECT_EQ(release_calls(*memory_, use), 2u);
  EXPECT_EQ(second_.slot(4).return_address, 0xca11e0u);
  EXPECT_EQ(first_.slot(1).return_address, 0u) << "is free";
  EXPECT_EQ(first_.slot(2).return_address, 0u) << "is free";
}

TEST_F(SlotUseTest, TakesACallForLostWhereNoSlotOnTheStackLeadsToIt) {
  time(first_, 1, stack_[0]);
  time(second_, 3, stack_[0]);
  stack_[0] = 0xdead;  // longjmp, and another call
  const SlotUse use = look_at_slots(*memory_, first_.mapping(), {second_.mapping()});
  EXPECT_TRUE(use.waiting.empty());
  EXPECT_EQ(use.abandoned, 1u);
}

TEST_F(SlotUseTest, EndsWhereSlotsLeadToEachOtherForEver) {
  time(first_, 1, stack_[0]);
  stack_[0] = second_.returns_to(0);
  second_.slot(0).return_address = third_.returns_to(0);
  third_.slot(0).return_address = second_.returns_to(0);
  const SlotUse use =
      look_at_slots(*memory_, first_.mapping(), {second_.mapping(), third_.mapping()});
  EXPECT_TRUE(use.waiting.empty());
}

}  // namespace
}  // namespace pinprick::engine
