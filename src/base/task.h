// What takes long, for others to watch and to end.
//
// Code that takes long says how far it is, and asks now and then whether it is still wanted; it
// knows nothing of who watches. A task belongs to a thread, and to those that for_each_piece()
// starts for it. Where there is none, nobody watches, and nothing ends early.
#pragma once

#include <atomic>
#include <cstddef>

namespace pinprick {

// Thrown where a task that was cancelled asks.
struct Cancelled {};

class Task {
 public:
  // From any thread.
  void cancel() { cancelled_ = true; }
  bool is_cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  struct Progress {
    const char* step = nullptr;  // a literal; null: none has begun
    size_t done = 0;
    size_t total = 0;
    const char* unit = nullptr;
  };
  Progress progress() const { return {step_, done_, total_, unit_}; }

  static Task* current();

  // As long as it lives, the task is this thread's. Null: what runs now must not end early, as what
  // undoes a change.
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

// Of this thread's task, if there is one. All three throw Cancelled.
void check_cancelled();
void begin_step(const char* step, size_t total, const char* unit);
void advance(size_t done);

}  // namespace pinprick
