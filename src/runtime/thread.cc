#include "runtime/thread.h"

#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "layout/recorded_file.h"
#include "runtime/activations.h"
#include "runtime/record.h"
#include "runtime/spans.h"

namespace pinprick::runtime {

constinit thread_local Thread* current_thread __attribute__((tls_model("initial-exec"))) = nullptr;
std::atomic<uint64_t> period{1};
std::atomic<uint32_t> threads_begun;

namespace {

std::atomic<Thread*> all_threads;
std::atomic<int32_t> owner;  // the process to which the TIDs belong

constexpr long kMarksSize = layout::kMostRecorded * sizeof(Mark);  // page by page, when touched

// Not through libc, whose functions may have a probe, or use vector registers.
long system_call(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0,
                 long f = 0) {
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

int32_t own_tid() {
  return static_cast<int32_t>(system_call(SYS_gettid));
}

int32_t own_pid() {
  return static_cast<int32_t>(system_call(SYS_getpid));
}

// Returns false if unknown: a seccomp filter may refuse the call.
bool has_ended(int32_t tid) {
  constexpr long kNoSuchThread = -3;  // ESRCH
  return system_call(SYS_tgkill, own_pid(), tid, 0) == kNoSuchThread;
}

// Which thread a new record is of. A child of vfork runs on its parent's thread, and registers that
// one: its parent goes on with the record when the child has ended. So the child's TID says
// nothing, and the record stays taken. No thread has that TID, and the kernel refuses it (EINVAL).
int32_t tid_of_record() {
  constexpr int32_t kUnknown = -2;
  return owner.load(std::memory_order_relaxed) == own_pid() ? own_tid() : kUnknown;
}

// Returns zeroed memory; nullptr if there is none.
void* map(long size) {
  const long memory =
      system_call(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory < 0 ? nullptr : reinterpret_cast<void*>(memory);
}

// Allocates a block of records, which stays. There are never many more records than there were
// threads at once.
Thread* add_threads() {
  constexpr long kBlock = 16384;
  auto* threads = static_cast<Thread*>(map(kBlock));
  if (threads == nullptr) __builtin_trap();
  constexpr long kCount = kBlock / static_cast<long>(sizeof(Thread));
  threads[0].tid.store(tid_of_record(), std::memory_order_relaxed);
  for (long i = 0; i + 1 < kCount; ++i) threads[i].next = &threads[i + 1];
  Thread* head = all_threads.load(std::memory_order_relaxed);
  do {
    threads[kCount - 1].next = head;
  } while (!all_threads.compare_exchange_weak(head, threads, std::memory_order_release));
  return threads;
}

void barrier() {
  system_call(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

// Is the record free? If its thread has ended, frees the record and its slots: whatever that thread
// was doing, it does not go on.
bool is_free(Thread& thread) {
  constexpr int32_t kBeingFreed = -1;
  int32_t tid = thread.tid.load(std::memory_order_acquire);
  if (tid == 0 || tid == kBeingFreed) return true;
  // After a fork without forget_other_threads(), TIDs mean nothing.
  if (owner.load(std::memory_order_relaxed) != own_pid() || !has_ended(tid)) return false;
  if (!thread.tid.compare_exchange_strong(tid, kBeingFreed)) return true;
  // One that was ended in the middle (asynchronous cancellation) may have been about to keep or to
  // take a slot: then what it kept may be another's.
  if (thread.running != 0) thread.slots_kept = 0;
  share_kept_slots(thread);
  thread.running = 0;
  thread.in_point = 0;
  thread.in_library = 0;
  thread.tid.store(0, std::memory_order_release);
  return true;
}

Thread* take_free_thread() {
  const auto find = [tid = tid_of_record()]() -> Thread* {
    for (Thread* thread = all_threads.load(std::memory_order_acquire); thread != nullptr;
         thread = thread->next) {
      int32_t free = 0;
      if (thread->tid.compare_exchange_strong(free, tid)) return thread;
    }
    return nullptr;
  };
  if (Thread* const free = find()) return free;
  // A system call for each record, but only once for each block of records.
  take_back_from_ended_threads();
  if (Thread* const free = find()) return free;
  return add_threads();
}

}  // namespace

void note_process() {
  int32_t unknown = 0;
  owner.compare_exchange_strong(unknown, own_pid());
}

Thread& register_thread() {
  note_process();
  Thread* self = take_free_thread();
  // Clears what the record's former thread has begun. Without memset, which may have a probe.
  if (self->spans != nullptr)
    for (uint32_t i = 0; i < kMostSpans; ++i)
      __atomic_store_n(&self->spans[i].generation, 0, __ATOMIC_RELAXED);
  if (self->marks != nullptr)
    system_call(SYS_madvise, reinterpret_cast<long>(self->marks), kMarksSize, MADV_DONTNEED);
  // A signal handler's hit may have registered this thread meanwhile.
  if (current_thread != nullptr) {
    self->tid.store(0, std::memory_order_release);
    return *current_thread;
  }
  threads_begun.fetch_add(1, std::memory_order_relaxed);
  current_thread = self;
  return *self;
}

void take_back_from_ended_threads() {
  for (Thread* thread = all_threads.load(std::memory_order_acquire); thread != nullptr;
       thread = thread->next)
    is_free(*thread);
}

SpanStart* span_starts(Thread& self) {
  if (self.spans == nullptr)
    self.spans = static_cast<SpanStart*>(map(kMostSpans * sizeof(SpanStart)));
  return self.spans;
}

Mark* record_marks(Thread& self) {
  if (self.marks == nullptr) self.marks = static_cast<Mark*>(map(kMarksSize));
  return self.marks;
}

uint64_t start_grace_period() {
  const uint64_t now = period.fetch_add(1, std::memory_order_acq_rel) + 1;
  barrier();
  return now;
}

namespace {

// Has the thread started what `word` is about before the grace period, and not ended it?
bool uses_former(const Thread& thread, uint64_t Thread::*word, uint64_t grace_period) {
  const uint64_t began = __atomic_load_n(&(thread.*word), __ATOMIC_ACQUIRE);
  return began != 0 && began < grace_period;
}

void wait_for(uint64_t Thread::*word, uint64_t grace_period) {
  for (Thread* thread = all_threads.load(std::memory_order_acquire); thread != nullptr;
       thread = thread->next) {
    if (thread == current_thread || is_free(*thread)) continue;
    for (long ns = 1000; uses_former(*thread, word, grace_period);
         ns = ns < 1'000'000 ? ns * 2 : ns) {
      if (is_free(*thread)) break;
      const long pause[2] = {0, ns};
      system_call(SYS_nanosleep, reinterpret_cast<long>(pause));
    }
  }
}

}  // namespace

void wait_for_handlers() {
  wait_for(&Thread::running, start_grace_period());
}

bool points_have_ended(uint64_t grace_period) {
  for (Thread* thread = all_threads.load(std::memory_order_acquire); thread != nullptr;
       thread = thread->next)
    if (thread != current_thread && uses_former(*thread, &Thread::in_point, grace_period) &&
        !is_free(*thread))
      return false;
  return true;
}

void wait_for_points(uint64_t grace_period) {
  wait_for(&Thread::in_point, grace_period);
}

void forget_other_threads() {
  owner.store(own_pid(), std::memory_order_relaxed);
  for (Thread* thread = all_threads.load(std::memory_order_acquire); thread != nullptr;
       thread = thread->next) {
    if (thread == current_thread) {
      thread->tid.store(own_tid(), std::memory_order_relaxed);
      continue;
    }
    // It may have been within take_slot() or give_slot().
    if (thread->running != 0) thread->slots_kept = 0;
    thread->running = 0;
    thread->in_point = 0;
    thread->in_library = 0;
    thread->tid.store(0, std::memory_order_relaxed);
  }
}

}  // namespace pinprick::runtime
