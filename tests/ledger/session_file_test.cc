// Session files: which parts take memory, and how what the target wrote is read.
#include "ledger/session_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <optional>
#include <tuple>
#include <vector>

#include "base/fd.h"
#include "scratch.h"

namespace pinprick::ledger {
namespace {

constexpr uint64_t kBlock = layout::histogram_size(3);
constexpr uint64_t kFirst = SessionFile::kFirstBlocks / kBlock;

// The file of a session with latency probes, and `blocks` blocks for their histograms.
layout::Session session_of(uint64_t histograms, uint64_t blocks) {
  layout::Session session;
  session.header = layout::lay_out({.sites = 1,
                                    .probes = histograms,
                                    .histograms = histograms,
                                    .pool_size = blocks * kBlock,
                                    .name_bytes = 1,
                                    .cpus = 2,
                                    .fraction_bits = 3});
  session.sites.resize(1);
  session.probes.resize(histograms);
  session.names.resize(1);
  return session;
}

class PoolOfAFile : public testing::Test {
 protected:
  void make(uint64_t histograms, uint64_t blocks) {
    session_ = session_of(histograms, blocks);
    auto made = SessionFile::create(scratch_ / "1-1.session", session_);
    ASSERT_TRUE(made);
    file_.emplace(*std::move(made));
    reserved_ = std::min(kFirst, blocks) * kBlock;
  }
  uint64_t size() const { return status().st_size; }
  uint64_t memory() const { return status().st_blocks * 512; }
  // Writes what the target would write.
  template <class T>
  void put(uint64_t offset, const T& value) {
    ASSERT_TRUE(write_at(file_->descriptor(),
                         {reinterpret_cast<const uint8_t*>(&value), sizeof value}, offset));
  }
  void take(uint64_t blocks) { put(session_.header.pool_offset, blocks * kBlock); }
  uint64_t limit() const { return pool().limit / kBlock; }
  uint64_t own_limit() const { return pool().own_limit / kBlock; }
  layout::PoolHeader pool() const { return file_->read_pool(session_); }
  stats::Histogram histogram(size_t number) const {
    return file_->read_histograms(session_).at(number);
  }
  bool extend() { return file_->extend_pool(session_, reserved_); }
  uint64_t end_of_blocks(uint64_t blocks) const {
    return layout::end_of_blocks(session_.header, blocks * kBlock);
  }

  Scratch scratch_;
  layout::Session session_;
  std::optional<SessionFile> file_;
  uint64_t reserved_ = 0;

