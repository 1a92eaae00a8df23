#include "session/wait_rings.h"

#include <cstdint>
#include <map>

namespace pinprick::session {

// Each thread leads to one other at most. So a way ends, comes to an earlier way, or comes back to
// itself, and what lies in between is a ring.
std::vector<std::vector<size_t>> wait_rings(std::span<const WaitsFor> waits) {
  std::map<pid_t, size_t> by_thread;
  for (size_t i = 0; i < waits.size(); ++i) by_thread[waits[i].thread] = i;
  std::vector<size_t> way_of(waits.size(), SIZE_MAX);  // by the index of its first
  std::vector<std::vector<size_t>> rings;
  for (const auto& [thread, first] : by_thread) {
    auto next = by_thread.find(thread);
    while (next != by_thread.end() && way_of[next->second] == SIZE_MAX) {
      way_of[next->second] = first;
      next = by_thread.find(waits[next->second].owner);
    }
    if (next == by_thread.end() || way_of[next->second] != first) continue;
    const size_t begin = next->second;
    std::vector<size_t> ring;
    do {
      ring.push_back(next->second);
      next = by_thread.find(waits[next->second].owner);
    } while (next->second != begin);
    rings.push_back(std::move(ring));
  }
  return rings;
}

}  // namespace pinprick::session
