// What each step writes, as described in patch/live_edit.h.
#include "patch/live_edit.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <map>
#include <vector>

namespace pinprick::patch {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Address kSite = 0x1000;

// push %rbp; mov %rsp,%rbp; (the start of the next instruction)
const std::array<uint8_t, 2> kBoundaries = {1, 4};
LiveEdit window() {
  LiveEdit edit;
  edit.site = kSite;
  edit.original = {0x55, 0x48, 0x89, 0xe5, 0x48};
  edit.jump = {0xe9, 0xcc, 0x12, 0x34, 0xcc};
  edit.boundaries = kBoundaries;
  return edit;
}

using Text = std::map<Address, uint8_t>;

Text text_of(const LiveEdit& edit) {
  Text text;
  for (size_t i = 0; i < edit.length; ++i) text[edit.site + i] = edit.original[i];
  return text;
}

void make(Text& text, const std::vector<ByteChange>& changes) {
  for (const ByteChange& change : changes) text.at(change.address) = change.value;
}

std::vector<uint8_t> bytes(const Text& text) {
  std::vector<uint8_t> all;
  for (const auto& [address, value] : text) all.push_back(value);
  return all;
}

TEST(Placing, SetsBreakpointsThenTheRestThenTheJump) {
  const LiveEdit edit = window();
  Text text = text_of(edit);
  make(text, placing_step(edit, 0));
  EXPECT_THAT(bytes(text), ElementsAre(0xcc, 0xcc, 0x89, 0xe5, 0xcc));
  make(text, placing_step(edit, 1));
  EXPECT_THAT(bytes(text), ElementsAre(0xcc, 0xcc, 0x12, 0x34, 0xcc));
  make(text, placing_step(edit, 2));
  EXPECT_THAT(bytes(text), ElementsAre(0xe9, 0xcc, 0x12, 0x34, 0xcc));
}

TEST(Removing, SetsABreakpointThenTheRestThenTheBoundaries) {
  const LiveEdit edit = window();
  Text text = text_of(edit);
  for (int step = 0; step < kLiveSteps; ++step) make(text, placing_step(edit, step));
  make(text, removing_step(edit, 0));
  EXPECT_THAT(bytes(text), ElementsAre(0xcc, 0xcc, 0x12, 0x34, 0xcc));
  make(text, removing_step(edit, 1));
  EXPECT_THAT(bytes(text), ElementsAre(0xcc, 0xcc, 0x89, 0xe5, 0xcc));
  make(text, removing_step(edit, 2));
  EXPECT_THAT(bytes(text), ElementsAre(0x55, 0x48, 0x89, 0xe5, 0x48));
}

TEST(Removing, LeavesTheFirstByteIfABreakpointIsToStay) {
  LiveEdit edit = window();
  edit.to_breakpoint = true;
  Text text = text_of(edit);
  for (int step = 0; step < kLiveSteps; ++step) make(text, placing_step(edit, step));
  for (int step = 0; step < kLiveSteps; ++step) make(text, removing_step(edit, step));
  EXPECT_THAT(bytes(text), ElementsAre(0xcc, 0x48, 0x89, 0xe5, 0x48));
  // Then a jump again.
  for (int step = 0; step < kLiveSteps; ++step) {
    EXPECT_EQ(text.at(kSite), 0xcc);
    make(text, placing_step(edit, step));
  }
  EXPECT_THAT(bytes(text), ElementsAre(0xe9, 0xcc, 0x12, 0x34, 0xcc));
}

// The rule for the steps: a thread at a boundary finds a breakpoint there, or all bytes of the old
// instruction, whichever of the step's changes it sees.
TEST(EachStep, ShowsAWholeInstructionOrABreakpointAtEachBoundary) {
  const LiveEdit edit = window();
  const std::vector<std::pair<size_t, size_t>> instructions = {{0, 1}, {1, 4}, {4, 5}};
  const auto check = [&](const Text& before, const std::vector<ByteChange>& changes) {
    for (size_t seen = 0; seen < (size_t{1} << changes.size()); ++seen) {
      Text text = before;
      for (size_t i = 0; i < changes.size(); ++i)
        if ((seen >> i & 1) != 0) text.at(changes[i].address) = changes[i].value;
      const auto now = bytes(text);
      const bool is_jump = std::equal(now.begin(), now.end(), edit.jump.begin());
      for (const auto& [begin, end] : instructions) {
        const bool is_breakpoint = now[begin] == 0xcc;
        const bool is_old =
            std::equal(now.begin() + begin, now.begin() + end, edit.original.begin() + begin);
        EXPECT_TRUE(is_breakpoint || is_old || (begin == 0 && is_jump)) << begin << " " << seen;
      }
    }
  };
  Text text = text_of(edit);
  for (auto* step_of : {&placing_step, &removing_step})
    for (int step = 0; step < kLiveSteps; ++step) {
      const auto changes = step_of(edit, step);
      check(text, changes);
      make(text, changes);
    }
}

TEST(ABreakpoint, TakesOneByteAndOneStep) {
  LiveEdit edit = window();
  edit.length = 1;
  edit.boundaries = {};
  EXPECT_THAT(placing_step(edit, 0), ElementsAre(ByteChange{kSite, 0xcc}));
  EXPECT_THAT(placing_step(edit, 1), IsEmpty());
  EXPECT_THAT(placing_step(edit, 2), IsEmpty());
  EXPECT_THAT(removing_step(edit, 0), IsEmpty());
  EXPECT_THAT(removing_step(edit, 2), ElementsAre(ByteChange{kSite, 0x55}));
}

TEST(PlaceLive, WritesTextThatIsNotWritable) {
  alignas(16) static const std::array<uint8_t, 16> text = {0x90, 0x90, 0x90, 0x90, 0x90, 0xc3};
  const auto self = target::SelfTarget::open();
  ASSERT_TRUE(self.ok());
  LiveEdit edit;
  edit.site = reinterpret_cast<Address>(text.data());
  edit.original = {0x90, 0x90, 0x90, 0x90, 0x90};
  edit.jump = {0xe9, 1, 2, 3, 4};
  const volatile uint8_t* const first = text.data();
  ASSERT_TRUE(place_live(*self, {&edit, 1}, Order::in_steps).ok());
  EXPECT_EQ(first[0], 0xe9);
  EXPECT_EQ(first[4], 4);
  ASSERT_TRUE(remove_live(*self, {&edit, 1}, Order::in_steps).ok());
  EXPECT_EQ(first[0], 0x90);
}

// Five bytes at `site`, and what is to be there instead.
LiveEdit edit_at(Address site) {
  LiveEdit edit;
  edit.site = site;
  edit.original = {0x90, 0x90, 0x90, 0x90, 0x90};
  edit.jump = {0xe9, 0xcc, 2, 3, 4};
  return edit;
}

TEST(AtOnce, EachEditIsWrittenWhole) {
  alignas(16) static const std::array<uint8_t, 16> text = {0x90, 0x90, 0x90, 0x90, 0x90,
                                                           0x90, 0x90, 0x90, 0x90, 0x90};
  const auto self = target::SelfTarget::open();
  ASSERT_TRUE(self.ok());
  const auto begin = reinterpret_cast<Address>(text.data());
  const std::array<LiveEdit, 2> edits = {edit_at(begin), edit_at(begin + 5)};
  const auto now = [&] {
    const volatile uint8_t* const bytes = text.data();
    return std::vector<uint8_t>(bytes, bytes + 11);
  };
  ASSERT_TRUE(place_live(*self, edits, Order::at_once).ok());
  EXPECT_THAT(now(), ElementsAre(0xe9, 0xcc, 2, 3, 4, 0xe9, 0xcc, 2, 3, 4, 0));
  ASSERT_TRUE(remove_live(*self, edits, Order::at_once).ok());
  EXPECT_EQ(now(), std::vector<uint8_t>(text.begin(), text.begin() + 11));
  EXPECT_THAT(now(), Each(AnyOf(0x90, 0)));
}

// The kernel never writes the second page: its file was opened for reading, and is shared.
TEST(AtOnce, AnEditOfWhichOnlyTheFirstPageCanBeWrittenIsUndone) {
  const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(file, 0);
  void* const pages =
      ::mmap(nullptr, 2 * kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const Address second = reinterpret_cast<Address>(pages) + kPageSize;
  ASSERT_NE(::mmap(reinterpret_cast<void*>(second), kPageSize, PROT_READ, MAP_SHARED | MAP_FIXED,
                   file, 0),
            MAP_FAILED);
  const auto self = target::SelfTarget::open();
  ASSERT_TRUE(self.ok());
  for (uint64_t in_first = 1; in_first < arch::kJumpLength; ++in_first) {
    const LiveEdit edit = edit_at(second - in_first);
    std::array<uint8_t, arch::kJumpLength> before = {}, after = {};
    ASSERT_TRUE(self->memory().read(edit.site, before));
    EXPECT_FALSE(place_live(*self, {&edit, 1}, Order::at_once).ok());
    ASSERT_TRUE(self->memory().read(edit.site, after));
    EXPECT_EQ(after, before);
  }
  ::munmap(pages, 2 * kPageSize);
  ::close(file);
}

}  // namespace
}  // namespace pinprick::patch
