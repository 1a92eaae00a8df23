// Where the table of threads is, by what the target has in its memory: in this process's own
// memory, which stands for that of a target.
#include "engine/calls/thread_table.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "engine/reset.h"
#include "engine/watch/providing.h"
#include "layout/runtime_data.h"
#include "scratch.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;

// The data of a session with one span: a page that may be slots, the table, the context, and a page
// that is not the session's.
class Data : public testing::Test {
 protected:
  static constexpr uint64_t kEntry = layout::thread_entry_size(1);
  static constexpr uint64_t kTable = layout::thread_table_size(1);
  static constexpr uint64_t kSize = kPageSize + kTable + sizeof(layout::RuntimeContext);
  static constexpr uint8_t kNotOurs = 0x77;

  Data() {
    bytes_ = static_cast<uint8_t*>(::mmap(nullptr, kSize + kPageSize, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(bytes_ + kSize, kNotOurs, kPageSize);
    context().magic = layout::kContextMagic;
    context().threads = begin() + kPageSize;
    context().thread_size = kEntry;
    journal_.mappings = {
        {begin(), kSize, MappingEntry::Kind::runtime_data, MappingEntry::Progress::mapped}};
  }
  ~Data() override { ::munmap(bytes_, kSize + kPageSize); }

  Address begin() const { return reinterpret_cast<Address>(bytes_); }
  layout::RuntimeContext& context() {
    return *reinterpret_cast<layout::RuntimeContext*>(bytes_ + kPageSize + kTable);
  }
  uint64_t& word(uint64_t offset) { return *reinterpret_cast<uint64_t*>(bytes_ + offset); }
  std::optional<ThreadTable> table() const { return thread_table(*memory_, journal_); }

  uint8_t* bytes_ = nullptr;
  layout::Session journal_;
  Result<target::Memory, SystemError> memory_ = target::Memory::open(::getpid());
};
using ThreadTableTest = Data;

TEST_F(ThreadTableTest, IsWhereTheContextSays) {
  const auto found = table();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->begin, begin() + kPageSize);
  EXPECT_EQ(found->entry_size, kEntry);
  EXPECT_LE(found->size(), kTable);
}

TEST_F(ThreadTableTest, IsNowhereInASessionWithoutSpansOrSlots) {
  context().threads = 0;
  EXPECT_FALSE(table());
  journal_.mappings[0].kind = MappingEntry::Kind::runtime_code;
  EXPECT_FALSE(table());
  journal_.mappings.clear();
  EXPECT_FALSE(table());
}

TEST_F(ThreadTableTest, IsNowhereIfTheDataIsTooSmallForItsContextOrCannotBeRead) {
  journal_.mappings[0].size = sizeof(layout::RuntimeContext) - 1;
  EXPECT_FALSE(table());
  journal_.mappings[0].size = 0;
  EXPECT_FALSE(table());
  journal_.mappings[0] = {0x1000, kSize, MappingEntry::Kind::runtime_data, {}};
  EXPECT_FALSE(table());
}

TEST_F(ThreadTableTest, IsNowhereIfTheContextIsNoneOfOurs) {
  context().magic ^= 1;
  EXPECT_FALSE(table());
}

TEST_F(ThreadTableTest, LiesWithinTheDataWhateverTheTargetClaims) {
  const uint64_t last = begin() + kSize - kEntry * layout::kThreadEntries;
  for (const uint64_t at : {begin() - 8, last + 1, begin() + kSize, begin() + kSize + kPageSize,
                            uint64_t{8}, UINT64_MAX, UINT64_MAX - kTable}) {
    context().threads = at;
    EXPECT_FALSE(table()) << std::hex << at;
  }
  context().threads = last;
  EXPECT_TRUE(table());
}

TEST_F(ThreadTableTest, HasEntriesOfASizeThatASessionCanHave) {
  for (const uint64_t size :
       {uint64_t{0}, uint64_t{15}, kEntry + 64, layout::thread_entry_size(layout::kMostSpans) + 1,
        uint64_t{1} << 51, UINT64_MAX, UINT64_MAX / layout::kThreadEntries + 1}) {
    context().thread_size = size;
    EXPECT_FALSE(table()) << size;
  }
}

// An entry's size may be no multiple of a word's.
TEST_F(ThreadTableTest, IsTheOnlyMemoryThatForgettingAndSweepingWrite) {
  const Scratch folder;
  layout::Session session;
  session.header = layout::lay_out({.cpus = 1});
  auto file = ledger::SessionFile::create(folder / "1-1.session", session);
  ASSERT_TRUE(file);
  for (const uint64_t size : {kEntry, uint64_t{16}, uint64_t{17}, uint64_t{31}, kEntry - 1}) {
    context().thread_size = size;
    context().threads = begin() + kPageSize + kTable - size * layout::kThreadEntries;
    std::memset(bytes_, kNotOurs, kPageSize + kTable);
    // The context comes after the table, and must stay as it is.
    const layout::RuntimeContext before = context();
    ASSERT_TRUE(table()) << size;
    ASSERT_TRUE(forget_starts(*memory_, *file, journal_));
    sweep_threads(::getpid(), *memory_, journal_);
    for (uint64_t i = 0; i < context().threads - begin(); ++i) ASSERT_EQ(bytes_[i], kNotOurs) << i;
    for (uint64_t i = kSize; i < kSize + kPageSize; ++i) ASSERT_EQ(bytes_[i], kNotOurs) << i;
    EXPECT_EQ(std::memcmp(&before, &context(), sizeof before), 0) << size;
  }
}

TEST_F(ThreadTableTest, IsSweptOfThreadsThatDoNotLive) {
  const uint64_t own = kPageSize, ended = kPageSize + 5 * kEntry, free = kPageSize + 6 * kEntry;
  const auto take = [&](uint64_t at, uint32_t tid) {
    *reinterpret_cast<layout::ThreadEntry*>(bytes_ + at) = {.owner = 4711, .tid = tid, .dead = 0};
    word(at + sizeof(layout::ThreadEntry)) = 1;
  };
  const auto dead = [&](uint64_t at) {
    return reinterpret_cast<layout::ThreadEntry*>(bytes_ + at)->dead;
  };
  constexpr uint32_t kNoTid = 0x7fff'ffff;  // larger than any
  take(own, static_cast<uint32_t>(::gettid()));
  take(ended, kNoTid);
  sweep_threads(::getpid(), *memory_, journal_);
  EXPECT_EQ(dead(own), 0u);
  EXPECT_EQ(dead(ended), kNoTid);
  EXPECT_EQ(dead(free), 0u);
  EXPECT_EQ(word(ended + sizeof(layout::ThreadEntry)), 1u) << "only the next owner clears it";
}

TEST_F(ThreadTableTest, LosesAllStartsWhenTheyAreForgottenAndKeepsItsOwners) {
  const Scratch folder;
  layout::Session session;
  session.header = layout::lay_out({.cpus = 1});
  auto file = ledger::SessionFile::create(folder / "1-1.session", session);
  ASSERT_TRUE(file);
  for (uint64_t i = 0; i < layout::kThreadEntries; ++i) {
    *reinterpret_cast<layout::ThreadEntry*>(bytes_ + kPageSize + i * kEntry) = {
        .owner = i + 1, .tid = 7, .dead = 0};
    word(kPageSize + i * kEntry + sizeof(layout::ThreadEntry)) = i + 1;
  }
  ASSERT_TRUE(forget_starts(*memory_, *file, journal_));
  for (uint64_t i = 0; i < layout::kThreadEntries; ++i) {
    ASSERT_EQ(word(kPageSize + i * kEntry), i + 1);
    ASSERT_EQ(word(kPageSize + i * kEntry + sizeof(layout::ThreadEntry)), 0u) << i;
  }
}

}  // namespace
}  // namespace pinprick::engine
