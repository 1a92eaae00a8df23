// Recording for statistics of the program's own (include/pinprick/kstats.h).
//
// A record is added on the thread's CPU by a restartable sequence (record.S), or by locked
// instructions if the CPU is unknown. Any thread and any signal handler may record at any time, as
// long as the Recorder exists. A record neither waits, allocates, nor enters the kernel, but for
// the first one in a forked child (`before_first_record`), and a thread's first start.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/address.h"
#include "layout/recorded_file.h"
#include "layout/runtime_offsets.h"
#include "pinprick/kstats.h"

namespace pinprick::runtime {

// Where a statistic's records go. The memory may be shared with other processes, so all that
// addresses are computed from is here, in memory of our own.
struct Recorder {
  const uint64_t* control = nullptr;  // in shared memory; its first byte has kRunning
  Address areas = 0;                  // of CPU 0; the one of threads that lock is before it
  uint64_t area_size = 0;
  int64_t rseq_offset = 0;
  uint32_t cpus = 0;  // 0: all threads lock, or the records have to pass before_first_record
  uint32_t bits = 0;
  uint32_t unit = 0;           // 1 << bits
  uint32_t index = 0;          // among the starts of a thread, below kMostRecorded
  uint32_t incarnation = 0;    // not 0; tells it from earlier ones with the same index
  uint64_t ns_multiplier = 0;  // nanoseconds per TSC tick, times 2^32
  layout::StatisticCounts* counts = nullptr;
};
static_assert(offsetof(Recorder, control) == PP_RECORDER_CONTROL);
static_assert(offsetof(Recorder, areas) == PP_RECORDER_AREAS);
static_assert(offsetof(Recorder, area_size) == PP_RECORDER_AREA_SIZE);
static_assert(offsetof(Recorder, rseq_offset) == PP_RECORDER_RSEQ);
static_assert(offsetof(Recorder, cpus) == PP_RECORDER_CPUS);
static_assert(offsetof(Recorder, bits) == PP_RECORDER_BITS);
static_assert(offsetof(Recorder, unit) == PP_RECORDER_UNIT);

// A point in time. The tag is that of the recorder's control word, so that a reset drops it.
struct Mark {
  uint64_t ticks = 0;
  uint64_t tag = 0;  // 0: none
};

Mark mark_now(const Recorder& recorder) noexcept;
// Records the nanoseconds since the mark, unless the statistic was reset or resumed since.
void record_since(Recorder& recorder, Mark mark) noexcept;

// The mark of this thread for the statistic. The first start counts; starts and ends without a
// partner are counted.
void start(Recorder& recorder) noexcept;
void end(Recorder& recorder) noexcept;

// Called before a record that takes the locked path; nullptr in most processes. In a forked child,
// it makes memory of the child's own.
extern std::atomic<void (*)()> before_first_record;

}  // namespace pinprick::runtime

extern "C" {
// What pinprick_kstats_add() does (record.S), by locked instructions.
void pp_record_locked(pinprick::runtime::Recorder* recorder, uint64_t value) noexcept;
}
