#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/task.h"

namespace pinprick {
namespace {

thread_local unsigned alone = 0;  // how many OneThreads this thread has

}  // namespace

OneThread::OneThread() {
  ++alone;
}

OneThread::~OneThread() {
  --alone;
}

size_t usable_threads() {
  constexpr size_t kMost = 8;
  // Asked once: the C library reads a file for it.
  static const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMost);
  return threads;
}

void for_each_piece(size_t count, size_t threads, const std::function<void(size_t)>& work) {
  if (alone != 0) threads = 1;
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take_pieces = [&, task = Task::current()] {
    const Task::Scope scope(task);
    try {
      for (size_t piece = next++; piece < count; piece = next++) work(piece);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  helpers.reserve(threads);
  for (size_t i = 1; i < std::min(threads, count); ++i) {
    try {
      helpers.emplace_back(take_pieces);
    } catch (const std::exception&) {
      break;  // no thread, or no memory for one
    }
  }
  take_pieces();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace pinprick
