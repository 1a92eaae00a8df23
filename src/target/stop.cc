#include "target/stop.h"

#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "arch/syscall.h"
#include "base/clock.h"
#include "target/held_thread.h"
#include "target/procfs.h"
#include "target/ptrace_data.h"
#include "target/thread_registers.h"

namespace pinprick::target {
namespace {

constexpr int event_of(int status) {
  return status >> 16;
}

// Has a call ended with EINTR that our stop may have interrupted?
bool was_disturbed(const arch::Registers& registers) {
  return arch::in_system_call(registers) && arch::syscall_result(registers) == -EINTR &&
         arch::syscall_number(registers) != SYS_close;
}

// Threads that no stop could stop in time, by process. Each stops as soon as it can.
struct Unsettled {
  std::vector<pid_t> tids;
  HoldGuard guard;
};
thread_local std::map<pid_t, Unsettled> unsettled;

bool is_traced_by_us(pid_t tid) {
  const auto status = read_status(tid);
  return status && status->tracer == ::gettid();
}

bool is_end(const siginfo_t& seen) {
  return seen.si_code == CLD_EXITED || seen.si_code == CLD_KILLED || seen.si_code == CLD_DUMPED;
}

bool has_ended(pid_t pid, pid_t tid) {
  const auto status = read_thread_status(pid, tid);
  return !status || status->state == 'Z' || status->state == 'X';
}

bool has_ended_before_others(pid_t pid) {
  const std::vector<pid_t> tids = list_threads(pid);
  return has_ended(pid, pid) &&
         !std::all_of(tids.begin(), tids.end(), [&](pid_t tid) { return has_ended(pid, tid); });
}

// Why a thread could not be seized; the cause is `exited` if it has ended.
AttachError refusal(pid_t pid, pid_t tid, int error) {
  const auto status = read_thread_status(pid, tid);
  if (!status || status->state == 'Z' || status->state == 'X')
    return {AttachCause::exited, pid, 0, error, {}};
  const auto cause = status->tracer != 0 ? AttachCause::already_traced : AttachCause::not_permitted;
  return {cause, pid, status->tracer, error, {}};
}

// Returns nullopt if the thread is traced by us now.
std::optional<AttachError> seize(pid_t pid, pid_t tid) {
  constexpr int kAttempts = 3;
  for (int attempt = 1;; ++attempt) {
    if (ptrace(PTRACE_SEIZE, tid, nullptr, ptrace_data(PTRACE_O_TRACESYSGOOD)) == 0)
      return std::nullopt;
    const AttachError error = refusal(pid, tid, errno);
    if (error.cause != AttachCause::already_traced || attempt == kAttempts || !lets_go(error.other))
      return error;
  }
}

// Has the thread just hit a breakpoint, whose signal is not delivered yet? Its instruction pointer
// then says where the breakpoint ends, and not where it will go on: in libpinprick's stub, if the
// program probes itself. An interrupt comes before signals. A breakpoint unblocks its signal; one
// that the thread blocks, as of a perf event, may stay pending for any time.
bool has_pending_trap(pid_t tid) {
  constexpr uint64_t kTraps = uint64_t{1} << (SIGTRAP - 1);
  uint64_t blocked = 0;
  if (ptrace(PTRACE_GETSIGMASK, tid, ptrace_data(sizeof blocked), &blocked) != 0 ||
      (blocked & kTraps) != 0)
    return false;
  siginfo_t pending[4];
  __ptrace_peeksiginfo_args which = {};
  which.nr = std::size(pending);
  const long count = ptrace(PTRACE_PEEKSIGINFO, tid, &which, pending);
  return std::any_of(pending, pending + std::max(count, 0L), [](const siginfo_t& one) {
    return one.si_signo == SIGTRAP && one.si_code > 0;
  });
}

// Sends a signal to this thread of ours again and again, from some milliseconds on.
class Nudge {
 public:
  using Handler = void (*)(int);
  // If there is no timer, nothing is sent.
  explicit Nudge(Handler handler) {
    // A forked process does not have its parent's timers.
    thread_local pid_t made_by = 0;
    thread_local std::optional<timer_t> own_timer;
    if (const pid_t self = ::gettid(); made_by != self) {
      made_by = self;
      own_timer = make(handler);
    }
    timer_ = own_timer;
    set(kPeriod);
  }
  Nudge(const Nudge&) = delete;
  Nudge& operator=(const Nudge&) = delete;
  ~Nudge() { set({}); }

