#include "target/hijacked_thread.h"

#include <linux/rseq.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "arch/syscall.h"
#include "base/clock.h"
#include "target/procfs.h"
#include "target/ptrace_data.h"
#include "target/thread_registers.h"

namespace pinprick::target {
namespace {

// The restartable sequence that the thread is in, if any.
std::optional<rseq_cs> active_sequence(const Memory& memory, const StoppedThread& thread) {
  const auto registration = rseq_registration(thread.tid);
  uint64_t descriptor = 0;
  rseq_cs sequence = {};
  if (!registration ||
      !memory.read_value(registration->area + offsetof(struct rseq, rseq_cs), descriptor) ||
      descriptor == 0 || !memory.read_value(descriptor, sequence))
    return std::nullopt;
  const bool inside =
      thread.instruction_pointer() - sequence.start_ip < sequence.post_commit_offset;
  return inside ? std::optional(sequence) : std::nullopt;
}

// How much a hijack would disturb the thread.
int disturbance(const StoppedThread& thread, bool in_sequence) {
  if (in_sequence) return 9;
  switch (arch::call_state(thread.registers)) {
    case arch::CallState::none:
      return 0;
    case arch::CallState::over:
      return 1;
    case arch::CallState::restarts:
      return 2;
    case arch::CallState::continues:
      return 3;
  }
  return 9;
}

struct Candidate {
  std::optional<rseq_cs> sequence;
  StoppedThread* thread = nullptr;
  int disturbance = 0;
};

// The threads that could be hijacked, least disturbed first.
std::vector<Candidate> candidates(const Memory& memory, std::vector<StoppedThread>& threads) {
  std::vector<Candidate> all;
  for (StoppedThread& thread : threads) {
    if (thread.is_worker()) continue;
    const auto sequence = active_sequence(memory, thread);
    all.push_back({sequence, &thread, disturbance(thread, sequence.has_value())});
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.disturbance < b.disturbance;
  });
  return all;
}

using Arguments = arch::SyscallArguments;

seccomp_data seen_by_filters(uint64_t number, const Arguments& arguments, Address code) {
  seccomp_data call = {
      static_cast<int>(number), arch::kAuditArchitecture, code + arch::kSyscallLength, {}};
  std::copy(arguments.begin(), arguments.end(), call.args);
  return call;
}

// Would the thread survive the call? A call that is refused with an error does no harm. What a
// supervisor (SECCOMP_RET_USER_NOTIF) would do is unknown.
bool survives(const SeccompFilters& filters, const seccomp_data& call) {
  switch (filters.action(call)) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG:
    case SECCOMP_RET_ERRNO:
    case SECCOMP_RET_TRACE:  // without a tracer: ENOSYS
      return true;
    default:
      return false;
  }
}

// The first of a hijack's calls that the thread might not survive, or 0. The addresses are not
// known yet, so call() checks again.
int deadly_call(const SeccompFilters& filters, Address code) {
  const std::pair<int, Arguments> kCalls[] = {
      {SYS_mmap, {0, kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, 3, 0}},
      {SYS_mmap, {0, kPageSize, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED_NOREPLACE, 3, 0}},
      {SYS_munmap, {0, kPageSize}},
      {SYS_socketpair, {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC}},
      {SYS_recvmsg, {3, 0, MSG_CMSG_CLOEXEC | MSG_DONTWAIT}},
      {SYS_close, {3}},
  };
  for (const auto& [number, arguments] : kCalls)
    if (!survives(filters, seen_by_filters(number, arguments, code))) return number;
  // Our code must be able to restore the mask: else the thread would go on with all signals
  // blocked.
  const Arguments restore = {SIG_SETMASK, code, 0, sizeof(uint64_t)};
  const uint32_t action = filters.action(seen_by_filters(SYS_rt_sigprocmask, restore, code));
  const bool open = action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
  return open ? 0 : SYS_rt_sigprocmask;
}

const char* name_of_call(int number) {
  switch (number) {
    case SYS_mmap:
      return "mmap";
    case SYS_munmap:
      return "munmap";
    case SYS_socketpair:
      return "socketpair";
    case SYS_recvmsg:
      return "recvmsg";
    case SYS_close:
      return "close";
    default:
      return "rt_sigprocmask";
  }
}

