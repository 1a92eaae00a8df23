#include "target/held_thread.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

#include <map>
#include <utility>

namespace pinprick::target {
namespace {

thread_local std::map<std::pair<pid_t, pid_t>, uint64_t> held;  // with the holds' numbers
thread_local uint64_t last_hold = 0;

}  // namespace

HeldThread::HeldThread(pid_t pid, pid_t tid) : pid_(pid), tid_(tid) {
  held[{pid, tid}] = ++last_hold;
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

uint64_t HeldThread::hold_of(pid_t pid) {
  const auto next = held.lower_bound({pid, 0});
  return next != held.end() && next->first.first == pid ? next->second : 0;
}

void HeldThread::forget(pid_t pid, pid_t tid) {
  held.erase({pid, tid});
}

}  // namespace pinprick::target
