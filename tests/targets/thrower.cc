// Leaves functions in all the ways that unwind, and prints what came of it. `thrower [ROUNDS]`;
// with more arguments it reads lines first, one for each round, so that probes can be put in
// meanwhile.
#include <execinfo.h>
#include <pthread.h>
#include <unistd.h>

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

// Calls at its end: its own frame is gone when the callee throws.
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

NOINLINE void leaves_thread(long x) {
  const Guard guard;
  if (x > 0) return leaves_thread(x - 1);
  pthread_exit(&destroyed);
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

// In the kernel: a thread that is cancelled in a stub, on its way there, ends without its cleanup
// (docs/latency.md).
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