// Does the thread handle system calls itself? The kernel then sends SIGSYS for a call of ours, and
// as all signals are blocked, that is the end of the process. Not while its selector lets calls
// through: only the thread changes that, and it executes nothing of its own meanwhile. Before Linux
// 6.4 there is no way to know.
bool dispatches_calls(pid_t tid) {
  constexpr int kGetConfiguration = 0x4211;  // PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
  struct {
    uint64_t mode, selector, offset, length;
  } configuration = {};
  if (ptrace(static_cast<__ptrace_request>(kGetConfiguration), tid,
             ptrace_data(sizeof configuration), &configuration) != 0 ||
      configuration.mode == 0)
    return false;
  constexpr uint8_t kAllows = 0;  // SYSCALL_DISPATCH_FILTER_ALLOW
  if (configuration.selector == 0) return true;
  errno = 0;
  const long word =
      ptrace(PTRACE_PEEKDATA, tid, ptrace_data(align_down(configuration.selector, 8)), 0);
  return errno != 0 || static_cast<uint8_t>(word >> (8 * (configuration.selector % 8))) != kAllows;
}

// Suspends the thread's filters, if it has any, until it is resumed, and returns them. Fails if
// they cannot be read or suspended, or would kill the thread if we died.
Result<SeccompFilters, AttachError> suspend_filters(pid_t pid, pid_t tid, Address code) {
  const auto refuse = [&](AttachCause cause, int error, const char* detail) {
    return fail(AttachError{cause, pid, tid, error, detail});
  };
  if (dispatches_calls(tid)) return refuse(AttachCause::user_dispatch, 0, "");
  const int mode = seccomp_mode(pid, tid).value_or(SECCOMP_MODE_DISABLED);
  if (mode == SECCOMP_MODE_DISABLED) return SeccompFilters();
  if (mode == SECCOMP_MODE_STRICT) return refuse(AttachCause::seccomp_deadly, 0, "mmap");
  auto filters = SeccompFilters::read(tid);
  if (!filters) return refuse(AttachCause::seccomp, filters.error().number, "");
  if (const int number = deadly_call(*filters, code); number != 0)
    return refuse(AttachCause::seccomp_deadly, 0, name_of_call(number));
  if (ptrace(PTRACE_SETOPTIONS, tid, nullptr,
             ptrace_data(PTRACE_O_TRACESYSGOOD | PTRACE_O_SUSPEND_SECCOMP)) != 0)
    return refuse(AttachCause::seccomp, errno, "");
  return *std::move(filters);
}

bool set_mask(pid_t tid, uint64_t mask) {
  return ptrace(PTRACE_SETSIGMASK, tid, ptrace_data(sizeof mask), &mask) == 0;
}

// Returns false if the thread is gone.
bool has_filter(pid_t pid, pid_t tid) {
  return seccomp_mode(pid, tid).value_or(SECCOMP_MODE_DISABLED) != SECCOMP_MODE_DISABLED;
}

// The threads in the order in which they are tried: running ones, which are most likely in user
// code; sleeping ones; and those in uninterruptible sleep.
std::vector<pid_t> threads_to_look_at(pid_t pid) {
  std::vector<pid_t> running, sleeping, deaf;
  std::vector<pid_t> all = list_threads(pid);
  if (all.size() == 1) return all;
  for (pid_t tid : all) {
    const auto status = read_thread_status(pid, tid);
    if (!status || status->ending || status->kernel_worker) continue;
    (status->state == 'R' ? running : status->state == 'D' ? deaf : sleeping).push_back(tid);
  }
  running.insert(running.end(), sleeping.begin(), sleeping.end());
  running.insert(running.end(), deaf.begin(), deaf.end());
  return running;
}

// A thread that is not disturbed more than this is taken without a look at the others.
constexpr int kAcceptable = 2;

Result<Stop, AttachError> stop_first_acceptable(pid_t pid, const Memory& memory, Address code) {
  AttachError why{AttachCause::exited, pid, 0, 0, {}};
  std::optional<pid_t> best;
  int least = 0;
  for (pid_t tid : threads_to_look_at(pid)) {
    auto stop = Stop::one_thread(pid, tid);
    if (!stop) {
      if (stop.error().cause != AttachCause::exited) why = stop.error();
      if (why.cause == AttachCause::already_traced || why.cause == AttachCause::not_permitted)
        return fail(why);
      continue;
    }
    const StoppedThread& thread = stop->threads()[0];
    if (thread.is_worker()) continue;
    if (auto suspended = suspend_filters(pid, tid, code); !suspended) {
      why = suspended.error();
      continue;
    }
    const int disturbed = disturbance(thread, active_sequence(memory, thread).has_value());
    if (disturbed <= kAcceptable) return stop;
    if (best && least <= disturbed) continue;
    best = tid;
    least = disturbed;
  }
  if (best) return Stop::one_thread(pid, *best);
  return fail(why);
}

}  // namespace