 private:
  struct stat status() const {
    struct stat status = {};
    EXPECT_EQ(::fstat(file_->descriptor(), &status), 0);
    return status;
  }
};

TEST_F(PoolOfAFile, IsReservedAsAWholeIfItHasFewBlocks) {
  make(3, 9);
  EXPECT_EQ(limit(), 9u);
  EXPECT_EQ(own_limit(), 6u) << "one for each histogram that all share";
  EXPECT_GE(memory(), end_of_blocks(9));
  take(9);
  EXPECT_FALSE(extend());
}

TEST_F(PoolOfAFile, TakesMemoryAsBlocksAreTaken) {
  make(10'000, 30'000);
  EXPECT_GE(size(), end_of_blocks(30'000));
  for (uint64_t blocks : {kFirst, 2 * kFirst, 4 * kFirst}) {
    EXPECT_EQ(limit(), blocks);
    EXPECT_EQ(own_limit(), blocks - blocks / 4);
    EXPECT_GE(memory(), end_of_blocks(blocks));
    EXPECT_LT(memory(), end_of_blocks(blocks + 600));
    take(blocks / 2 - 1);
    EXPECT_FALSE(extend());
    EXPECT_EQ(limit(), blocks);
    take(blocks / 2);
    EXPECT_TRUE(extend());
  }
  EXPECT_EQ(limit(), 30'000u) << "and no more than there are";
  EXPECT_EQ(own_limit(), 20'000u);
  EXPECT_EQ(size(), session_.header.file_size);
  take(30'000);
  EXPECT_FALSE(extend());
}

TEST_F(PoolOfAFile, LeavesABlockForEachHistogramToTheSharedArea) {
  make(10'000, 12'000);
  do {
    EXPECT_LE(own_limit(), 2'000u);
    EXPECT_GT(own_limit(), 0u);
    take(limit());
  } while (extend());
  EXPECT_EQ(limit(), 12'000u);
}

TEST_F(PoolOfAFile, IsNeverExtendedBeyondItsSizeWhateverTheTargetClaims) {
  make(10'000, 30'000);
  put(session_.header.pool_offset, UINT64_MAX);
  while (extend()) continue;
  EXPECT_EQ(limit(), 30'000u);
}

TEST_F(PoolOfAFile, HistogramsAreSummedOverAllAreas) {
  make(2, 6);
  const auto offset_field = [&](uint64_t area, uint64_t histogram) {
    return layout::area_offset(session_.header, area) +
           layout::time_counters_offset(session_.header, histogram) +
           offsetof(layout::TimeCounters, block);
  };
  const auto offset_of = [&](uint64_t block) {
    return end_of_blocks(block) - session_.header.pool_offset;
  };
  for (uint64_t block = 0; block < 3; ++block)
    put(end_of_blocks(block) + 7 * sizeof(stats::Cell), stats::Cell{1 + block, 10});
  EXPECT_EQ(histogram(1).count(), 0u) << "no counters lead there";
  put(offset_field(0, 1), offset_of(2));
  put(offset_field(2, 1), offset_of(1));
  EXPECT_EQ(histogram(0).count(), 0u);
  EXPECT_EQ(histogram(1).count(), 5u);
  EXPECT_EQ(histogram(1).cells()[7].sum, 20u);
  // Block offsets that lead to no block are ignored.
  for (uint64_t offset : {offset_of(0) + 8, offset_of(6), uint64_t{8}, UINT64_MAX}) {
    put(offset_field(1, 1), offset);
    EXPECT_EQ(histogram(1).count(), 5u);
  }
}

TEST_F(PoolOfAFile, HitsAreAllThatWasRecordedAndAllThatWasLostInAllAreas) {
  make(2, 6);
  const auto counters_of = [&](uint64_t area, uint64_t histogram) {
    return layout::area_offset(session_.header, area) +
           layout::time_counters_offset(session_.header, histogram);
  };
  const auto offset_of = [&](uint64_t block) {
    return end_of_blocks(block) - session_.header.pool_offset;
  };
  put(end_of_blocks(0) + 7 * sizeof(stats::Cell), stats::Cell{100, 10});
  put(end_of_blocks(0) + 9 * sizeof(stats::Cell), stats::Cell{200, 10});
  put(end_of_blocks(1), stats::Cell{1000, 10});
  put(counters_of(0, 1), layout::TimeCounters{1, 2, 3, 4, offset_of(0)});
  put(counters_of(2, 1), layout::TimeCounters{10, 0, 0, 0, offset_of(1)});
  put(counters_of(1, 0), layout::TimeCounters{5, 0, 0, 0, UINT64_MAX});  // leads to no block
  EXPECT_EQ(file_->read_hits(session_), (std::vector<uint64_t>{5, 1320}));
}

// As in a large program with 70,000 functions, of which some hundred are called.
TEST_F(PoolOfAFile, HistogramsTakeMemoryOnlyWhereSomethingWasRecorded) {
  constexpr size_t kFunctions = 70'000, kCalled = 500;
  make(kFunctions, 2 * kFunctions);
  for (size_t i = 0; i < kCalled; ++i) {
    const uint64_t histogram = i * (kFunctions / kCalled);
    put(layout::area_offset(session_.header, 1) +
            layout::time_counters_offset(session_.header, histogram) +
            offsetof(layout::TimeCounters, block),
        end_of_blocks(i) - session_.header.pool_offset);
    put(end_of_blocks(i), stats::Cell{i + 1, 0});
  }
  const auto histograms = file_->read_histograms(session_);
  ASSERT_EQ(histograms.size(), kFunctions);
  size_t with_cells = 0, bytes = histograms.capacity() * sizeof histograms[0];
  for (const stats::Histogram& one : histograms) {
    with_cells += !one.cells().empty();
    bytes += one.cells().capacity() * sizeof(stats::Cell);
  }
  EXPECT_EQ(with_cells, kCalled);
  EXPECT_LT(bytes, 10u << 20);
  EXPECT_EQ(histograms[kFunctions - kFunctions / kCalled].count(), kCalled);
}

// The file of a session with two probes that count by keys.
class KeysOfAFile : public testing::Test {
 protected:
  KeysOfAFile() {
    session_.header = layout::lay_out({.sites = 1,
                                       .probes = 2,
                                       .counters = 2,
                                       .name_bytes = 1,
                                       .cpus = 2,
                                       .fraction_bits = 3,
                                       .key_log2 = 4});
    session_.sites.resize(1);
    session_.probes.resize(2);
    session_.names.resize(1);
    auto made = SessionFile::create(scratch_ / "1-1.session", session_);
    EXPECT_TRUE(made);
    file_.emplace(*std::move(made));
  }
  // Writes what the target would write.
  void enter(uint64_t entry, uint64_t key, uint64_t owner) {
    const layout::KeyEntry words = {key, owner};
    write(session_.header.keys_offset + entry * sizeof words, &words, sizeof words);
  }
  void count(uint64_t area, uint64_t entry, uint64_t hits) {
    write(layout::area_offset(session_.header, area) +
              layout::key_counter_offset(session_.header, entry),
          &hits, sizeof hits);
  }
  using Rows = std::vector<std::tuple<uint32_t, uint64_t, uint64_t>>;
  Rows rows() const {
    Rows rows;
    for (const KeyHits& one : file_->read_keys(session_))
      rows.emplace_back(one.owner / sizeof(uint64_t), one.key, one.hits);
    return rows;
  }
  uint64_t last_entry() const { return layout::key_count(session_.header) - 1; }

  static constexpr uint64_t kFirst = 1, kSecond = 9;  // owners

 private:
  void write(uint64_t offset, const void* bytes, size_t size) {
    ASSERT_TRUE(write_at(file_->descriptor(), {static_cast<const uint8_t*>(bytes), size}, offset));
  }

  Scratch scratch_;
  layout::Session session_;
  std::optional<SessionFile> file_;
};

TEST_F(KeysOfAFile, AreSummedOverAllAreasAndAllEntriesOfOneKey) {
  EXPECT_TRUE(rows().empty());
  enter(3, 77, kSecond);
  enter(4, 5, kFirst);
  enter(last_entry(), 77, kSecond);
  for (const uint64_t area : {0, 1, 2}) count(area, 3, 10);
  count(1, 4, 1);
  count(2, last_entry(), 5);
  EXPECT_EQ(rows(), (Rows{{0, 5, 1}, {1, 77, 35}}));
}

TEST_F(KeysOfAFile, HaveNoEntryThatIsFreeOrNotComplete) {
  enter(0, 0, 0);
  enter(1, 0, kFirst + PP_KEY_FILLING);
  enter(2, 4, kFirst);
  for (const uint64_t entry : {0, 1}) count(1, entry, 10);
  EXPECT_TRUE(rows().empty()) << "an entry without a hit was not counted yet";
}

TEST_F(KeysOfAFile, OfProbesThatAreNotThereAreLeftOut) {
  for (const uint64_t owner : {uint64_t{17}, uint64_t{3}, UINT64_MAX, uint64_t{1} << 63 | 1}) {
    enter(0, 1, owner);
    count(1, 0, 10);
    EXPECT_TRUE(rows().empty()) << owner;
  }
}

}  // namespace
}  // namespace pinprick::ledger
