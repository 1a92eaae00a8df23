// What the runtime finds of the calling thread: its rseq area, as glibc registers it with the
// kernel, its control block and its CPU.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "arch/stub.h"

namespace pinprick::runtime {

// Where glibc has a thread's TID.
inline int64_t tid_offset() {
  const char* const control_block = static_cast<const char*>(__builtin_thread_pointer());
  for (int64_t at = 0; at < 0x800; at += 4) {
    int32_t word = 0;
    std::memcpy(&word, control_block + at, sizeof word);
    if (word == gettid()) return at;
  }
  ADD_FAILURE() << "this libc keeps no TID";
  return 0;
}

// Returns nullopt if this libc does not register rseq.
inline std::optional<arch::RseqArea> own_rseq() {
  if (__rseq_size == 0) return std::nullopt;
  return arch::RseqArea{static_cast<int32_t>(__rseq_offset)};
}

inline struct rseq* own_area() {
  return reinterpret_cast<struct rseq*>(static_cast<char*>(__builtin_thread_pointer()) +
                                        __rseq_offset);
}

inline void call_rseq(int flags) {
  ASSERT_EQ(::syscall(SYS_rseq, own_area(), std::max(__rseq_size, 32u), flags, RSEQ_SIG), 0);
}

// While it lives, the thread that made it, and those that it starts, have no registered area. Their
// areas say so, and the kernel restarts none of their sequences.
class Unregistered {
 public:
  Unregistered() { call_rseq(RSEQ_FLAG_UNREGISTER); }
  ~Unregistered() { call_rseq(0); }
  Unregistered(const Unregistered&) = delete;
  Unregistered& operator=(const Unregistered&) = delete;
};

// While it lives, the thread that made it, and those that it starts, run on one CPU.
class OnOneCpu {
 public:
  OnOneCpu() {
    EXPECT_EQ(::sched_getaffinity(0, sizeof before_, &before_), 0);
    move_to(::sched_getcpu());
  }
  ~OnOneCpu() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OnOneCpu(const OnOneCpu&) = delete;
  OnOneCpu& operator=(const OnOneCpu&) = delete;

  static void move_to(int cpu) {
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(static_cast<size_t>(cpu), &only);
    ASSERT_EQ(::sched_setaffinity(0, sizeof only, &only), 0);
  }
  // Returns a CPU other than this one; nullopt if there is none.
  std::optional<int> another() const {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(static_cast<size_t>(cpu), &before_) && cpu != ::sched_getcpu()) return cpu;
    return std::nullopt;
  }

 private:
  cpu_set_t before_;
};

}  // namespace pinprick::runtime
