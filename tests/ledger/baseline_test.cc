// Resets of a session file: what its readers return from then on.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "ledger/session_file.h"
#include "scratch.h"

namespace pinprick::ledger {
namespace {

constexpr uint32_t kBits = 3, kCpus = 2;
constexpr uint64_t kBlock = layout::histogram_size(kBits);
constexpr uint64_t kHistograms = 2;  // of a function, and of the gaps between its calls

layout::Session session_with(layout::Gap gap) {
  layout::Session session;
  const uint64_t functions = gap == layout::Gap::none ? kHistograms : kHistograms - 1;
  session.header = layout::lay_out({.objects = 1,
                                    .sites = 1,
                                    .probes = functions,
                                    .histograms = kHistograms,
                                    .pool_size = (kCpus + 1) * kHistograms * kBlock,
                                    .name_bytes = 1,
                                    .cpus = kCpus,
                                    .fraction_bits = kBits,
                                    .gap = gap});
  layout::SiteEntry site;
  site.displaced = site.length = site.own = layout::kLongSiteLength;
  layout::ProbeEntry probe;
  probe.kind = layout::ProbeEntry::Kind::latency;
  session.objects.resize(1);
  session.sites = {site};
  session.probes.assign(functions, probe);
  session.names.resize(1);
  return session;
}

// A session file that a target writes to.
class Recorded {
 public:
  explicit Recorded(const std::string& folder, layout::Gap gap = layout::Gap::cpu)
      : session_(session_with(gap)) {
    auto made = SessionFile::create(folder + "/1-1.session", session_);
    EXPECT_TRUE(made);
    if (made) file_.emplace(*std::move(made));
  }

  SessionFile& file() { return *file_; }
  layout::Session& session() { return session_; }
  uint64_t resets() const { return session_.header.resets; }
  Result<void, FileError> reset() { return file_->reset(session_); }

  // As the runtime does: area 0 is the shared one, area 1 + n is CPU n's.
  void record(uint64_t area, uint64_t histogram, uint32_t slot, uint64_t count, uint64_t sum) {
    const uint64_t block =
        layout::end_of_blocks(session_.header, (area * kHistograms + histogram) * kBlock);
    put(counters_at(area, histogram) + offsetof(layout::TimeCounters, block),
        block - session_.header.pool_offset);
    const uint64_t at = block + slot * sizeof(stats::Cell);
    const auto cell = get<stats::Cell>(at);
    put(at, stats::Cell{cell.count + count, cell.sum + sum});
  }
  void miss(uint64_t area, uint64_t histogram, const layout::TimeCounters& calls) {
    const uint64_t at = counters_at(area, histogram);
    auto counters = get<layout::TimeCounters>(at);
    counters.missed += calls.missed;
    counters.unwound += calls.unwound;
    counters.abandoned += calls.abandoned;
    counters.from_generated += calls.from_generated;
    put(at, counters);
  }

  stats::Histogram histogram(uint64_t number) const {
    return file_->read_histograms(session_).at(number);
  }
  layout::Losses losses(uint64_t number) const { return file_->read_losses(session_).at(number); }
  std::vector<stats::CpuHistogram> by_cpu(uint64_t number) const {
    return file_->read_by_cpu(session_, number);
  }

  uint64_t gap_word_at(uint64_t area) const {
    return layout::area_offset(session_.header, area) + layout::gap_word_offset(session_.header);
  }
  template <class T>
  void put(uint64_t offset, const T& value) {
    EXPECT_TRUE(write_at(file_->descriptor(),
                         {reinterpret_cast<const uint8_t*>(&value), sizeof value}, offset));
  }
  template <class T>
  T get(uint64_t offset) const {
    T value;
    EXPECT_TRUE(
        read_at(file_->descriptor(), {reinterpret_cast<uint8_t*>(&value), sizeof value}, offset));
    return value;
  }
  uint64_t size() const {
    struct stat status = {};
    EXPECT_EQ(::fstat(file_->descriptor(), &status), 0);
    return static_cast<uint64_t>(status.st_size);
  }
  void truncate(uint64_t size) {
    EXPECT_EQ(::ftruncate(file_->descriptor(), static_cast<off_t>(size)), 0);
  }

 private:
  uint64_t counters_at(uint64_t area, uint64_t histogram) const {
    return layout::area_offset(session_.header, area) +
           layout::time_counters_offset(session_.header, histogram);
  }

