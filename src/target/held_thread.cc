#include "target/held_thread.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

#include <set>
#include <utility>

namespace pinprick::target {
namespace {

thread_local std::set<std::pair<pid_t, pid_t>> held;

}  // namespace

HeldThread::HeldThread(pid_t pid, pid_t tid) : pid_(pid), tid_(tid) {
  held.emplace(pid, tid);
}

HeldThread::~HeldThread() {
  if (tid_ == 0 || held.erase({pid_, tid_}) == 0) return;
  if (ptrace(PTRACE_DETACH, tid_, nullptr, nullptr) == 0) return;
  // It was killed. Its end stays to be waited for, by us as its tracer.
  int status = 0;
  ::waitpid(tid_, &status, __WALL | WNOHANG);
}

bool HeldThread::is_held(pid_t pid, pid_t tid) {
  return held.contains({pid, tid});
}

bool HeldThread::holds_any_of(pid_t pid) {
  const auto next = held.lower_bound({pid, 0});
  return next != held.end() && next->first == pid;
}

void HeldThread::forget(pid_t pid, pid_t tid) {
  held.erase({pid, tid});
}

}  // namespace pinprick::target
