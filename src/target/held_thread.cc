#include "target/held_thread.h"

#include <utility>

#include "target/stop.h"

namespace pinprick::target {

thread_local std::set<std::pair<pid_t, pid_t>> HeldThread::held_;

HeldThread::HeldThread(pid_t pid, pid_t tid) : pid_(pid), tid_(tid) {
  held_.emplace(pid, tid);
}

HeldThread::~HeldThread() {
  if (tid_ == 0 || held_.erase({pid_, tid_}) == 0) return;
  Stop::let_go_of(pid_, tid_);
}

bool HeldThread::is_held(pid_t pid, pid_t tid) {
  return held_.contains({pid, tid});
}

bool HeldThread::holds_any_of(pid_t pid) {
  const auto next = held_.lower_bound({pid, 0});
  return next != held_.end() && next->first == pid;
}

void HeldThread::forget(pid_t pid, pid_t tid) {
  held_.erase({pid, tid});
}

}  // namespace pinprick::target