Result<Stop, AttachError> stop_one_to_hijack(pid_t pid, const Memory& memory, Address code) {
  constexpr int kAttempts = 5;
  constexpr uint64_t kPauseNs = 100'000'000;
  for (int attempt = 1;; ++attempt) {
    auto stop = stop_first_acceptable(pid, memory, code);
    if (stop || attempt == kAttempts) return stop;
    const auto cause = stop.error().cause;
    // The thread has ended, but others may go on; or it waits for its vfork child.
    if (cause != AttachCause::exited && cause != AttachCause::thread_unstoppable) return stop;
    if (list_threads(pid).empty()) return stop;
    if (cause == AttachCause::thread_unstoppable) sleep_ns(kPauseNs);
  }
}

Result<void, AttachError> can_be_hijacked(pid_t pid) {
  const auto tids = list_threads(pid);
  if (tids.empty()) return fail(AttachError{AttachCause::no_such_process, pid, 0, 0, {}});
  if (!std::all_of(tids.begin(), tids.end(), [&](pid_t tid) { return has_filter(pid, tid); }))
    return {};
  // Resuming a thread ends the suspension of its filters.
  Result<void, AttachError> able = fail(AttachError{AttachCause::exited, pid, 0, 0, {}});
  for (pid_t tid : tids) {
    auto stop = Stop::one_thread(pid, tid);
    if (!stop) {
      if (stop.error().cause != AttachCause::exited) able = fail(stop.error());
      continue;
    }
    const StoppedThread& thread = stop->threads()[0];
    if (thread.is_worker()) continue;
    auto filters = suspend_filters(pid, tid, thread.instruction_pointer());
    if (filters) return {};
    able = fail(filters.error());
  }
  return able;
}

std::optional<RseqRegistration> rseq_registration(pid_t tid) {
  __ptrace_rseq_configuration configuration = {};
  const long size =
      ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, ptrace_data(sizeof configuration), &configuration);
  if (size < static_cast<long>(sizeof configuration) || configuration.rseq_abi_pointer == 0)
    return std::nullopt;
  return RseqRegistration{configuration.rseq_abi_pointer, configuration.signature,
                          configuration.rseq_abi_size};
}

Result<HijackedThread, AttachError> HijackedThread::hijack(Stop& stop, const Memory& memory,
                                                           Room room) {
  const pid_t pid = stop.pid();
  const auto exited = [&] { return fail(AttachError{AttachCause::exited, pid, 0, 0, {}}); };
  auto filters = Result<SeccompFilters, AttachError>(exited());
  Candidate chosen;
  uint64_t mask = 0;
  for (const Candidate& candidate : candidates(memory, stop.threads())) {
    auto suspended = suspend_filters(pid, candidate.thread->tid, room.address);
    // If the thread has ended by now, its error says nothing about the others.
    if (ptrace(PTRACE_GETSIGMASK, candidate.thread->tid, ptrace_data(sizeof mask), &mask) != 0)
      continue;
    filters = std::move(suspended);
    chosen = candidate;
    if (filters) break;
  }
  if (!filters) return fail(filters.error());
  // As the kernel does with a thread that it preempts in a sequence. Otherwise the thread would
  // finish the sequence although others may have run in between.
  if (chosen.sequence) stop.move(*chosen.thread, chosen.sequence->abort_ip);
  const arch::Registers own = chosen.thread->registers;
  const pid_t tid = chosen.thread->tid;

  const auto code = arch::remote_call(room.address, arch::restarted(own), mask);
  if (code.size() > room.original.size())
    return fail(AttachError{AttachCause::no_room, pid, 0, 0, {}});
  if (auto written = memory.write(room.address, code); !written)
    return fail(AttachError{AttachCause::memory_refused, pid, 0, written.error().number, {}});
  return HijackedThread(stop, memory, std::move(room), *std::move(filters), tid, own, mask);
}

