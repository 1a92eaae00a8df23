#include "base/task.h"

#include <utility>

namespace pinprick {
namespace {

thread_local Task* current_task = nullptr;

}  // namespace

Task* Task::current() {
  return current_task;
}

Task::Scope::Scope(Task* task) : before_(std::exchange(current_task, task)) {}

Task::Scope::~Scope() {
  current_task = before_;
}

void check_cancelled() {
  if (current_task != nullptr && current_task->is_cancelled()) throw Cancelled{};
}

void begin_step(const char* step, size_t total, const char* unit) {
  check_cancelled();
  if (current_task == nullptr) return;
  current_task->done_ = 0;
  current_task->total_ = total;
  current_task->unit_ = unit;
  current_task->step_ = step;
}

void advance(size_t done) {
  check_cancelled();
  if (current_task != nullptr) current_task->done_ += done;
}

}  // namespace pinprick
