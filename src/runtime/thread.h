// What the runtime keeps of each thread that hits probes: whether handlers run on it just now, and
// free return slots. And the grace period that follows from it.
//
// A handler list is unpublished, then wait_for_handlers() returns when nobody can still be using
// it:
//
//     thread                                updater
//       running = period                      unpublish the list
//       read the list, run its handlers       period += 1
//       running = 0                           membarrier: every thread either shows that it runs
//                                               handlers, or will read what is published now
//                                             wait until each thread runs none, or began in the
//                                               new period
//
// The barrier is the updater's, so that a hit has none. Hot: compiled without vector registers,
// makes no call out of the library, allocates nothing.
#pragma once

#include <atomic>
#include <cstdint>

namespace pinprick::runtime {

struct SpanBegin;

inline constexpr uint32_t kSlotsKept = 8;

struct alignas(64) Thread {
  // The period in which the handlers that run now began; 0: none run. Written by its thread only: a
  // signal handler that comes in between, and hits a probe, leaves it as it was. Stores without
  // loads, so that one hit need not wait for the other's.
  uint64_t running;
  uint32_t in_library;  // depth of calls into the library, whose own hits are missed
  uint32_t slots_kept;
  uint32_t slots[kSlotsKept];  // indices of free return slots
  std::atomic<int32_t> tid;    // 0: nobody's
  Thread* next;
  SpanBegin* spans;  // kMostSpans of them; null: no span has begun here
};

extern constinit thread_local Thread* current_thread __attribute__((tls_model("initial-exec")));

// The first hit of a thread comes here. Never null: where there is no memory left, the process
// cannot go on.
Thread& register_thread();

inline Thread& this_thread() {
  Thread* self = current_thread;
  return __builtin_expect(self != nullptr, 1) ? *self : register_thread();
}

inline bool runs_handlers(const Thread& self) {
  return __atomic_load_n(&self.running, __ATOMIC_RELAXED) != 0;
}

extern std::atomic<uint64_t> period;
extern std::atomic<uint32_t> threads_begun;  // whose records there were, ever; wraps

// From `enter` to `leave` nothing is freed that was published when it was read.
inline void enter(Thread& self) {
  __atomic_store_n(&self.running, period.load(std::memory_order_relaxed), __ATOMIC_RELAXED);
  asm volatile("" : : : "memory");
}
inline void leave(Thread& self) {
  __atomic_store_n(&self.running, 0, __ATOMIC_RELEASE);
}

// Records of threads that have ended become free, and the slots that they kept: a system call for
// each record. Done when records or slots have run out, and by whoever waits for handlers.
void take_back_from_ended_threads();

// What the thread keeps of spans, which it makes at first. Null: there is no memory left.
SpanBegin* span_begins(Thread& self);

// What the library itself does hits no probe: its hits are counted as missed.
class InLibrary {
 public:
  InLibrary() : self_(this_thread()) { ++self_.in_library; }
  InLibrary(const InLibrary&) = delete;
  InLibrary& operator=(const InLibrary&) = delete;
  ~InLibrary() { --self_.in_library; }

 private:
  Thread& self_;
};

// Returns when no handler runs that could be one of a list unpublished before. Not from a handler.
void wait_for_handlers();

// In the child of a fork: its only thread has a new number, all others are gone.
void forget_other_threads();

}  // namespace pinprick::runtime
