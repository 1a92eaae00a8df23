#include "cli/measure/outstanding_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace pinprick::cli {
namespace {

using Kind = AllocationEvent::Kind;
constexpr pid_t kProcess = 100, kOther = 200, kThread = 1, kSecond = 2;
constexpr uint64_t kA = 0x1000, kB = 0x2000;

// Calls take ten ticks, unless it is said when they began.
AllocationEvent allocation(uint64_t tsc, uint64_t pointer, uint64_t size, pid_t thread = kThread) {
  return {Kind::allocation, false, kProcess, thread, tsc, tsc - 10, 0, pointer, size, 0};
}
AllocationEvent release(uint64_t tsc, uint64_t pointer, pid_t thread = kThread) {
  return {Kind::free, false, kProcess, thread, tsc, tsc, pointer, 0, 0, 0};
}
AllocationEvent reallocation(uint64_t tsc, uint64_t from, uint64_t to, uint64_t size) {
  return {Kind::reallocation, false, kProcess, kThread, tsc, tsc - 10, from, to, size, 0};
}
AllocationEvent beginning(uint64_t tsc, uint64_t from) {
  return {Kind::reallocation_begins, false, kProcess, kThread, tsc, tsc, from, 0, 0, 0};
}
AllocationEvent failed(uint64_t tsc, uint64_t from) {
  auto event = reallocation(tsc, from, 0, 1 << 30);
  event.has_failed = true;
  return event;
}
AllocationEvent begun_at(uint64_t start_tsc, AllocationEvent event) {
  event.start_tsc = start_tsc;
  return event;
}
AllocationEvent in(pid_t process, AllocationEvent event) {
  event.process = process;
  return event;
}

std::vector<uint64_t> sizes_of(const OutstandingBlocks& blocks) {
  std::vector<uint64_t> sizes;
  blocks.for_each([&](const OutstandingBlocks::Block& block) { sizes.push_back(block.size); });
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

OutstandingBlocks after(const std::vector<AllocationEvent>& events, size_t most = 1000) {
  OutstandingBlocks blocks(most);
  for (const AllocationEvent& event : events) blocks.apply(event);
  const OutstandingBlocks::Figures& figures = blocks.figures();
  EXPECT_EQ(figures.allocations, figures.freed + figures.reused + figures.no_room + blocks.size());
  return blocks;
}

TEST(OutstandingBlocks, ABlockStaysUntilItIsFreed) {
  const auto blocks =
      after({allocation(100, kA, 1), allocation(200, kB, 2), release(300, kA, kSecond)});
  EXPECT_EQ(sizes_of(blocks), (std::vector<uint64_t>{2}));
  EXPECT_EQ(blocks.figures().allocations, 2U);
  EXPECT_EQ(blocks.figures().freed, 1U);
  EXPECT_EQ(blocks.figures().unknown_freed, 0U);
}

TEST(OutstandingBlocks, AFreedAddressMayComeAgain) {
  const auto blocks = after({allocation(100, kA, 1), release(150, kA), allocation(200, kA, 2),
                             release(250, kA), allocation(300, kA, 3)});
  EXPECT_EQ(sizes_of(blocks), (std::vector<uint64_t>{3}));
  EXPECT_EQ(blocks.figures().reused, 0U);
}

TEST(OutstandingBlocks, FreesOfBlocksFromBeforeAreCountedOnceEach) {
  const auto blocks =
      after({release(100, kA), release(101, kA), release(200, kB), release(300, kA)});
  EXPECT_EQ(blocks.size(), 0U);
  // The second one is called by the first one.
  EXPECT_EQ(blocks.figures().unknown_freed, 3U);
}

TEST(OutstandingBlocks, OfAllocationsInAnotherOnlyTheOutermostCounts) {
  // calloc calls malloc, which returns the same pointer; memalign calls malloc, and returns
  // another.
  const auto same = after({allocation(150, kA, 1), begun_at(130, allocation(160, kA, 8))});
  EXPECT_EQ(sizes_of(same), (std::vector<uint64_t>{8}));
  EXPECT_EQ(same.figures().allocations, 1U);
  EXPECT_EQ(same.figures().reused, 0U);
  const auto other = after({allocation(150, kA, 99), begun_at(130, allocation(160, kB, 64))});
  EXPECT_EQ(sizes_of(other), (std::vector<uint64_t>{64}));
}

TEST(OutstandingBlocks, AllocationsOfOtherThreadsAndFromBeforeACallAreNotInIt) {
  const auto blocks = after({allocation(120, kA, 1), allocation(150, kB, 2, kSecond),
                             begun_at(130, allocation(160, 0x3000, 3))});
  EXPECT_EQ(sizes_of(blocks), (std::vector<uint64_t>{1, 2, 3}));
}

TEST(OutstandingBlocks, AThreadThatIsNotKnownHasNoCallsInOneAnother) {
  const auto blocks = after({allocation(150, kA, 1, 0), begun_at(130, allocation(160, kB, 2, 0))});
  EXPECT_EQ(sizes_of(blocks), (std::vector<uint64_t>{1, 2}));
  // But what comes twice at once is one block, and later it is another one.
  constexpr uint64_t kMuchLater = 1'000'000'000;
  const auto twice = after({allocation(150, kA, 1, 0), begun_at(152, allocation(160, kA, 2, 0)),
                            allocation(kMuchLater, kA, 3, 0)});
  EXPECT_EQ(sizes_of(twice), (std::vector<uint64_t>{3}));
  EXPECT_EQ(twice.figures().allocations, 2U);
  EXPECT_EQ(twice.figures().reused, 1U);
}

TEST(OutstandingBlocks, AReallocationFreesItsOldBlock) {
  const auto moved =
      after({allocation(100, kA, 1), beginning(190, kA), reallocation(200, kA, kB, 2)});
  EXPECT_EQ(sizes_of(moved), (std::vector<uint64_t>{2}));
  const auto in_place =
      after({allocation(100, kA, 1), beginning(190, kA), reallocation(200, kA, kA, 2)});
  EXPECT_EQ(sizes_of(in_place), (std::vector<uint64_t>{2}));
  EXPECT_EQ(in_place.figures().freed, 1U);
  EXPECT_EQ(in_place.figures().reused, 0U);
  const auto of_null = after({reallocation(200, 0, kA, 2)});
  EXPECT_EQ(sizes_of(of_null), (std::vector<uint64_t>{2}));
  EXPECT_EQ(of_null.figures().unknown_freed, 0U);
  const auto to_nothing =
      after({allocation(100, kA, 1), beginning(190, kA), reallocation(200, kA, 0, 0)});
  EXPECT_EQ(to_nothing.size(), 0U);
}

TEST(OutstandingBlocks, AReallocationThatFailsLeavesItsOldBlock) {
  const auto blocks = after({allocation(100, kA, 1), beginning(190, kA), failed(200, kA)});
  EXPECT_EQ(sizes_of(blocks), (std::vector<uint64_t>{1}));
  EXPECT_EQ(blocks.figures().freed, 0U);
  const auto unknown = after({beginning(190, kA), failed(200, kA)});
  EXPECT_EQ(unknown.size(), 0U);
}

TEST(OutstandingBlocks, AReallocationWhoseStartIsNotKnownFreesItsOldBlockToo) {
  const auto moved = after({allocation(100, kA, 1), reallocation(200, kA, kB, 2)});
  EXPECT_EQ(sizes_of(moved), (std::vector<uint64_t>{2}));
  const auto kept = after({allocation(100, kA, 1), failed(200, kA)});
  EXPECT_EQ(sizes_of(kept), (std::vector<uint64_t>{1}));
}

TEST(OutstandingBlocks, AnotherThreadMayGetTheOldBlockOfAReallocationBeforeThatReturns) {
  // The start that follows from the time of the call may be too late; that of its event is not.
  const auto blocks =
      after({allocation(100, kA, 1), beginning(180, kA), allocation(195, kA, 5, kSecond),
             begun_at(198, reallocation(200, kA, kB, 2))});
  EXPECT_EQ(sizes_of(blocks), (std::vector<uint64_t>{2, 5}));
  EXPECT_EQ(blocks.figures().reused, 0U);
}

TEST(OutstandingBlocks, AReallocationMayCallOtherFunctions) {
  // reallocarray calls realloc, and that malloc and free.
  const auto blocks = after({allocation(100, kA, 1), beginning(180, kA), beginning(181, kA),
                             begun_at(185, allocation(186, kB, 4)), release(187, kA),
                             begun_at(189, reallocation(190, kA, kB, 2)),
                             begun_at(199, reallocation(200, kA, kB, 3))});
  EXPECT_EQ(sizes_of(blocks), (std::vector<uint64_t>{3}));
  EXPECT_EQ(blocks.figures().allocations, 2U);
  EXPECT_EQ(blocks.figures().freed, 1U);
  EXPECT_EQ(blocks.figures().unknown_freed, 0U);
  EXPECT_EQ(blocks.figures().reused, 0U);
}

TEST(OutstandingBlocks, ReallocationsThatDoNotReturnAreForgotten) {
  std::vector<AllocationEvent> events;
  for (uint64_t i = 0; i < 100; ++i) events.push_back(beginning(100 + i, kB + 16 * i));
  events.push_back(allocation(300, kA, 1));
  events.push_back(beginning(310, kA));
  events.push_back(reallocation(320, kA, kB, 2));
  EXPECT_EQ(sizes_of(after(events)), (std::vector<uint64_t>{2}));
}

TEST(OutstandingBlocks, ABlockThatComesAgainUnfreedIsCountedAsReused) {
  const auto blocks =
      after({allocation(100, kA, 1), allocation(150, kB, 7), allocation(200, kA, 2)});
  EXPECT_EQ(sizes_of(blocks), (std::vector<uint64_t>{2, 7}));
  EXPECT_EQ(blocks.figures().reused, 1U);
}

TEST(OutstandingBlocks, WhatAThreadGetsTwiceInARowIsOneBlock) {
  // The start of the outer call is told too late.
  const auto blocks = after({allocation(100, kA, 1), begun_at(105, allocation(110, kA, 2))});
  EXPECT_EQ(sizes_of(blocks), (std::vector<uint64_t>{2}));
  EXPECT_EQ(blocks.figures().allocations, 1U);
  EXPECT_EQ(blocks.figures().reused, 0U);
}

TEST(OutstandingBlocks, ProcessesHaveAddressesOfTheirOwn) {
  auto blocks = after(
      {allocation(100, kA, 1), in(kOther, allocation(110, kA, 2)), in(kOther, release(120, kA))});
  EXPECT_EQ(sizes_of(blocks), (std::vector<uint64_t>{1}));
  blocks.apply(in(kOther, allocation(130, kB, 3)));
  blocks.forget(kProcess);
  EXPECT_EQ(sizes_of(blocks), (std::vector<uint64_t>{3}));
  EXPECT_EQ(blocks.figures().allocations, 2U);
}

TEST(OutstandingBlocks, WhatFindsNoRoomIsCounted) {
  const auto blocks =
      after({allocation(100, kA, 1), allocation(200, kB, 2), allocation(300, 0x3000, 3),
             release(400, kA), allocation(500, 0x4000, 4)},
            2);
  EXPECT_EQ(sizes_of(blocks), (std::vector<uint64_t>{2, 4}));
  EXPECT_EQ(blocks.figures().no_room, 1U);
}

// Against a model that knows what is called by what.
TEST(OutstandingBlocks, RandomCallsLeaveWhatAModelLeaves) {
  constexpr uint64_t kAround = 1 << 20;
  std::mt19937 random(20261130);
  const auto below = [&](uint64_t n) { return random() % n; };
  for (int round = 0; round < 200; ++round) {
    OutstandingBlocks blocks(1 << 20);
    std::map<uint64_t, uint64_t> model;
    uint64_t tsc = 1000;
    for (int i = 0; i < 400; ++i) {
      const auto thread = static_cast<pid_t>(1 + below(3));
      const uint64_t pointer = 16 * (1 + below(64)), size = 1 + below(1000);
      const uint64_t start = tsc + 10;
      tsc = start + 30;
      if (model.erase(pointer) != 0) {
        blocks.apply(release(tsc, pointer, thread));
        continue;
      }
      // The function may call others, for the same block or for one around it.
      if (below(4) == 0)
        blocks.apply(begun_at(start + 5, allocation(start + 10, pointer, 1, thread)));
      if (below(4) == 0)
        blocks.apply(begun_at(start + 12, allocation(start + 20, kAround + pointer, 1, thread)));
      blocks.apply(begun_at(start, allocation(tsc, pointer, size, thread)));
      model[pointer] = size;
    }
    std::vector<uint64_t> expected;
    for (const auto& [pointer, size] : model) expected.push_back(size);
    std::sort(expected.begin(), expected.end());
    ASSERT_EQ(sizes_of(blocks), expected) << round;
  }
}

}  // namespace
}  // namespace pinprick::cli
