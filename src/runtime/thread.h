// The record of each thread that hits probes: whether it runs handlers now, and its free return
// slots. And the grace period that is built on it.
//
// After a handler list was unpublished, wait_for_handlers() returns when no thread can still be
// using it:
//
//     thread                                updater
//       running = period                      unpublish the list
//       read the list, run its handlers       period += 1
//       running = 0                           membarrier: every thread either shows that it runs
//                                               handlers, or will read what is published now
//                                             wait until each thread runs none, or has started in
//                                               the new period
//
// The updater has the barrier, so that a hit needs none. On the hot path: compiled without vector
// registers, makes no call out of the library, allocates nothing.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace pinprick::runtime {

struct Mark;
struct SpanStart;

inline constexpr uint32_t kSlotsKept = 8;

struct alignas(64) Thread {
  // The period in which the handlers that run now were started; 0 if none run. Only its thread
  // writes it, and a signal handler that interrupts and hits a probe leaves it as it was. It is
  // stored without being loaded, so that one hit does not wait for the store of another.
  uint64_t running;
  uint32_t in_library;  // depth of calls into the library, whose own hits are missed
  uint32_t slots_kept;
  uint32_t slots[kSlotsKept];  // indices of free return slots
  std::atomic<int32_t> tid;    // 0 if the record is free
  Thread* next;
  SpanStart* spans;  // kMostSpans of them; nullptr if no span has begun here
  Mark* marks;       // layout::kMostRecorded of them; nullptr if no statistic was started here
  // As `running`, for the functions of tracepoints. These are no handlers: they may hit probes, and
  // other points. Stored by the code of points (pinprick/tracepoint.h).
  uint64_t in_point;
};

extern constinit thread_local Thread* current_thread __attribute__((tls_model("initial-exec")));

// Says that threads are this process's. A child of vfork may be the first one to hit a probe: so
// this is called before there is one.
void note_process();

// Called at a thread's first hit. Ends the process if there is no memory left.
Thread& register_thread();

inline Thread& this_thread() {
  Thread* self = current_thread;
  return __builtin_expect(self != nullptr, 1) ? *self : register_thread();
}

inline bool runs_handlers(const Thread& self) {
  return __atomic_load_n(&self.running, __ATOMIC_RELAXED) != 0;
}

extern std::atomic<uint64_t> period;
extern std::atomic<uint32_t> threads_begun;  // how many threads were registered ever; wraps

// Between `enter` and `leave`, nothing that this thread reads while it is published is freed.
inline void enter(Thread& self) {
  __atomic_store_n(&self.running, period.load(std::memory_order_relaxed), __ATOMIC_RELAXED);
  asm volatile("" : : : "memory");
}
inline void leave(Thread& self) {
  __atomic_store_n(&self.running, 0, __ATOMIC_RELEASE);
}

// Frees the records of threads that have ended, and the slots that they kept, by a system call for
// each record. Called when records or slots have run out.
void take_back_from_ended_threads();

// The thread's starts of spans, allocated at the first call. Returns nullptr if there is no memory
// left.
SpanStart* span_starts(Thread& self);
// The same for its starts of recorded statistics (record.h).
Mark* record_marks(Thread& self);

// While it lives, hits of this thread are counted as missed: the library's own work runs no
// handlers. Nor is the thread cancelled, which would leave the work half done: files are opened and
// read meanwhile.
class InLibrary {
 public:
  InLibrary() : self_(this_thread()) {
    ++self_.in_library;
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
  }
  InLibrary(const InLibrary&) = delete;
  InLibrary& operator=(const InLibrary&) = delete;
  ~InLibrary() {
    ::pthread_setcancelstate(before_, nullptr);
    --self_.in_library;
  }

 private:
  Thread& self_;
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// Returns when no handler of a list that was unpublished before can still run. Must not be called
// from a handler.
void wait_for_handlers();

// The same for functions of tracepoints, in two steps. A list that was unpublished before
// start_grace_period() is not used any more when no thread runs functions that it started before
// that. points_have_ended() looks whether this is so, and wait_for_points() waits for it. The
// calling thread's own functions are left out.
uint64_t start_grace_period();
bool points_have_ended(uint64_t grace_period);
void wait_for_points(uint64_t grace_period);

// To be called in the child of a fork, whose only thread has a new TID; all others are gone.
void forget_other_threads();

}  // namespace pinprick::runtime
