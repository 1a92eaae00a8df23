// Edits of another process's memory, in batches.
#include "patch/text_edit.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "target/child.h"

namespace pinprick::patch {
namespace {

constexpr uint64_t kSize = 3 << 20;

// Memory that a child has at the same address.
class Edits : public testing::Test {
 protected:
  Edits()
      : begin_(static_cast<uint8_t*>(
            mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        expected_(kSize) {
    std::mt19937 random(1);
    for (uint8_t& byte : expected_) byte = static_cast<uint8_t>(random());
    std::copy(expected_.begin(), expected_.end(), begin_);
    child_.emplace([](target::Shared&) {
      for (;;) pause();
    });
    memory_.emplace(*target::Memory::open(child_->pid()));
    stop_.emplace(*target::Stop::all_threads(child_->pid()));
  }
  ~Edits() override { munmap(begin_, kSize); }

  // An edit of `length` bytes at the offset, which replaces each by its complement.
  TextEdit edit_at(uint64_t offset, uint8_t length) const {
    TextEdit edit;
    edit.address = reinterpret_cast<Address>(begin_) + offset;
    edit.length = length;
    for (uint8_t i = 0; i < length; ++i) {
      edit.before[i] = expected_[offset + i];
      edit.after[i] = static_cast<uint8_t>(~edit.before[i]);
    }
    return edit;
  }
  void expect(const TextEdit& edit) {
    std::copy_n(edit.after, edit.length,
                expected_.begin() +
                    static_cast<ptrdiff_t>(edit.address - reinterpret_cast<Address>(begin_)));
  }
  std::vector<uint8_t> now() const {
    std::vector<uint8_t> bytes(kSize);
    EXPECT_TRUE(memory_->read(reinterpret_cast<Address>(begin_), bytes));
    return bytes;
  }

  uint8_t* begin_;
  std::vector<uint8_t> expected_;
  std::optional<target::Child> child_;
  std::optional<target::Memory> memory_;
  std::optional<target::Stop> stop_;
};

TEST_F(Edits, WriteOnlyTheirOwnBytes) {
  // Everywhere, also across the ends of pages and of pieces that are written at once.
  std::vector<TextEdit> edits;
  for (uint64_t at = 7; at + 5 < kSize; at += 97) edits.push_back(edit_at(at, 5));
  std::vector<size_t> across;
  for (size_t i = 0; i < edits.size(); ++i)
    if (align_down(edits[i].address, kPageSize) != align_down(edits[i].address + 4, kPageSize))
      across.push_back(i);
  ASSERT_FALSE(across.empty());
  std::shuffle(edits.begin(), edits.end(), std::mt19937(2));
  const auto outcomes = apply(*stop_, *memory_, edits, {edits, PhaseOrder::upward}, {});
  ASSERT_TRUE(outcomes);
  for (EditOutcome outcome : *outcomes) ASSERT_EQ(outcome, EditOutcome::written);
  for (const TextEdit& edit : edits) expect(edit);
  EXPECT_TRUE(now() == expected_);
}

TEST_F(Edits, ThatStraddleEveryPageAreAllWritten) {
  std::vector<TextEdit> edits;
  const uint64_t skew = reinterpret_cast<Address>(begin_) % kPageSize;
  for (uint64_t page = kPageSize; page < kSize; page += kPageSize)
    edits.push_back(edit_at(page - skew - 3, 5));
  const auto outcomes = apply(*stop_, *memory_, edits, {edits, PhaseOrder::upward}, {});
  ASSERT_TRUE(outcomes);
  for (EditOutcome outcome : *outcomes) ASSERT_EQ(outcome, EditOutcome::written);
  for (const TextEdit& edit : edits) expect(edit);
  EXPECT_TRUE(now() == expected_);
}

// A later phase overwrites bytes of an earlier one, also if the two are cut into different pieces.
TEST_F(Edits, OfALaterPhaseSeeThoseOfAnEarlierOne) {
  std::vector<TextEdit> edits;
  for (uint64_t at = 50; at + 8 < kSize; at += 4093) {
    const TextEdit first = edit_at(at, 5);
    TextEdit second = first;
    second.phase = 1;
    std::copy_n(first.after, 5, second.before);
    second.after[0] = 0xcc;
    std::copy_n(first.after + 1, 4, second.after + 1);
    edits.push_back(second);
    edits.push_back(first);
    expect(second);
  }
  const auto outcomes = apply(*stop_, *memory_, edits, {edits, PhaseOrder::upward}, {});
  ASSERT_TRUE(outcomes);
  for (EditOutcome outcome : *outcomes) ASSERT_EQ(outcome, EditOutcome::written);
  EXPECT_TRUE(now() == expected_);
}

TEST_F(Edits, LeaveSitesWithOtherBytesAlone) {
  std::vector<TextEdit> edits = {edit_at(100, 5), edit_at(200, 5), edit_at(300, 5), edit_at(0, 5)};
  edits[1].before[4] ^= 1;                          // the site holds other bytes
  std::copy_n(edits[2].before, 5, edits[2].after);  // the new bytes are there already ...
  edits[2].before[0] ^= 1;                          // ... and differ from the old ones
  edits[3].address = 16;                            // nothing is mapped there
  const auto outcomes = apply(*stop_, *memory_, edits, {edits, PhaseOrder::upward}, {});
  ASSERT_TRUE(outcomes);
  EXPECT_EQ(*outcomes, (std::vector{EditOutcome::written, EditOutcome::different,
                                    EditOutcome::already, EditOutcome::unreadable}));
  expect(edits[0]);
  EXPECT_TRUE(now() == expected_);
}

TEST_F(Edits, AreWrittenAsAWholeIfABreakpointInsideIsGone) {
  const Address begin = reinterpret_cast<Address>(begin_);
  for (uint64_t inside : {100, 102, 104}) {
    const std::vector<TextEdit> edits = {edit_at(100, 5), edit_at(90, 5), edit_at(105, 5)};
    const std::vector<Address> foreign = {begin, begin + 95, begin + inside, begin + kSize - 1};
    const auto outcomes = apply(*stop_, *memory_, edits, {edits, PhaseOrder::upward}, foreign);
    ASSERT_TRUE(outcomes);
    EXPECT_EQ(*outcomes, std::vector(3, EditOutcome::written));
    EXPECT_EQ(examine(*memory_, edits), std::vector(3, EditOutcome::already)) << "and says so";
    for (const TextEdit& edit : edits) expect(edit);
    EXPECT_TRUE(now() == expected_);
  }
}

// In memory that is shared with the child, so that this process can change a byte meanwhile.
TEST(SharedEdits, DoNotRestoreABreakpointThatItsOwnerHasJustRemoved) {
  constexpr int kRounds = 2000;
  constexpr size_t kTheirs = 200;
  auto* const begin = static_cast<uint8_t*>(
      mmap(nullptr, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(begin, MAP_FAILED);
  target::Child child([](target::Shared&) {
    for (;;) pause();
  });
  const auto memory = target::Memory::open(child.pid());
  ASSERT_TRUE(memory);
  const auto stop = target::Stop::all_threads(child.pid());
  ASSERT_TRUE(stop);
  std::atomic<bool> ends = false;
  std::atomic<int> put_back = 0;
  std::thread owner([&] {
    const std::atomic_ref<uint8_t> theirs(begin[kTheirs]);
    for (uint8_t value = 0; !ends; ++value) {
      theirs = value;
      for (int i = 0; i < 100 && !ends; ++i)
        if (theirs != value) ++put_back;
    }
  });
  const Address address = reinterpret_cast<Address>(begin);
  TextEdit edit;
  edit.address = address + 100;
  edit.length = 5;
  std::fill_n(edit.after, edit.length, uint8_t{0xe9});
  const Address foreign[] = {address + kTheirs};
  for (int i = 0; i < kRounds; ++i) {
    const auto outcomes =
        apply(*stop, *memory, {&edit, 1}, {{&edit, 1}, PhaseOrder::upward}, foreign);
    EXPECT_TRUE(outcomes && (*outcomes)[0] == EditOutcome::written);
    std::swap(edit.before, edit.after);
  }
  ends = true;
  owner.join();
  EXPECT_EQ(put_back, 0);
  munmap(begin, kPageSize);
}

// In the middle of the program's text, of which the child has a copy.
TEST_F(Edits, FindBreakpointsOfOthers) {
  const auto image = image::load_process(
      child_->pid(), [&](Address at, std::span<uint8_t> out) { return memory_->read(at, out); });
  ASSERT_TRUE(image);
  const auto page = align_down(reinterpret_cast<Address>(&arming), kPageSize);
  std::vector<uint8_t> bytes(kPageSize);
  ASSERT_TRUE(memory_->read(page, bytes));
  std::vector<size_t> found;  // eight apart, and no breakpoints in the file
  for (size_t i = 0; i < kPageSize && found.size() < 4; i += 8)
    if (std::find(&bytes[i], &bytes[i] + 5, 0xcc) == &bytes[i] + 5) found.push_back(i);
  ASSERT_EQ(found.size(), 4u);
  const auto edit_of = [&](size_t offset) {
    TextEdit edit;
    edit.address = page + offset;
    edit.length = 5;
    std::copy_n(&bytes[offset], 5, edit.before);
    constexpr uint8_t kJump[] = {0xe9, 1, 0xcc, 0, 0};
    std::copy_n(kJump, 5, edit.after);
    return edit;
  };
  // An edit to be made, one that is made, one whose site others have changed; and a breakpoint.
  const std::vector<TextEdit> edits = {edit_of(found[0]), edit_of(found[1]), edit_of(found[2])};
  constexpr uint8_t kBreakpoint[] = {0xcc};
  ASSERT_TRUE(memory_->write(page + found[1], {edits[1].after, 5}));
  ASSERT_TRUE(memory_->write(page + found[2], kBreakpoint));
  ASSERT_TRUE(memory_->write(page + found[3] + 1, kBreakpoint));
  EXPECT_EQ(foreign_breakpoints(*image, *memory_, edits),
            (std::vector{page + found[2], page + found[3] + 1}));
}

}  // namespace
}  // namespace pinprick::patch