  layout::Session session_;
  std::optional<SessionFile> file_;
};

class Baseline : public testing::Test {
 protected:
  // What each area has of either histogram adds up to what all have.
  void expect_sums_agree() const {
    const auto all = recorded_.file().read_histograms(recorded_.session());
    for (uint64_t number = 0; number < kHistograms; ++number) {
      stats::Histogram sum(kBits);
      for (const stats::CpuHistogram& one : recorded_.by_cpu(number)) {
        EXPECT_NE(one.histogram.count(), 0u);
        sum.merge(one.histogram);
      }
      EXPECT_EQ(sum.count(), all[number].count());
      EXPECT_EQ(sum.sum(), all[number].sum());
    }
    EXPECT_TRUE(recorded_.by_cpu(kHistograms).empty()) << "there is no such histogram";
  }

  const Scratch scratch_;
  mutable Recorded recorded_{scratch_.path()};
};

TEST_F(Baseline, IsSubtractedSoThatFiguresAreThoseSinceTheReset) {
  recorded_.record(0, 0, 7, 5, 35);
  recorded_.record(1, 0, 7, 100, 700);
  recorded_.record(2, 1, 20, 3, 66);
  ASSERT_TRUE(recorded_.reset());
  EXPECT_EQ(recorded_.resets(), 1u);
  EXPECT_EQ(recorded_.histogram(0).count(), 0u);
  EXPECT_EQ(recorded_.histogram(1).count(), 0u);
  EXPECT_TRUE(recorded_.by_cpu(0).empty());

  recorded_.record(1, 0, 7, 2, 14);
  recorded_.record(2, 0, 9, 1, 9);  // a CPU without calls before
  recorded_.record(2, 1, 21, 1, 23);
  EXPECT_EQ(recorded_.histogram(0).count(), 3u);
  EXPECT_EQ(recorded_.histogram(0).cells()[7].count, 2u);
  EXPECT_EQ(recorded_.histogram(0).cells()[7].sum, 14u);
  EXPECT_EQ(recorded_.histogram(0).cells()[9].count, 1u);
  EXPECT_EQ(recorded_.histogram(1).count(), 1u);
  EXPECT_EQ(recorded_.histogram(1).cells()[20].count, 0u);
  expect_sums_agree();
}

// The baselines of two resets lie at two offsets, so the third is where the first was.
TEST_F(Baseline, OfEachResetReplacesTheLast) {
  for (uint64_t round = 1; round <= 5; ++round) {
    recorded_.record(round % 3, round % 2, 7, round, 7 * round);
    recorded_.record(1, 0, 30, 10 * round, 0);
    recorded_.miss(0, 0, {.missed = round});
    const bool both = round % 2 == 0;
    EXPECT_EQ(recorded_.histogram(0).count(), 10 * round + (both ? round : 0)) << round;
    EXPECT_EQ(recorded_.histogram(1).count(), both ? 0u : round) << round;
    EXPECT_EQ(recorded_.losses(0)[layout::Loss::missed], round);
    expect_sums_agree();
    ASSERT_TRUE(recorded_.reset());
    EXPECT_EQ(recorded_.resets(), round);
    EXPECT_EQ(recorded_.histogram(0).count() + recorded_.histogram(1).count(), 0u) << round;
    EXPECT_EQ(recorded_.losses(0)[layout::Loss::missed], 0u);
  }
}

TEST_F(Baseline, IsEmptyWhereNothingWasRecorded) {
  for (int resets = 0; resets < 3; ++resets) ASSERT_TRUE(recorded_.reset());
  EXPECT_EQ(recorded_.histogram(0).count(), 0u);
  recorded_.record(1, 0, 7, 2, 14);
  EXPECT_EQ(recorded_.histogram(0).count(), 2u);
  EXPECT_EQ(recorded_.histogram(0).cells()[7].sum, 14u);
  expect_sums_agree();
}

TEST_F(Baseline, IsAlsoThatOfCallsThatWereNotRecorded) {
  recorded_.miss(0, 0, {.missed = 1, .unwound = 2, .abandoned = 3, .from_generated = 4});
  recorded_.miss(2, 0, {.missed = 10, .unwound = 20, .abandoned = 30, .from_generated = 40});
  recorded_.miss(1, 1, {.missed = 7});
  ASSERT_TRUE(recorded_.reset());
  recorded_.miss(2, 0, {.missed = 5, .unwound = 6, .abandoned = 7, .from_generated = 8});
  const layout::Losses calls = recorded_.losses(0);
  EXPECT_EQ(calls[layout::Loss::missed], 5u);
  EXPECT_EQ(calls[layout::Loss::unwound], 6u);
  EXPECT_EQ(calls[layout::Loss::abandoned], 7u);
  EXPECT_EQ(calls[layout::Loss::from_generated], 8u);
  EXPECT_EQ(recorded_.losses(1)[layout::Loss::missed], 0u);
}

TEST_F(Baseline, HoldsForAllReadersThatReadTheHeaderFromThenOn) {
  recorded_.record(1, 0, 7, 5, 35);
  auto other = SessionFile::open(recorded_.file().path(), SessionFile::Lock::none);
  ASSERT_TRUE(other);
  const auto before = other->read();
  ASSERT_TRUE(before);
  ASSERT_TRUE(recorded_.reset());
  recorded_.record(1, 0, 7, 1, 7);
  EXPECT_EQ(other->resets(), 1u) << "this tells a reader that its header is old";
  EXPECT_EQ(other->read_histograms(*before)[0].count(), 6u);
  const auto between = other->read();
  ASSERT_TRUE(between);
  EXPECT_EQ(other->read_histograms(*between)[0].count(), 1u);
  ASSERT_TRUE(recorded_.reset());
  EXPECT_EQ(other->resets(), 2u);
  EXPECT_EQ(other->read_histograms(*between)[0].count(), 1u)
      << "the second reset has left the first one's baseline alone";
}

TEST_F(Baseline, LiesAfterWhatTheTargetMaps) {
  const std::vector<uint8_t> before = read_bytes(recorded_.file().path());
  ASSERT_EQ(before.size(), recorded_.session().header.file_size);
  for (int resets = 0; resets < 2; ++resets) ASSERT_TRUE(recorded_.reset());
  std::vector<uint8_t> after = read_bytes(recorded_.file().path());
  ASSERT_GT(after.size(), before.size());
  after.resize(before.size());
  const uint64_t none = 0;
  std::memcpy(after.data() + offsetof(layout::FileHeader, resets), &none, sizeof none);
  EXPECT_EQ(after, before);
}

TEST_F(Baseline, TakesMemoryOnlyWhereSomethingWasRecorded) {
  recorded_.record(1, 0, 7, 5, 35);
  struct stat before = {}, after = {};
  ASSERT_EQ(::fstat(recorded_.file().descriptor(), &before), 0);
  for (int resets = 0; resets < 10; ++resets) ASSERT_TRUE(recorded_.reset());
  ASSERT_EQ(::fstat(recorded_.file().descriptor(), &after), 0);
  const uint64_t entries = (kCpus + 1) * kHistograms;
  EXPECT_LE((after.st_blocks - before.st_blocks) * 512,
            static_cast<long>(2 * (entries * kPageSize + kBlock + kPageSize)));
}

// --- Hostile files

TEST_F(Baseline, ThatIsCutOffIsReadAsFarAsItGoes) {
  for (uint64_t area = 0; area <= kCpus; ++area)
    for (uint64_t number = 0; number < kHistograms; ++number)
      recorded_.record(area, number, 7, 5, 35);
  const uint64_t most = (kCpus + 1) * 5;
  for (uint64_t resets = 1; resets <= 2; ++resets) {
    ASSERT_TRUE(recorded_.reset());
    const uint64_t begin = layout::baseline_offset(recorded_.session().header, resets);
    uint64_t last = 0;
    for (uint64_t size = begin + layout::baseline_size(recorded_.session().header); size >= begin;
         size -= 1000) {
      recorded_.truncate(size);
      expect_sums_agree();
      const uint64_t count = recorded_.histogram(0).count();
      EXPECT_GE(count, last) << "more of the baseline is missing";
      EXPECT_LE(count, most);
      last = count;
    }
    EXPECT_GT(last, 0u);
    recorded_.truncate(begin);
    EXPECT_EQ(recorded_.histogram(0).count(), most) << "there is no baseline at all";
  }
}

TEST_F(Baseline, OfAnyNumberOfResetsIsReadWithinTheFile) {
  recorded_.record(1, 0, 7, 5, 35);
  ASSERT_TRUE(recorded_.reset());
  ASSERT_TRUE(recorded_.reset());
  for (const uint64_t resets : {uint64_t{1}, uint64_t{2}, uint64_t{1} << 63, UINT64_MAX}) {
    recorded_.put(offsetof(layout::FileHeader, resets), resets);
    const auto found = recorded_.file().read();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->header.resets, resets);
    EXPECT_EQ(recorded_.file().read_histograms(*found)[0].count(), 0u);
    EXPECT_TRUE(recorded_.file().read_by_cpu(*found, 0).empty());
  }
}

TEST_F(Baseline, ThatClaimsMoreThanThereIsDoesNotMakeReadersDisagree) {
  recorded_.record(1, 0, 7, 5, 35);
  ASSERT_TRUE(recorded_.reset());
  const uint64_t begin = layout::baseline_offset(recorded_.session().header, 1);
  const uint64_t end = begin + layout::baseline_size(recorded_.session().header);
  for (uint64_t at = begin; at + 8 <= end; at += 8) recorded_.put(at, UINT64_MAX);
  recorded_.record(1, 0, 9, 1, 9);
  expect_sums_agree();
  EXPECT_EQ(recorded_.histogram(0).count(), 0u);
}

// --- Gaps

TEST_F(Baseline, ForgetsTheEndsBeforeGapsOfAllCpus) {
  for (uint64_t area = 0; area <= kCpus; ++area)
    recorded_.put(recorded_.gap_word_at(area), uint64_t{4711} + area);
  ASSERT_TRUE(recorded_.file().forget_gaps(recorded_.session()));
  for (uint64_t area = 0; area <= kCpus; ++area)
    EXPECT_EQ(recorded_.get<uint64_t>(recorded_.gap_word_at(area)), 0u) << area;
}

TEST(ForgetGaps, WritesNothingWhereAreasHaveNoGaps) {
  for (const layout::Gap gap : {layout::Gap::none, layout::Gap::thread}) {
    const Scratch scratch;
    Recorded recorded(scratch.path(), gap);
    for (uint64_t area = 0; area <= kCpus; ++area)
      recorded.put(recorded.gap_word_at(area), uint64_t{4711});
    const auto before = read_bytes(recorded.file().path());
    ASSERT_TRUE(recorded.file().forget_gaps(recorded.session()));
    EXPECT_EQ(read_bytes(recorded.file().path()), before);
  }
}

// --- A full file system

// Runs `run` in a child with a tmpfs of that size at `folder`. Returns why there is none, or an
// empty string; the child's failures are the test's.
std::string with_tmpfs(const std::string& folder, uint64_t size, const std::function<void()>& run) {
  constexpr int kFailed = 255;
  const uid_t uid = ::getuid();
  const gid_t gid = ::getgid();
  const pid_t child = ::fork();
  if (child == 0) {
    const int flags = CLONE_NEWNS | (uid == 0 ? 0 : CLONE_NEWUSER);
    if (::unshare(flags) != 0) ::_exit(errno);
    if (uid != 0) {
      std::ofstream("/proc/self/setgroups") << "deny";
      std::ofstream("/proc/self/uid_map") << "0 " << uid << " 1";
      std::ofstream("/proc/self/gid_map") << "0 " << gid << " 1";
    }
    const std::string options = "size=" + std::to_string(size);
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", folder.c_str(), "tmpfs", 0, options.c_str()) != 0)
      ::_exit(errno);
    run();
    ::_exit(testing::Test::HasFailure() ? kFailed : 0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_NE(WEXITSTATUS(status), kFailed) << "in the child";
  return WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kFailed
             ? ""
             : std::string("cannot mount a tmpfs: ") + std::strerror(WEXITSTATUS(status));
}

// Takes all space there but `left` bytes.
void fill(const std::string& path, uint64_t left) {
  const auto file = open_file(path, O_RDWR | O_CREAT, 0600);
  ASSERT_TRUE(file);
  const std::vector<uint8_t> page(kPageSize, 1);
  uint64_t size = 0;
  while (write_at(file->get(), page, size)) size += kPageSize;
  ASSERT_GE(size, left);
  ASSERT_EQ(::ftruncate(file->get(), static_cast<off_t>(size - left)), 0);
}

TEST(AResetWithoutSpace, FailsAndChangesNothing) {
  const Scratch scratch;
  const std::string skipped = with_tmpfs(scratch.path(), 1 << 20, [&] {
    Recorded recorded(scratch.path());
    for (uint64_t area = 0; area <= kCpus; ++area)
      for (uint64_t number = 0; number < kHistograms; ++number)
        recorded.record(area, number, 7, 5, 35);
    const std::string filler = scratch / "filler";
    constexpr uint64_t kAll = (kCpus + 1) * 5;
    // The third one writes where the first did, and needs no more space than that has.
    for (uint64_t resets = 0; resets < 3; ++resets) {
      const uint64_t before = recorded.histogram(0).count();
      EXPECT_EQ(before, resets == 0 ? kAll : 1);
      // It runs out of space at once, or somewhere in the middle.
      for (const uint64_t left : {0, 1, 6}) {
        fill(filler, left * kPageSize);
        if (resets == 2) break;
        const auto failed = recorded.reset();
        ASSERT_FALSE(failed) << resets << " " << left;
        EXPECT_EQ(failed.error().cause, FileError::Cause::no_space);
        EXPECT_EQ(failed.error().system_error, ENOSPC);
        EXPECT_EQ(recorded.resets(), resets);
        EXPECT_EQ(recorded.file().resets(), resets);
        EXPECT_EQ(recorded.histogram(0).count(), before);
        ::unlink(filler.c_str());
      }
      ASSERT_TRUE(recorded.reset());
      EXPECT_EQ(recorded.histogram(0).count(), 0u);
      recorded.record(1, 0, 9, 1, 9);
    }
  });
  if (!skipped.empty()) GTEST_SKIP() << skipped;
}

}  // namespace
}  // namespace pinprick::ledger
