// Leaves functions in all ways that unwind, and prints the results. `thrower [ROUNDS]`; with more
// arguments it reads a line before each round, so that probes can be placed meanwhile.
//
// Ending threads, and backtrace(), use libgcc's unwinder. With OWN_UNWINDER the program does
// neither, and so only uses the unwinder to which it is linked.
#include <pthread.h>
#include <unistd.h>
#ifdef OWN_UNWINDER
#include <unwind.h>
#else
#include <execinfo.h>
#endif

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "noinline.h"

namespace {
thread_local long destroyed = 0;

struct Guard {
  ~Guard() { ++destroyed; }
};
}  // namespace

extern "C" {

NOINLINE long leaf(long x) {
  if (x % 3 == 0) throw std::runtime_error("leaf " + std::to_string(x));
  if (x % 3 == 1) throw x;
  return x;
}

NOINLINE long middle(long x) {
  const Guard guard;
  return leaf(x) + 1;
}

// Catches some, and throws again.
NOINLINE long rethrows(long x) {
  const Guard guard;
  try {
    return middle(x) + 1;
  } catch (const std::runtime_error&) {
    if (x % 2 == 0) throw;
    throw std::logic_error("another " + std::to_string(x));
  }
}

// Ends with a tail call, so that its own frame is gone when the callee throws.
NOINLINE long ends(long x) {
  return rethrows(x);
}

NOINLINE long catches(long x) {
  const Guard guard;
  try {
    return ends(x);
  } catch (const std::exception& e) {
    return static_cast<long>(std::string(e.what()).size());
  } catch (long value) {
    return value + 1000;
  }
}

// Throws and catches while another exception unwinds.
struct Busy {
  explicit Busy(long value) : x(value) {}
  NOINLINE ~Busy() { destroyed += catches(x) % 7; }
  long x;
};

NOINLINE long nested(long x) {
  const Busy busy(x);
  return middle(3 * x);
}

NOINLINE long deep(long depth) {
  const Guard guard;
  if (depth == 0) throw 7;
  return deep(depth - 1) + 1;
}

int main(int argc, char** argv);

#ifdef OWN_UNWINDER
static std::jmp_buf home;

static bool is_in_main(_Unwind_Context* context) {
  return _Unwind_GetRegionStart(context) == reinterpret_cast<uintptr_t>(&main);
}

static _Unwind_Reason_Code stops_in_main(int, _Unwind_Action, _Unwind_Exception_Class,
                                         _Unwind_Exception*, _Unwind_Context* context, void*) {
  if (is_in_main(context)) std::longjmp(home, 1);
  return _URC_NO_REASON;
}

static void leaves_now() {
  static _Unwind_Exception exception;
  exception = {};
  _Unwind_ForcedUnwind(&exception, stops_in_main, nullptr);
  std::abort();
}

static int backtrace(void**, int) {
  struct Trace {
    int frames = 0;
    bool is_whole = false;
  } trace;
  const auto count = [](_Unwind_Context* context, void* to) {
    Trace& so_far = *static_cast<Trace*>(to);
    ++so_far.frames;
    so_far.is_whole = so_far.is_whole || is_in_main(context);
    return _URC_NO_REASON;
  };
  _Unwind_Backtrace(count, &trace);
  return trace.is_whole ? trace.frames : 0;
}
#else
static void leaves_now() {
  pthread_exit(&destroyed);
}
#endif

NOINLINE void leaves_thread(long x) {
  const Guard guard;
  if (x > 0) return leaves_thread(x - 1);
  leaves_now();
}

NOINLINE void waits() {
  const Guard guard;
  for (;;) pause();
}

NOINLINE int traces(long depth) {
  if (depth > 0) {
    const int frames = traces(depth - 1);
    asm volatile("");
    return frames;
  }
  void* frames[64];
  return backtrace(frames, 64);
}
}

static volatile pid_t waiting;
static pthread_key_t key;
static long seen_at_exit;

// In the kernel: a thread that is cancelled in a stub, on the way there, ends without running its
// clean-up handlers (docs/latency.md).
static bool sleeps(pid_t thread) {
  char path[64], state = 0;
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  std::FILE* const file = std::fopen(path, "r");
  if (file == nullptr) return false;
  const int fields = std::fscanf(file, "%*d (%*[^)]) %c", &state);
  std::fclose(file);
  return fields == 1 && state == 'S';
}

static void note_exit(void*) {
  seen_at_exit += destroyed;
}

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? std::atol(argv[1]) : 1000;
  long sum = 0;
  pthread_key_create(&key, note_exit);
  for (long i = 0; i < rounds; ++i) {
    if (argc > 2 && std::getchar() == EOF) break;
    for (long j = 0; j < 6; ++j) sum = sum * 31 + catches(i + j);
    try {
      sum += nested(i);
    } catch (...) {
      sum += 5;
    }
    try {
      sum += deep(i % 50);
    } catch (int value) {
      sum += value;
    }
    if (argc > 2) {
      std::printf("%ld %ld\n", sum, destroyed);
      std::fflush(stdout);
    }
  }
  for (long i = 0; i < 20; ++i) {
#ifdef OWN_UNWINDER
    if (setjmp(home) == 0) leaves_thread(i);
    continue;
#endif
    pthread_t thread;
    pthread_create(
        &thread, nullptr,
        [](void* depth) -> void* {
          pthread_setspecific(key, &key);
          leaves_thread(reinterpret_cast<long>(depth));
          return nullptr;
        },
        reinterpret_cast<void*>(i));
    pthread_join(thread, nullptr);
    waiting = 0;
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          pthread_setspecific(key, &key);
          waiting = gettid();
          waits();
          return nullptr;
        },
        nullptr);
    while (waiting == 0 || !sleeps(waiting)) sched_yield();
    pthread_cancel(thread);
    pthread_join(thread, nullptr);
  }
  std::printf("sum %ld, destroyed %ld, in threads %ld, trace %s\n", sum, destroyed, seen_at_exit,
              traces(20) >= 22 ? "whole" : "cut");
}
