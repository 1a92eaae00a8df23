#include "runtime/record.h"

#include "base/clock.h"
#include "runtime/thread.h"
#include "stats/histogram.h"

namespace pinprick::runtime {

std::atomic<void (*)()> before_first_record = nullptr;

namespace {

uint64_t control_of(const Recorder& recorder) {
  return __atomic_load_n(recorder.control, __ATOMIC_RELAXED);
}

uint64_t tag_of(const Recorder& recorder, uint64_t control) {
  return uint64_t{recorder.incarnation} << 32 |
         static_cast<uint32_t>(layout::generation_of(control));
}

void prepare_first_record() {
  if (auto* const prepare = before_first_record.load(std::memory_order_acquire);
      __builtin_expect(prepare != nullptr, 0))
    prepare();
}

void count(uint64_t& counter) {
  prepare_first_record();
  __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
}

void record_until(Recorder& recorder, uint64_t began, uint64_t now) {
  __extension__ using Wide = unsigned __int128;
  // The clocks of two CPUs may differ by a tick.
  const uint64_t ticks = now > began ? now - began : 0;
  const auto ns = static_cast<uint64_t>((Wide{ticks} * recorder.ns_multiplier) >> 32);
  pinprick_kstats_add(reinterpret_cast<pinprick_kstats*>(&recorder), ns);
}

}  // namespace

Mark mark_now(const Recorder& recorder) noexcept {
  const uint64_t control = control_of(recorder);
  // The time is not needed: the mark is dropped by the resumption.
  return {layout::is_running(control) ? read_tsc() : 0, tag_of(recorder, control)};
}

void record_since(Recorder& recorder, Mark mark) noexcept {
  const uint64_t now = read_tsc();
  const uint64_t control = control_of(recorder);
  if (layout::is_running(control) && mark.tag == tag_of(recorder, control))
    record_until(recorder, mark.ticks, now);
}

void start(Recorder& recorder) noexcept {
  Mark* const marks = record_marks(this_thread());
  if (marks == nullptr) return count(recorder.counts->missed);
  Mark& mark = marks[recorder.index];
  const Mark now = mark_now(recorder);
  if (mark.tag == now.tag) {
    if (layout::is_running(control_of(recorder))) count(recorder.counts->unmatched_starts);
    return;
  }
  mark.ticks = now.ticks;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);  // a signal handler may come in between
  mark.tag = now.tag;
}

void end(Recorder& recorder) noexcept {
  const uint64_t now = read_tsc();
  Mark* const marks = record_marks(this_thread());
  if (marks == nullptr) return;  // the start was counted as missed
  const Mark mark = marks[recorder.index];
  marks[recorder.index].tag = 0;
  const uint64_t control = control_of(recorder);
  if (!layout::is_running(control)) return;
  if (mark.tag >> 32 != recorder.incarnation) return count(recorder.counts->unmatched_ends);
  if (mark.tag == tag_of(recorder, control)) record_until(recorder, mark.ticks, now);
}

}  // namespace pinprick::runtime

void pp_record_locked(pinprick::runtime::Recorder* recorder, uint64_t value) noexcept {
  using namespace pinprick;
  runtime::prepare_first_record();
  const uint32_t slot = stats::slot_of(value, recorder->bits);
  auto* const cell = reinterpret_cast<stats::Cell*>(recorder->areas - recorder->area_size) + slot;
  __atomic_fetch_add(&cell->count, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&cell->sum, value >> stats::sum_shift(slot, recorder->bits), __ATOMIC_RELAXED);
}
