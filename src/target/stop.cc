#include "target/stop.h"

#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "target/procfs.h"

namespace pinprick::target {
namespace {

// The kernel's own, which it never shows to programs: how an interrupted call wants to go on.
constexpr int64_t kRestartSys = 512, kRestartNoInterrupt = 513, kRestartNoHandler = 514,
                  kRestartBlock = 516;
constexpr uint64_t kSyscallLength = 2;
constexpr uint64_t kCodeSegment32 = 0x23;

constexpr int event_of(int status) {
  return status >> 16;
}

void* data(long value) {
  return reinterpret_cast<void*>(value);
}

bool in_system_call(const user_regs_struct& registers) {
  return static_cast<int64_t>(registers.orig_rax) >= 0;
}

// A call that ended with EINTR while the process was being stopped.
bool was_disturbed(const user_regs_struct& registers) {
  return in_system_call(registers) && static_cast<int64_t>(registers.rax) == -EINTR &&
         registers.orig_rax != SYS_close;
}

void pause_briefly(int attempt) {
  if (attempt < 200) {
    sched_yield();
    return;
  }
  const timespec wait = {0, 50'000};
  nanosleep(&wait, nullptr);
}

}  // namespace

user_regs_struct restarted(const user_regs_struct& registers) {
  if (!in_system_call(registers)) return registers;
  user_regs_struct out = registers;
  out.orig_rax = static_cast<uint64_t>(-1);
  switch (-static_cast<int64_t>(registers.rax)) {
    case kRestartSys:
    case kRestartNoInterrupt:
    case kRestartNoHandler:
    case EINTR:
      out.rax = registers.orig_rax;
      break;
    case kRestartBlock:
      out.rax = SYS_restart_syscall;
      break;
    default:
      return out;
  }
  out.rip -= kSyscallLength;
  return out;
}

Stop::Stop(Stop&& other) noexcept
    : pid_(other.pid_),
      since_ns_(other.since_ns_),
      threads_(std::move(other.threads_)),
      seized_(std::move(other.seized_)),
      ended_(std::move(other.ended_)),
      exit_status_(other.exit_status_) {
  other.threads_.clear();
  other.seized_.clear();
}

Stop& Stop::operator=(Stop&& other) noexcept {
  resume();
  pid_ = other.pid_;
  since_ns_ = other.since_ns_;
  threads_ = std::exchange(other.threads_, {});
  seized_ = std::exchange(other.seized_, {});
  ended_ = std::exchange(other.ended_, {});
  exit_status_ = other.exit_status_;
  return *this;
}

Stop::~Stop() {
  resume();
}

Result<Stop, AttachError> Stop::all_threads(pid_t pid, unsigned patience_ms, unsigned attempts) {
  Stop stop(pid);
  for (unsigned attempt = 1;; ++attempt) {
    stop.since_ns_ = stop.threads_.empty() ? 0 : monotonic_ns();
    auto gathered = stop.gather(patience_ms);
    if (gathered) return stop;
    if (gathered.error().cause != AttachCause::thread_unstoppable || attempt == attempts)
      return fail(gathered.error());
    // Meanwhile the others go on. The one that hangs stops as soon as it comes out of the kernel,
    // and then waits for them.
    stop.let_go();
    bool timed_out = false;
    const uint64_t deadline = monotonic_ns() + uint64_t{patience_ms} * 1'000'000;
    for (pid_t tid : std::vector<pid_t>(stop.seized_)) stop.wait_for(tid, deadline, timed_out);
  }
}

bool Stop::seize(pid_t tid, int& error) {
  if (ptrace(PTRACE_SEIZE, tid, nullptr, data(PTRACE_O_TRACESYSGOOD)) != 0) {
    error = errno;
    return false;
  }
  seized_.push_back(tid);
  return true;
}

// Those that run come first: one that sleeps wakes up to stop, maybe on our CPU, and whoever else
// wants that CPU goes next, and on, as long as nothing stops it. Later it is better to hurry.
void Stop::interrupt(std::vector<pid_t> tids) {
  if (since_ns_ == 0) {
    std::stable_partition(tids.begin(), tids.end(), [&](pid_t tid) {
      const auto status = read_thread_status(pid_, tid);
      return status && status->state == 'R';
    });
    since_ns_ = monotonic_ns();
  }
  // A thread that ended in between shows itself when we wait for it.
  for (pid_t tid : tids) ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
}

// True: stopped, and in threads_. False: it ended, or `timed_out`.
bool Stop::wait_for(pid_t tid, uint64_t deadline_ns, bool& timed_out) {
  for (int attempt = 0;; ++attempt) {
    int status = 0;
    const pid_t waited = waitpid(tid, &status, __WALL | WNOHANG);
    if (waited == 0) {
      if (monotonic_ns() > deadline_ns) {
        timed_out = true;
        return false;
      }
      pause_briefly(attempt);
      continue;
    }
    if (waited < 0 && errno == EINTR) continue;
    if (waited < 0 || WIFEXITED(status) || WIFSIGNALED(status)) {
      if (waited == pid_) exit_status_ = status;
      std::erase(seized_, tid);
      return false;
    }
    if (event_of(status) != PTRACE_EVENT_STOP) {
      // A signal on its way to the program: let it have it. The interrupt still waits, and stops
      // the thread at the handler's first instruction, or where it was.
      const int signal = event_of(status) == 0 ? WSTOPSIG(status) & 0x7f : 0;
      const bool is_ours = event_of(status) == 0 && WSTOPSIG(status) == (SIGTRAP | 0x80);
      ptrace(PTRACE_CONT, tid, nullptr, data(is_ours ? 0 : signal));
      continue;
    }
    StoppedThread thread;
    thread.tid = tid;
    std::erase(seized_, tid);
    if (ptrace(PTRACE_GETREGS, tid, nullptr, &thread.registers) != 0) return false;
    if (was_disturbed(thread.registers)) {
      // The kernel takes it from here: EINTR if a handler runs, the call again if not. To decide
      // that ourselves would miss a signal that arrives before the thread runs.
      thread.registers.rax = static_cast<uint64_t>(-kRestartNoHandler);
      ptrace(PTRACE_SETREGS, tid, nullptr, &thread.registers);
    }
    threads_.push_back(thread);
    return true;
  }
}

Result<void, AttachError> Stop::gather(unsigned patience_ms) {
  const auto is_known = [&](pid_t tid) {
    return std::find(seized_.begin(), seized_.end(), tid) != seized_.end() ||
           std::find(ended_.begin(), ended_.end(), tid) != ended_.end() ||
           std::any_of(threads_.begin(), threads_.end(),
                       [&](const StoppedThread& thread) { return thread.tid == tid; });
  };
  for (;;) {
    // Once a pass finds nobody new, and all that were found stand still, nobody is left to make
    // one.
    std::vector<pid_t> found;
    std::optional<AttachError> refused;
    for (pid_t tid : list_threads(pid_)) {
      if (is_known(tid)) continue;
      int error = 0;
      if (seize(tid, error)) {
        found.push_back(tid);
        continue;
      }
      const auto status = read_thread_status(pid_, tid);
      if (!status || status->state == 'Z' || status->state == 'X') {
        ended_.push_back(tid);  // a leader that ended before its threads stays listed
        continue;
      }
      if (error == ESRCH) continue;
      const auto cause =
          status->tracer != 0 ? AttachCause::already_traced : AttachCause::not_permitted;
      refused = AttachError{cause, pid_, status->tracer, error, {}};
      break;
    }
    interrupt(found);
    if (refused) return fail(*refused);
    const uint64_t deadline = since_ns_ + uint64_t{patience_ms} * 1'000'000;
    for (pid_t tid : std::vector<pid_t>(seized_)) {
      bool timed_out = false;
      wait_for(tid, deadline, timed_out);
      if (timed_out) return fail(AttachError{AttachCause::thread_unstoppable, pid_, tid, 0, {}});
    }
    if (found.empty()) break;
  }
  if (threads_.empty()) return fail(AttachError{AttachCause::exited, pid_, 0, 0, {}});
  for (const StoppedThread& thread : threads_)
    if (thread.registers.cs == kCodeSegment32)
      return fail(AttachError{AttachCause::not_64_bit, pid_, thread.tid, 0, {}});
  return {};
}

void Stop::move(StoppedThread& thread, uint64_t instruction_pointer) {
  thread.registers.rip = instruction_pointer;
  ptrace(PTRACE_SETREGS, thread.tid, nullptr, &thread.registers);
}

void Stop::set_signal_mask(const StoppedThread& thread, uint64_t mask) {
  ptrace(PTRACE_SETSIGMASK, thread.tid, data(sizeof mask), &mask);
}

// Those that wait in the kernel come first: one that goes on computing may take our CPU, and then
// everybody behind it stands still for longer.
uint64_t Stop::let_go() {
  std::stable_partition(threads_.begin(), threads_.end(), [](const StoppedThread& thread) {
    return in_system_call(thread.registers);
  });
  uint64_t last_ns = monotonic_ns();
  for (const StoppedThread& thread : threads_) {
    last_ns = monotonic_ns();  // not when we are back: the thread may have run meanwhile
    ptrace(PTRACE_DETACH, thread.tid, nullptr, nullptr);
  }
  threads_.clear();
  return last_ns;
}

uint64_t Stop::resume() {
  if (threads_.empty() && seized_.empty()) return 0;
  const uint64_t elapsed = let_go() - since_ns_;
  // A thread that has not stopped cannot be detached from. It is resumed by whoever ends first, it
  // or we; for a moment we can wait for it.
  constexpr uint64_t kMomentNs = 100'000'000;
  bool timed_out = false;
  const uint64_t deadline = monotonic_ns() + kMomentNs;
  for (pid_t tid : std::vector<pid_t>(seized_)) wait_for(tid, deadline, timed_out);
  let_go();
  seized_.clear();
  return elapsed;
}

}  // namespace pinprick::target