HijackedThread::HijackedThread(Stop& stop, const Memory& memory, Room room, SeccompFilters filters,
                               pid_t tid, const arch::Registers& own_registers, uint64_t mask)
    : stop_(stop),
      memory_(memory),
      room_(std::move(room)),
      filters_(std::move(filters)),
      tid_(tid),
      own_registers_(own_registers),
      mask_(mask) {}

HijackedThread::HijackedThread(HijackedThread&& other) noexcept
    : stop_(other.stop_),
      memory_(other.memory_),
      room_(std::move(other.room_)),
      filters_(std::move(other.filters_)),
      tid_(other.tid_),
      own_registers_(other.own_registers_),
      mask_(other.mask_),
      holds_(std::exchange(other.holds_, false)),
      has_our_registers_(other.has_our_registers_),
      ended_(other.ended_),
      is_frozen_(other.is_frozen_),
      resumed_itself_(other.resumed_itself_) {}

HijackedThread::~HijackedThread() {
  if (!holds_ || resumed_itself_) return;
  if (has_our_registers_) {
    set_mask(tid_, mask_);
    write_registers(tid_, own_registers_);
  }
  static_cast<void>(memory_.write(room_.address, room_.original));
  ptrace(PTRACE_SETOPTIONS, tid_, nullptr, ptrace_data(PTRACE_O_TRACESYSGOOD));
}

bool HijackedThread::has_moved_since_last_look() {
  arch::Registers now = {};
  if (!read_registers(tid_, now)) return false;
  const bool has_moved = std::memcmp(&now, &seen_registers_, sizeof now) != 0;
  seen_registers_ = now;
  return has_moved;
}

// Waits for the thread to stop, and returns its status; 0 if `is_enough` returned true before;
// nullopt if the thread has ended. Spins at first: most calls are over before a sleeping processor
// would wake up, and to yield may cost whole time slices of other threads. After a while it
// interrupts the thread: one whose control group is frozen does not make the call, but stops. So
// does one that is slow, as its control group may use little of a processor or of memory; that one
// has gone on since it was looked at last.
std::optional<int> HijackedThread::next_stop(const std::function<bool()>& is_enough) {
  constexpr int kAttempts = 200, kWithoutYielding = 64;  // some 50 us
  constexpr uint64_t kPauseNs = 50'000, kPatienceNs = 2'000'000'000;
  uint64_t since_ns = 0;
  bool is_interrupted = false;
  for (int attempt = 0;; ++attempt) {
    int status = 0;
    const pid_t waited = wait_once(stop_.pid(), tid_, status);
    if (waited == tid_ && WIFSTOPPED(status)) {
      is_frozen_ =
          is_interrupted && status >> 16 == PTRACE_EVENT_STOP && !has_moved_since_last_look();
      return status;
    }
    if (waited != 0 && (waited > 0 || errno != EAGAIN)) return std::nullopt;
    if (is_enough && is_enough()) return 0;
    if (attempt < kWithoutYielding) {
      for (int i = 0; i < 8; ++i) __builtin_ia32_pause();
      continue;
    }
    if (attempt < kAttempts) {
      sched_yield();
      continue;
    }
    // waitpid() reports the end of a process's first thread only after those of all others were
    // waited for, which does not happen meanwhile.
    const auto now = read_thread_status(stop_.pid(), tid_);
    if (!now || now->ending) return std::nullopt;
    if (since_ns == 0) since_ns = monotonic_ns();
    if (!is_interrupted && monotonic_ns() - since_ns > kPatienceNs)
      is_interrupted = ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) == 0;
    sleep_ns(kPauseNs);
  }
}

namespace {

// Most signals are blocked as long as the thread has our registers, but SIGSTOP cannot be, and a
// thread that has restored itself has its own mask. What is not delivered is lost. A group stop
// starts or ends otherwise; it takes effect when the thread is finally resumed.
uint64_t signal_to_deliver(int status) {
  const bool delivers = status >> 16 == 0 && WSTOPSIG(status) != (SIGTRAP | 0x80);
  return delivers ? static_cast<uint64_t>(WSTOPSIG(status)) : 0;
}

}  // namespace

// Runs the thread to the next entry or exit of a call.
bool HijackedThread::run_to_call_stop() {
  uint64_t signal = 0;
  for (;;) {
    if (ptrace(PTRACE_SYSCALL, tid_, nullptr, ptrace_data(signal)) != 0) return false;
    const auto status = next_stop();
    if (!status || is_frozen_) return false;
    if (WSTOPSIG(*status) == (SIGTRAP | 0x80)) return true;
    signal = signal_to_deliver(*status);
  }
}

