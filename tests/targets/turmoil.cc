// turmoil THREADS: in each round of each thread, exceptions pass through several functions, a
// thread is cancelled within some, and a child is forked that throws, too. Answers each line on
// stdin with "ok" once every thread has done two more rounds, or prints what went wrong.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "noinline.h"

namespace {
std::atomic<const char*> wrong = nullptr;
std::atomic<bool> is_over = false;  // never

void expect(const char* what, bool holds) {
  if (!holds) wrong = what;
}

struct Guard {
  explicit Guard(long& count) : count_(count) {}
  Guard(const Guard&) = delete;
  ~Guard() { ++count_; }
  long& count_;
};
}  // namespace

extern "C" {

NOINLINE long throws(long x) {
  if (x % 4 == 0) throw std::out_of_range(std::to_string(x));
  if (x % 4 == 1) throw x;
  return x;
}

NOINLINE long passes(long x, long depth, long& left) {
  const Guard guard(left);
  return depth == 0 ? throws(x) : passes(x, depth - 1, left) + 1;
}

// One of three results, which shows where the exception came from; all guards are destroyed by
// then.
NOINLINE long catches(long x, long depth) {
  long left = 0, result = 0;
  try {
    result = passes(x, depth, left);
  } catch (const std::out_of_range& e) {
    result = -std::stol(e.what());
  } catch (long value) {
    result = value + 1000000;
  }
  expect("guards", left == depth + 1);
  return result;
}

NOINLINE bool throws_right(long x) {
  const long depth = x % 7;
  const long expected = x % 4 == 0 ? -x : x % 4 == 1 ? x + 1000000 : x + depth;
  return catches(x, depth) == expected;
}

NOINLINE void waits(long depth, long& left) {
  const Guard guard(left);
  if (depth > 0) return waits(depth - 1, left);
  while (!is_over) pause();
}

NOINLINE void* cancelled(void* left) {
  waits(5, *static_cast<long*>(left));
  return nullptr;
}

NOINLINE void cancels() {
  pthread_t thread;
  long left = 0;
  void* result = nullptr;
  if (pthread_create(&thread, nullptr, cancelled, &left) != 0) return expect("thread", false);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  expect("cancelled", result == PTHREAD_CANCELED && left == 6);
}

NOINLINE void forks(long x) {
  const pid_t child = fork();
  if (child == 0) {
    bool right = true;
    for (long i = 0; i < 20; ++i) right = throws_right(x + i) && right;
    _exit(right ? 0 : 1);
  }
  int status = 1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  expect("child", child > 0 && status == 0);
}

}  // extern "C"

int main(int argc, char** argv) {
  std::vector<std::atomic<long>> rounds(argc > 1 ? static_cast<size_t>(std::atoi(argv[1])) : 1);
  for (auto& round : rounds)
    std::thread([&round] {
      for (;; ++round) {
        for (long i = 0; i < 50; ++i) expect("exception", throws_right(round + i));
        cancels();
        if (round % 4 == 0) forks(round);
      }
    }).detach();
  while (std::getchar() == '\n') {
    for (auto& round : rounds)
      for (const long until = round + 2; round < until;) std::this_thread::yield();
    const char* what = wrong;
    std::puts(what != nullptr ? what : "ok");
    std::fflush(stdout);
  }
  _exit(0);
}