 private:
  static constexpr timespec kPeriod = {0, 10'000'000};
  // One that is ignored by default, and that nothing of ours waits for.
  static constexpr int kSignal = SIGURG;

  static std::optional<timer_t> make(Handler handler) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    struct sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kSignal;
    event._sigev_un._tid = ::gettid();
    timer_t timer = nullptr;
    if (::sigaction(kSignal, &action, nullptr) != 0 ||
        ::timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
      return std::nullopt;
    return timer;
  }
  void set(timespec period) const {
    const itimerspec both = {period, period};
    if (timer_) ::timer_settime(*timer_, 0, &both, nullptr);
  }
  std::optional<timer_t> timer_;
};

void pause_briefly(int attempt) {
  if (attempt < 200) {
    sched_yield();
    return;
  }
  const timespec wait = {0, 50'000};
  nanosleep(&wait, nullptr);
}

}  // namespace

pid_t wait_once(pid_t pid, pid_t tid, int& status) {
  const auto id = static_cast<id_t>(tid);
  siginfo_t seen = {};
  if (tid != pid || ::waitid(P_PID, id, &seen, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
    return ::waitpid(tid, &status, __WALL | WNOHANG);
  if (is_end(seen)) {
    const auto ended = read_status(pid);
    if (!ended || ended->parent != ::getpid()) return ::waitpid(tid, &status, __WALL | WNOHANG);
    errno = ECHILD;
    return -1;
  }
  seen = {};
  if (::waitid(P_PID, id, &seen, WSTOPPED | WNOHANG | __WALL) != 0) {
    if (errno == ECHILD) errno = EAGAIN;
    return -1;
  }
  status = seen.si_status << 8 | 0x7f;
  return seen.si_pid;
}

// The kernel then decides: EINTR if a handler runs, the call again if not. If we decided, we would
// miss a signal that arrives before the thread runs.
bool leave_to_kernel(arch::Registers& registers) {
  if (!was_disturbed(registers)) return false;
  arch::restart_unless_handled(registers);
  return true;
}

Stop::Stop(Stop&& other) noexcept
    : guard_(std::move(other.guard_)),
      pid_(other.pid_),
      is_whole_(other.is_whole_),
      first_has_ended_(std::exchange(other.first_has_ended_, false)),
      since_ns_(other.since_ns_),
      threads_(std::exchange(other.threads_, {})),
      seized_(std::exchange(other.seized_, {})),
      others_(std::move(other.others_)) {}

Stop::~Stop() {
  let_all_go();
}

Result<Stop, AttachError> Stop::all_threads(pid_t pid, unsigned timeout_ms, unsigned attempts) {
  settle();
  Stop stop(pid);
  stop.is_whole_ = true;
  stop.adopt_unsettled();
  for (unsigned attempt = 1;; ++attempt) {
    stop.since_ns_ = stop.threads_.empty() ? 0 : monotonic_ns();
    stop.others_.clear();  // a TID may be another thread's by now
    auto gathered = stop.gather(timeout_ms);
    if (gathered) return stop;
    if (gathered.error().cause != AttachCause::thread_unstoppable || attempt == attempts)
      return fail(gathered.error());
    // The other threads go on meanwhile. The one that hangs stops as soon as it comes out of the
    // kernel, and then waits for the next attempt.
    stop.let_go();
    bool timed_out = false;
    const uint64_t deadline = monotonic_ns() + uint64_t{timeout_ms} * 1'000'000;
    for (pid_t tid : stop.to_wait_for()) stop.wait_for(tid, deadline, timed_out);
  }
}

Result<Stop, AttachError> Stop::one_thread(pid_t pid, pid_t tid, unsigned timeout_ms) {
  settle();
  const auto refuse = [&](AttachCause cause, pid_t other, int error) {
    return fail(AttachError{cause, pid, other, error, {}});
  };
  if (const auto kept = unsettled.find(pid);
      kept != unsettled.end() &&
      std::find(kept->second.tids.begin(), kept->second.tids.end(), tid) != kept->second.tids.end())
    return refuse(AttachCause::thread_unstoppable, tid, 0);
  Stop stop(pid);
  if (HeldThread::is_held(pid, tid)) {
    if (!stop.adopt_held(tid)) return refuse(AttachCause::exited, 0, 0);
    if (!arch::is_64_bit(stop.threads_[0].registers))
      return refuse(AttachCause::not_64_bit, tid, 0);
    return stop;
  }
  {
    std::optional<Nudge> nudge;
    if (HeldThread::holds_any_of(pid) || unsettled.contains(pid))
      nudge.emplace(&Stop::wait_for_ended);
    if (auto refused = stop.seize_one(tid)) return fail(*refused);
  }
  stop.seized_ = {tid};
  stop.interrupt(stop.seized_);
  bool timed_out = false;
  const uint64_t deadline = stop.since_ns_ + uint64_t{timeout_ms} * 1'000'000;
  if (!stop.wait_for(tid, deadline, timed_out))
    return refuse(timed_out ? AttachCause::thread_unstoppable : AttachCause::exited,
                  timed_out ? tid : 0, 0);
  if (!arch::is_64_bit(stop.threads_[0].registers)) return refuse(AttachCause::not_64_bit, tid, 0);
  return stop;
}

// The first thread comes last: waitpid() reports its end only after those of all others.
std::vector<pid_t> Stop::to_wait_for() const {
  std::vector<pid_t> tids = seized_;
  std::stable_partition(tids.begin(), tids.end(), [&](pid_t tid) { return tid != pid_; });
  return tids;
}

void Stop::adopt_unsettled() {
  if (auto kept = unsettled.extract(pid_); !kept.empty()) seized_ = std::move(kept.mapped().tids);
}

void Stop::keep_unsettled() {
  if (seized_.empty() && !first_has_ended_) return;
  std::vector<pid_t>& kept = unsettled[pid_].tids;
  kept.insert(kept.end(), seized_.begin(), seized_.end());
  seized_.clear();
  if (std::exchange(first_has_ended_, false)) kept.push_back(pid_);
}

// Only from such a stop does the kernel go on to see whether a call is to be restarted. From the
// exit of a call it might return the number that asks for it.
static bool is_in_event_stop(pid_t tid) {
  siginfo_t info = {};
  return ptrace(PTRACE_GETSIGINFO, tid, nullptr, &info) == 0 &&
         info.si_code >> 8 == PTRACE_EVENT_STOP;
}

bool Stop::keeps_any() {
  return !unsettled.empty();
}

bool Stop::keeps_any_of(pid_t pid) {
  return unsettled.contains(pid);
}

void Stop::let_go_of(pid_t pid, pid_t tid) {
  arch::Registers registers;
  if (is_in_event_stop(tid) && read_registers(tid, registers) && leave_to_kernel(registers))
    write_registers(tid, registers);
  if (ptrace(PTRACE_DETACH, tid, nullptr, nullptr) == 0) return;
  Stop stop(pid);
  stop.seized_ = {tid};
  bool timed_out = false;
  stop.wait_for(tid, 0, timed_out);
  stop.let_go();
  stop.keep_unsettled();
}

size_t Stop::settle() {
  size_t left = 0;
  for (auto& [pid, kept] : std::exchange(unsettled, {})) {
    Stop stop(pid);
    stop.seized_ = std::move(kept.tids);
    bool timed_out = false;
    for (pid_t tid : stop.to_wait_for()) stop.wait_for(tid, 0, timed_out);
    stop.let_go();
    left += stop.seized_.size();
    stop.keep_unsettled();
  }
  return left;
}

void Stop::interrupt(const std::vector<pid_t>& tids) {
  if (since_ns_ == 0) since_ns_ = monotonic_ns();
  // If a thread has ended meanwhile, waiting for it will show that.
  for (pid_t tid : tids) ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
}

// Returns true if the thread has stopped, and is in threads_; false if it ended, or `timed_out`.
bool Stop::wait_for(pid_t tid, uint64_t deadline_ns, bool& timed_out) {
  for (int attempt = 0;; ++attempt) {
    int status = 0;
    const pid_t waited = wait_once(pid_, tid, status);
    const bool ends = waited < 0 && errno == EAGAIN;
    if (ends && has_ended_before_others(pid_)) {
      std::erase(seized_, tid);
      first_has_ended_ = true;
      return false;
    }
    if (waited == 0 || ends) {
      if (monotonic_ns() > deadline_ns) {
        timed_out = true;
        return false;
      }
      pause_briefly(attempt);
      continue;
    }
    if (waited < 0 && errno == EINTR) continue;
    if (waited < 0 || WIFEXITED(status) || WIFSIGNALED(status)) {
      std::erase(seized_, tid);
      // Or it has executed a program, and has had the first thread's number since.
      if (waited > 0 || tid == pid_ || !is_traced_by_us(pid_)) return false;
      tid = pid_;
      std::erase_if(threads_, [&](const StoppedThread& thread) { return thread.tid == tid; });
      if (std::find(seized_.begin(), seized_.end(), tid) == seized_.end()) seized_.push_back(tid);
      continue;
    }
    if (event_of(status) != PTRACE_EVENT_STOP) {
      // A signal for the program, which is delivered. The interrupt is still pending, and stops the
      // thread at the handler's first instruction, or where it was.
      const int signal = event_of(status) == 0 ? WSTOPSIG(status) & 0x7f : 0;
      const bool is_ours = event_of(status) == 0 && WSTOPSIG(status) == (SIGTRAP | 0x80);
      ptrace(PTRACE_CONT, tid, nullptr, ptrace_data(is_ours ? 0 : signal));
      continue;
    }
    StoppedThread thread;
    thread.tid = tid;
    // The signal is delivered, as above, and the next interrupt stops the thread in its handler.
    if (has_pending_trap(tid)) {
      ptrace(PTRACE_CONT, tid, nullptr, nullptr);
      ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
      continue;
    }
    // It was killed meanwhile, and its end is still to be reported.
    if (!read_registers(tid, thread.registers)) continue;
    std::erase(seized_, tid);
    if (leave_to_kernel(thread.registers)) write_registers(tid, thread.registers);
    threads_.push_back(thread);
    return true;
  }
}

// PTRACE_SEIZE waits while the process executes a program. That waits until all other threads have
// gone, and one that we trace has gone when we have waited for its end. So there a signal makes us
// wait for those that we have seized before, and the call goes on (ERESTARTNOINTR).
static thread_local const Stop* in_seize;
static thread_local std::array<pid_t, 8192> ended;
static thread_local size_t ended_count;

void Stop::wait_for_ended(int) {
  if (in_seize == nullptr) return;
  const int error = errno;
  const auto wait_for = [](pid_t tid) {
    // The kernel removes the first thread by itself.
    if (tid == in_seize->pid_ || ended_count == ended.size()) return;
    // A stop is reported as well, whatever is asked for, and is left to be waited for elsewhere.
    siginfo_t info = {};
    constexpr int kWait = WEXITED | WNOHANG | __WALL;
    if (::waitid(P_PID, static_cast<id_t>(tid), &info, kWait | WNOWAIT) == 0 && is_end(info) &&
        ::waitid(P_PID, static_cast<id_t>(tid), &info, kWait) == 0)
      ended[ended_count++] = tid;
  };
  for (const pid_t tid : in_seize->seized_) wait_for(tid);
  for (const StoppedThread& thread : in_seize->threads_) wait_for(thread.tid);
  HeldThread::for_each_of(in_seize->pid_, wait_for);
  if (const auto kept = unsettled.find(in_seize->pid_); kept != unsettled.end())
    for (const pid_t tid : kept->second.tids) wait_for(tid);
  errno = error;
}

std::optional<AttachError> Stop::seize_one(pid_t tid) {
  in_seize = this;
  auto error = seize(pid_, tid);
  in_seize = nullptr;
  for (const pid_t gone : std::span(ended).first(std::exchange(ended_count, 0))) {
    std::erase(seized_, gone);
    std::erase_if(threads_, [&](const StoppedThread& thread) { return thread.tid == gone; });
  }
  return error;
}

// Running threads are interrupted first. A sleeping thread wakes up to stop, maybe on our CPU; then
// a running thread that was not interrupted yet might get that CPU, and keep it.
Result<void, AttachError> Stop::gather(unsigned timeout_ms) {
  const auto is_known = [&](pid_t tid) {
    return (tid == pid_ && first_has_ended_) ||
           std::find(seized_.begin(), seized_.end(), tid) != seized_.end() ||
           std::find(others_.begin(), others_.end(), tid) != others_.end() ||
           std::any_of(threads_.begin(), threads_.end(),
                       [&](const StoppedThread& thread) { return thread.tid == tid; });
  };
  for (;;) {
    // If a pass finds no new thread, and all known ones were stopped before it, no thread is left
    // that could create one. If a listed thread cannot be found when the pass is over, the pass
    // proves nothing: the kernel ends its list at a thread that goes meanwhile.
    const bool all_stood = seized_.empty();
    std::vector<pid_t> running, found;
    std::optional<AttachError> refused;
    std::optional<pid_t> not_found;
    const std::vector<pid_t> listed = list_threads(pid_);
    std::optional<Nudge> nudge;
    if (listed.size() > 1) nudge.emplace(&Stop::wait_for_ended);
    for (pid_t tid : listed) {
      if (is_known(tid)) continue;
      if (HeldThread::is_held(pid_, tid)) {
        if (!adopt_held(tid)) seized_.push_back(tid);  // its end is to be waited for
        continue;
      }
      const auto before = read_thread_status(pid_, tid);
      if (before && before->kernel_worker) {
        others_.push_back(tid);
        continue;
      }
      const auto error = seize_one(tid);
      if (!error) {
        seized_.push_back(tid);
        (before && before->state == 'R' ? running : found).push_back(tid);
        continue;
      }
      if (error->cause == AttachCause::exited || error->system_error == ESRCH) {
        // A leader that ended before its threads stays listed. What has no status may have gone, or
        // is being created: a thread is listed a moment before it can be found by its number.
        const auto after = read_thread_status(pid_, tid);
        if (after && (after->state == 'Z' || after->state == 'X'))
          others_.push_back(tid);
        else
          not_found = tid;
        continue;
      }
      refused = error;
      break;
    }
    nudge.reset();
    running.insert(running.end(), found.begin(), found.end());
    interrupt(running);
    if (refused) return fail(*refused);
    const uint64_t deadline = since_ns_ + uint64_t{timeout_ms} * 1'000'000;
    for (pid_t tid : to_wait_for()) {
      bool timed_out = false;
      wait_for(tid, deadline, timed_out);
      if (timed_out) return fail(AttachError{AttachCause::thread_unstoppable, pid_, tid, 0, {}});
    }
    if (!running.empty() || !all_stood) continue;
    for (pid_t tid : listed)
      if (std::none_of(threads_.begin(), threads_.end(),
                       [&](const StoppedThread& thread) { return thread.tid == tid; }) &&
          !read_thread_status(pid_, tid))
        not_found = tid;
    if (!not_found) break;
    if (monotonic_ns() > deadline)
      return fail(AttachError{AttachCause::thread_unstoppable, pid_, *not_found, 0, {}});
  }
  if (threads_.empty()) return fail(AttachError{AttachCause::exited, pid_, 0, 0, {}});
  for (const StoppedThread& thread : threads_)
    if (!arch::is_64_bit(thread.registers))
      return fail(AttachError{AttachCause::not_64_bit, pid_, thread.tid, 0, {}});
  return {};
}

// Returns false if the thread was killed.
bool Stop::adopt_held(pid_t tid) {
  StoppedThread thread;
  thread.tid = tid;
  if (!read_registers(tid, thread.registers)) return false;
  if (since_ns_ == 0) since_ns_ = monotonic_ns();
  threads_.push_back(thread);
  return true;
}

void Stop::move(StoppedThread& thread, uint64_t instruction_pointer) {
  arch::set_instruction_pointer(thread.registers, instruction_pointer);
  write_registers(thread.tid, thread.registers);
}

void Stop::set_signal_mask(const StoppedThread& thread, uint64_t mask) {
  ptrace(PTRACE_SETSIGMASK, thread.tid, ptrace_data(sizeof mask), &mask);
}

// Threads that wait in the kernel are resumed first: one that computes may take our CPU, and then
// all threads after it stay stopped for longer.
uint64_t Stop::let_go() {
  std::stable_partition(threads_.begin(), threads_.end(), [](const StoppedThread& thread) {
    return arch::in_system_call(thread.registers);
  });
  uint64_t last_ns = monotonic_ns();
  for (const StoppedThread& thread : threads_) {
    last_ns = monotonic_ns();  // before the call: the thread may run before it returns to us
    if (HeldThread::is_held(pid_, thread.tid)) {
      arch::Registers registers;
      if (read_registers(thread.tid, registers)) continue;
      // It was killed, or goes on by itself: it is let go like any other.
      HeldThread::forget(pid_, thread.tid);
    }
    // A thread that was killed stays until its tracer has waited for it.
    if (ptrace(PTRACE_DETACH, thread.tid, nullptr, nullptr) != 0) seized_.push_back(thread.tid);
  }
  threads_.clear();
  return last_ns;
}

uint64_t Stop::let_all_go() {
  if (threads_.empty() && seized_.empty() && !first_has_ended_) return 0;
  const uint64_t elapsed = let_go() - since_ns_;
  // A thread that has not stopped cannot be detached. Most stop in a moment.
  constexpr uint64_t kMomentNs = 100'000'000;
  bool timed_out = false;
  const uint64_t deadline = monotonic_ns() + kMomentNs;
  for (pid_t tid : to_wait_for()) wait_for(tid, deadline, timed_out);
  let_go();
  keep_unsettled();
  guard_.end();
  return elapsed;
}

uint64_t Stop::resume() && {
  return let_all_go();
}

}  // namespace pinprick::target
