// The file of the statistics that a program records about itself (include/pinprick/kstats.h).
// Versioned; it holds offsets, never pointers. docs/data.md describes it for other readers.
//
//     RecordedHeader (a page) | statistic | statistic | ...
//
//     statistic:  StatisticHeader | values | (at a page) baseline 1 | (at a page) baseline 2
//     values:     StatisticCounts | area of threads that lock | CPU 0 | CPU 1 | ...
//     area:       one stats::Cell for each slot
//
// A baseline is a copy of the values. A reader shows the values less the baseline that the
// control word names. So a reset, which writes the other baseline and then the control word,
// happens for all readers at once, while the cells only grow.
//
// The program, and any other process with the user's rights, may write anything here at any time.
// Readers copy, check and then use. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/address.h"
#include "layout/runtime_data.h"
#include "stats/histogram.h"

namespace pinprick::layout {

inline constexpr uint64_t kRecordedMagic = 0x5441'5453'4b4e'4950;  // "PINKSTAT"
inline constexpr uint32_t kRecordedVersion = 1;
inline constexpr std::string_view kRecordedSuffix = ".kstats";

// Limits for writers, and for readers of files that claim anything: of statistics in use, and of
// their values. A writer makes a new one only if none with as many fraction bits is free, so there
// are at most as many of each kind.
inline constexpr uint32_t kMostRecorded = 4096;
inline constexpr uint64_t kMostRecordedBytes = uint64_t{1} << 34;
inline constexpr uint32_t kMostBlocks = kMostRecorded * (stats::kMaxFractionBits + 1);

inline constexpr size_t kStatisticNameSize = 64;  // with the zero byte at its end

struct RecordedHeader {
  uint64_t magic = kRecordedMagic;
  uint32_t version = kRecordedVersion;
  uint32_t header_size = sizeof(RecordedHeader);
  int32_t pid = 0;
  uint32_t cpu_count = 0;   // areas, without the one of threads that lock
  uint64_t start_time = 0;  // clock ticks after boot
  char boot_id[32] = {};
  uint64_t created_ns = 0;   // CLOCK_REALTIME
  uint64_t end = kPageSize;  // of the last statistic; written after the statistic itself
};
static_assert(sizeof(RecordedHeader) == 80);

struct StatisticHeader {
  uint64_t size = 0;  // distance to the next statistic
  enum class State : uint32_t { free = 0, used = 1 } state = State::free;
  uint32_t fraction_bits = 0;
  uint64_t control = 0;
  uint64_t created_ns = 0;
  char name[kStatisticNameSize] = {};
  // Raised by one before the control word of each reset is written. In a file of an older version
  // it is 0 for good.
  uint64_t resets = 0;
  uint64_t unused[3] = {};
};
static_assert(sizeof(StatisticHeader) == 128);

// At the start of the values: what is in no cell.
struct StatisticCounts {
  uint64_t unmatched_starts = 0;
  uint64_t unmatched_ends = 0;
  uint64_t missed = 0;
  uint64_t unused[13] = {};
};
static_assert(sizeof(StatisticCounts) == 128);

// The control word: whether the statistic records, which baseline holds, and a generation, which
// invalidates the starts of threads. All that recording depends on is in the first byte, so a
// reader never sees half of a change.
inline constexpr uint64_t kRunning = 1;
constexpr bool is_running(uint64_t control) {
  return (control & kRunning) != 0;
}
// Returns 0 (there is none), 1 or 2; 3 is not valid.
constexpr unsigned baseline_of(uint64_t control) {
  return (control >> 1) & 3;
}
constexpr uint64_t generation_of(uint64_t control) {
  return control >> 8;
}
constexpr uint64_t make_control(bool running, unsigned baseline, uint64_t generation) {
  return (running ? kRunning : 0) | uint64_t{baseline} << 1 | generation << 8;
}
// Returns the control word after a stop or a resumption. A resumption drops the starts from before.
constexpr uint64_t with_running(uint64_t control, bool running) {
  const bool drops = running && !is_running(control);
  return make_control(running, baseline_of(control), generation_of(control) + (drops ? 1 : 0));
}
// Returns the baseline that a reset has to write, and the control word after it.
constexpr unsigned next_baseline(uint64_t control) {
  return baseline_of(control) == 1 ? 2 : 1;
}
constexpr uint64_t after_reset(uint64_t control) {
  return make_control(is_running(control), next_baseline(control), generation_of(control) + 1);
}

// A multiple of 128, so that two CPUs share no pair of cache lines.
constexpr uint64_t recorded_area_size(uint32_t bits) {
  return align_up(stats::slot_count(bits) * sizeof(stats::Cell), 128);
}
constexpr uint64_t values_size(uint32_t bits, uint32_t cpus) {
  return sizeof(StatisticCounts) + (uint64_t{cpus} + 1) * recorded_area_size(bits);
}
// The bytes of a statistic that recording touches, from its start.
constexpr uint64_t live_size(uint32_t bits, uint32_t cpus) {
  return align_up(sizeof(StatisticHeader) + values_size(bits, cpus), kPageSize);
}
// Offset of baseline 1 or 2 in a statistic.
constexpr uint64_t baseline_offset(uint32_t bits, uint32_t cpus, unsigned baseline) {
  return live_size(bits, cpus) + (baseline - 1) * align_up(values_size(bits, cpus), kPageSize);
}
constexpr uint64_t statistic_size(uint32_t bits, uint32_t cpus) {
  return baseline_offset(bits, cpus, 3);
}

// May a statistic have this name? It has 1 to 63 bytes, no '/', no blank and no control character,
// is not ".", ".." or "_control", and does not start with "GAP-".
bool is_statistic_name(std::string_view name);

// Can the header be that of a file of this size?
bool is_valid(const RecordedHeader& header, uint64_t file_size);
// Can the statistic be one at `offset` of a file with this header? Its name is checked if it is in
// use.
bool is_valid(const StatisticHeader& statistic, const RecordedHeader& header, uint64_t offset);
std::string_view name_of(const StatisticHeader& statistic);

}  // namespace pinprick::layout