// Gives the thread our registers, and blocks its signals: each time, as the script may have
// restored the mask.
bool HijackedThread::start(const arch::Registers& registers) {
  if (!write_registers(tid_, registers) || !set_mask(tid_, UINT64_MAX)) return false;
  has_our_registers_ = true;
  static_cast<void>(read_registers(tid_, seen_registers_));
  return true;
}

Result<void, SystemError> HijackedThread::run(const Script& script) {
  const auto gone = [&] {
    ended_ = true;
    return fail(SystemError{ESRCH});
  };
  if (!filters_.empty()) return run_one_by_one(script);
  arch::Registers registers = own_registers_;
  arch::start_script(registers, room_.address, script.first, script.last, script.told,
                     script.descriptor);
  if (!start(registers)) return gone();
  const auto waits_for_us = [&] {
    Address at = 0;
    return memory_.read_value(script.told, at) && at == script.last;
  };
  for (uint64_t signal = 0;;) {
    if (ptrace(PTRACE_CONT, tid_, nullptr, ptrace_data(signal)) != 0) return gone();
    const auto status = next_stop(waits_for_us);
    if (!status) return gone();
    if (is_frozen_) return fail(SystemError{ETIMEDOUT});
    if (*status == 0) break;
    signal = signal_to_deliver(*status);
  }
  if (ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) != 0) return gone();
  for (;;) {
    const auto status = next_stop();
    if (!status) return gone();
    if (*status >> 16 == PTRACE_EVENT_STOP) break;
    if (ptrace(PTRACE_CONT, tid_, nullptr, ptrace_data(signal_to_deliver(*status))) != 0)
      return gone();
  }
  if (!read_registers(tid_, registers)) return gone();
  if (arch::instruction_pointer(registers) - room_.address < room_.original.size()) return {};
  has_our_registers_ = false;
  resumed_itself_ = true;
  if (leave_to_kernel(registers)) write_registers(tid_, registers);
  return fail(SystemError{ETIMEDOUT});
}

Result<void, SystemError> HijackedThread::run_one_by_one(const Script& script) {
  for (Address at = script.first; at != script.last;) {
    arch::ScriptedCall scripted;
    int32_t descriptor = -1;
    if (!memory_.read_value(at, scripted) || !memory_.read_value(script.descriptor, descriptor))
      return fail(SystemError{EFAULT});
    const auto& arguments = scripted.arguments;
    const auto fifth = static_cast<uint64_t>(int64_t{descriptor});
    const bool is_of_descriptor = (scripted.number & arch::kOfDescriptor) != 0;
    const auto made =
        call(scripted.number & ~arch::kOfDescriptor, is_of_descriptor ? fifth : arguments[0],
             arguments[1], arguments[2], arguments[3], fifth, scripted.sixth);
    if (ended_) return fail(made.error());
    scripted.result = made ? *made : static_cast<uint64_t>(-int64_t{made.error().number});
    if (!memory_.write_value(at, scripted)) return fail(SystemError{EFAULT});
    at = made ? scripted.next : script.last;
  }
  return {};
}

Result<uint64_t, SystemError> HijackedThread::call(uint64_t number, uint64_t a, uint64_t b,
                                                   uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
  const Arguments arguments = {a, b, c, d, e, f};
  if (!survives(filters_, seen_by_filters(number, arguments, room_.address)))
    return fail(SystemError{EPERM});
  auto registers = arch::registers_for_call(own_registers_, room_.address, number, arguments);
  const auto gone = [&] {
    ended_ = true;
    return fail(SystemError{ESRCH});
  };
  if (ended_ || resumed_itself_) return fail(SystemError{ESRCH});
  if (is_frozen_) return fail(SystemError{ETIMEDOUT});
  if (!start(registers)) return gone();
  if (!run_to_call_stop() || !run_to_call_stop() || !read_registers(tid_, registers))
    return is_frozen_ ? fail(SystemError{ETIMEDOUT}) : gone();
  const int64_t result = arch::syscall_result(registers);
  if (result < 0 && result >= -4095) return fail(SystemError{static_cast<int>(-result)});
  return static_cast<uint64_t>(result);
}

}  // namespace pinprick::target
