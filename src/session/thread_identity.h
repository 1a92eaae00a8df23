// One number for a thread and its process, by which the events of threads are kept apart. Pure.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>

#include "session/events.h"

namespace pinprick::session {

inline constexpr int kBitsOfThread = 32;

// Threads of a process that have no numbers share one.
inline uint64_t identity_of_thread(pid_t pid, pid_t tid) {
  return static_cast<uint64_t>(pid) << kBitsOfThread | static_cast<uint32_t>(tid);
}
inline uint64_t identity_of_thread(const Event& event) {
  return identity_of_thread(event.process.pid, event.tid);
}

// Returns the numbers of the process and of the thread.
inline std::pair<pid_t, pid_t> numbers_of_thread(uint64_t identity) {
  return {static_cast<pid_t>(identity >> kBitsOfThread), static_cast<pid_t>(identity)};
}

}  // namespace pinprick::session
