// Task: work that takes long, which another thread can watch and cancel.
//
// Code that takes long reports its progress, and checks now and then whether it was cancelled; it
// does not know who watches. A task belongs to a thread, and to the threads that for_each_piece()
// starts for it. Without a task, nothing is watched or cancelled.
#pragma once

#include <atomic>
#include <cstddef>

namespace pinprick {

// Thrown by the functions below if the task was cancelled.
struct Cancelled {};

class Task {
 public:
  // May be called from any thread.
  void cancel() { cancelled_ = true; }
  bool is_cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  struct Progress {
    const char* step = nullptr;  // a literal; null before the first step
    size_t done = 0;
    size_t total = 0;
    const char* unit = nullptr;
  };
  Progress progress() const { return {step_, done_, total_, unit_}; }

  static Task* current();

  // Makes the task this thread's, as long as the scope lives. With null, what runs now cannot be
  // cancelled: for code that undoes a change.
  class Scope {
   public:
    explicit Scope(Task* task);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    Task* before_;
  };

 private:
  friend void begin_step(const char* step, size_t total, const char* unit);
  friend void advance(size_t done);
  std::atomic<bool> cancelled_ = false;
  std::atomic<const char*> step_ = nullptr;
  std::atomic<const char*> unit_ = nullptr;
  std::atomic<size_t> done_ = 0;
  std::atomic<size_t> total_ = 0;
};

// For this thread's task, if there is one. All three may throw Cancelled.
void check_cancelled();
void begin_step(const char* step, size_t total, const char* unit);
void advance(size_t done);

}  // namespace pinprick
