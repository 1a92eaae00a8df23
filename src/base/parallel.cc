#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace pinprick {

size_t usable_threads() {
  constexpr size_t kMost = 8;
  return std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMost);
}

void for_each_piece(size_t count, size_t threads, const std::function<void(size_t)>& work) {
  std::atomic<size_t> next = 0;
  const auto take_pieces = [&] {
    for (size_t piece = next++; piece < count; piece = next++) work(piece);
  };
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min(threads, count); ++i) {
    try {
      helpers.emplace_back(take_pieces);
    } catch (const std::system_error&) {
      break;
    }
  }
  take_pieces();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace pinprick
