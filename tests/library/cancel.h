// Threads that are cancelled at any instruction.
#pragma once

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>

namespace pinprick {

// How many threads have run their clean-up handlers.
inline std::atomic<int> cleaned;

class CleansUp {
 public:
  CleansUp() = default;
  CleansUp(const CleansUp&) = delete;
  CleansUp& operator=(const CleansUp&) = delete;
  ~CleansUp() { ++cleaned; }
};

// Runs f in a thread, and cancels the thread asynchronously some steps after it has reported that
// it runs.
template <class F>
void cancel_in(F f, int steps) {
  struct Run {
    F f;
    std::atomic<long> begun{0};
  } run = {f};
  pthread_t thread;
  ASSERT_EQ(::pthread_create(
                &thread, nullptr,
                [](void* argument) -> void* {
                  const CleansUp clean;
                  auto& self = *static_cast<Run*>(argument);
                  ::pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
                  self.f(self.begun);
                  return nullptr;
                },
                &run),
            0);
  while (run.begun == 0) ::sched_yield();
  for (int i = 0; i < steps; ++i) asm volatile("");
  ::pthread_cancel(thread);
  void* result = nullptr;
  ::pthread_join(thread, &result);
  EXPECT_EQ(result, PTHREAD_CANCELED);
}

}  // namespace pinprick
