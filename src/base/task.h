// A task: a long-running operation whose progress another thread can read, and which it can cancel.
//
// The code that does the work reports its progress, and checks now and then whether it was
// cancelled. It need not know which thread reads the progress, if any. A task belongs to the thread
// that has set it as its own, and to the threads that for_each_piece() starts on its behalf. On a
// thread without a task, these calls do nothing.
#pragma once

#include <atomic>
#include <cstddef>

namespace pinprick {

// Thrown by the functions below if the task was cancelled.
struct Cancelled {};

class Task {
 public:
  // Both may be called from any thread. cancel() takes effect at the task's next check.
  void cancel() { cancelled_ = true; }
  bool is_cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  struct Progress {
    const char* step = nullptr;  // a literal; null before the first step
    size_t done = 0;
    size_t total = 0;
    const char* unit = nullptr;
  };
  // Returns the latest progress. May be called from any thread; the fields are read one by one, so
  // they may belong to two successive steps.
  Progress progress() const { return {step_, done_, total_, unit_}; }

  // Returns this thread's task; null if it has none.
  static Task* current();

  // Makes `task` this thread's own for the lifetime of the scope. With null, nothing in the scope
  // can be cancelled, as code that undoes a change requires.
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

// These concern this thread's task, and do nothing if it has none. All three throw Cancelled if the
// task was cancelled.
void check_cancelled();
// Starts a step of `total` units. Both strings must be literals.
void begin_step(const char* step, size_t total, const char* unit);
// Reports that `done` more units of the step are done.
void advance(size_t done);

}  // namespace pinprick
