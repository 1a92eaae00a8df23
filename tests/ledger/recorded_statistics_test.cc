// Statistics that a program records itself, as another process changes them; the program is played
// by the test, which writes the file.
#include "ledger/recorded_statistics.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "base/fd.h"
#include "scratch.h"

namespace pinprick::ledger {
namespace {

using layout::StatisticHeader;
using State = StatisticHeader::State;

constexpr uint32_t kBits = 5;

// A file with one statistic in use, which runs.
class ProgramsFile {
 public:
  explicit ProgramsFile(uint32_t cpus) : cpus_(cpus), path_(folder_ / "1-1.kstats") {
    auto made = open_file(path_, O_RDWR | O_CREAT, 0600);
    EXPECT_TRUE(made);
    if (made) file_ = *std::move(made);
    layout::RecordedHeader header;
    header.pid = ::getpid();
    header.cpu_count = cpus;
    header.end = kPageSize + layout::statistic_size(kBits, cpus);
    EXPECT_EQ(::ftruncate(file_.get(), static_cast<off_t>(header.end)), 0);
    put(0, header);
    put(kPageSize, statistic("mine", 1));
  }

  StatisticHeader statistic(std::string_view name, uint64_t created_ns) const {
    StatisticHeader header;
    header.size = layout::statistic_size(kBits, cpus_);
    header.state = State::used;
    header.fraction_bits = kBits;
    header.control = layout::make_control(true, 0, 0);
    header.created_ns = created_ns;
    std::copy(name.begin(), name.end(), header.name);
    return header;
  }
  void put_statistic(const StatisticHeader& header) { put(kPageSize, header); }
  StatisticHeader statistic_now() const { return get<StatisticHeader>(kPageSize); }

  // The first and the last word of the values, and of the baseline that the first reset writes.
  void put_first_and_last_value(uint64_t value) {
    put(kPageSize + sizeof(StatisticHeader), value);
    put(kPageSize + sizeof(StatisticHeader) + last(), value);
  }
  uint64_t first_in_baseline() const { return get<uint64_t>(baseline()); }
  uint64_t last_in_baseline() const { return get<uint64_t>(baseline() + last()); }

  RecordedFile open() const {
    auto file = RecordedFile::open(path_, RecordedFile::Access::change);
    EXPECT_TRUE(file);
    if (!file) std::abort();
    return *std::move(file);
  }

 private:
  uint64_t last() const { return layout::values_size(kBits, cpus_) - sizeof(uint64_t); }
  uint64_t baseline() const { return kPageSize + layout::baseline_offset(kBits, cpus_, 1); }
  template <class T>
  void put(uint64_t offset, const T& value) {
    EXPECT_TRUE(
        write_at(file_.get(), {reinterpret_cast<const uint8_t*>(&value), sizeof value}, offset));
  }
  template <class T>
  T get(uint64_t offset) const {
    T value = {};
    EXPECT_TRUE(read_at(file_.get(), {reinterpret_cast<uint8_t*>(&value), sizeof value}, offset));
    return value;
  }

  const uint32_t cpus_;
  const Scratch folder_;
  const std::string path_;
  Fd file_;
};

uint64_t resets_of(const RecordedFile& file) {
  const auto read = file.read("mine");
  EXPECT_TRUE(read);
  return read ? read->resets : 0;
}

TEST(RecordedFile, CountsResetsAlsoThoseOfOlderVersionsWhichWriteTheControlWordAlone) {
  ProgramsFile programs(2);
  RecordedFile file = programs.open();
  std::set<uint64_t> numbers = {resets_of(file)};
  for (int i = 0; i < 6; ++i) {
    if (i % 3 == 2) {
      StatisticHeader header = programs.statistic_now();
      header.control = layout::after_reset(header.control);
      programs.put_statistic(header);
    } else {
      EXPECT_TRUE(file.reset("mine"));
    }
    EXPECT_TRUE(numbers.insert(resets_of(file)).second) << i;
  }
  EXPECT_TRUE(file.set_running("mine", false));
  EXPECT_TRUE(file.set_running("mine", true));
  EXPECT_FALSE(numbers.insert(resets_of(file)).second) << "that was no reset";
}

// The program removes the statistic, and makes another one, while a reset copies the values: once
// the first word is in the baseline. Returns the error of the reset; nullopt if it was over before.
std::optional<RecordedError::Cause> reset_during(ProgramsFile& programs,
                                                 const StatisticHeader& next) {
  RecordedFile file = programs.open();
  std::atomic<bool> was_in_time = false;
  std::thread program([&] {
    while (programs.first_in_baseline() == 0) {
    }
    programs.put_statistic(next);
    was_in_time = programs.last_in_baseline() == 0;
  });
  const auto reset = file.reset("mine");
  program.join();
  if (!was_in_time) return std::nullopt;
  EXPECT_FALSE(reset);
  return reset ? RecordedError::Cause::system : reset.error().cause;
}

TEST(RecordedFile, AResetDoesNotTouchTheStatisticThatIsMadeInThePlaceOfTheOneItMeant) {
  for (const bool is_removed_only : {true, false}) {
    std::optional<RecordedError::Cause> cause;
    // The scheduler may hold the thread up for longer than a reset takes.
    for (int attempt = 0; attempt < 100 && !cause; ++attempt) {
      ProgramsFile programs(1024);
      programs.put_first_and_last_value(1);
      StatisticHeader next = programs.statistic("mine", 2);
      if (is_removed_only) next.state = State::free;
      cause = reset_during(programs, next);
      if (!cause) continue;
      const StatisticHeader now = programs.statistic_now();
      EXPECT_EQ(now.control, next.control) << "it would have the values of the other one";
      EXPECT_EQ(now.resets, 0u);
    }
    EXPECT_EQ(cause, RecordedError::Cause::no_statistic);
  }
}

}  // namespace
}  // namespace pinprick::ledger
