#include "target/borrowed_thread.h"

#include <linux/audit.h>
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
#include <utility>

#include "arch/x86_64/borrowed_call.h"
#include "base/clock.h"
#include "target/procfs.h"

namespace pinprick::target {
namespace {

void* data(uint64_t value) {
  return reinterpret_cast<void*>(value);
}

// The restartable sequence the thread is inside of, if any.
std::optional<rseq_cs> active_sequence(const Memory& memory, const StoppedThread& thread) {
  const auto registration = rseq_registration(thread.tid);
  uint64_t descriptor = 0;
  rseq_cs sequence = {};
  if (!registration ||
      !memory.read_value(registration->area + offsetof(struct rseq, rseq_cs), descriptor) ||
      descriptor == 0 || !memory.read_value(descriptor, sequence))
    return std::nullopt;
  const bool inside = thread.registers.rip - sequence.start_ip < sequence.post_commit_offset;
  return inside ? std::optional(sequence) : std::nullopt;
}

// Lower is better.
int reluctance(const StoppedThread& thread, bool in_sequence) {
  if (in_sequence) return 9;
  const auto& registers = thread.registers;
  if (static_cast<int64_t>(registers.orig_rax) < 0) return 0;
  const auto again = restarted(registers);
  if (again.rip == registers.rip) return 1;  // a call that is over
  if (again.rax == registers.orig_rax) return 2;
  return 3;  // restart_syscall: the kernel keeps state about it
}

// Threads, those that mind least first.
struct Candidate {
  std::optional<rseq_cs> sequence;
  StoppedThread* thread = nullptr;
  int reluctance = 0;
};

std::vector<Candidate> candidates(const Memory& memory, std::vector<StoppedThread>& threads) {
  std::vector<Candidate> all;
  for (StoppedThread& thread : threads) {
    if (thread.is_worker()) continue;
    const auto sequence = active_sequence(memory, thread);
    all.push_back({sequence, &thread, reluctance(thread, sequence.has_value())});
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.reluctance < b.reluctance;
  });
  return all;
}

using Arguments = std::array<uint64_t, 6>;

seccomp_data seen_by_filters(uint64_t number, const Arguments& arguments, Address code) {
  constexpr uint64_t kSyscallLength = 2;
  seccomp_data call = {static_cast<int>(number), AUDIT_ARCH_X86_64, code + kSyscallLength, {}};
  std::copy(arguments.begin(), arguments.end(), call.args);
  return call;
}

// A call that is refused with an error does no harm. Nobody knows what a supervisor
// (SECCOMP_RET_USER_NOTIF) would do.
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

// The first of what a loan may ask for that the thread could not survive, or 0. Addresses are
// known only later: call() looks again.
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
  // The way home has to be open: else the thread would go on with all signals blocked.
  const Arguments home = {SIG_SETMASK, code, 0, sizeof(uint64_t)};
  const uint32_t action = filters.action(seen_by_filters(SYS_rt_sigprocmask, home, code));
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

// Suspends the thread's filters, where it has some, until it is let go.
Result<SeccompFilters, AttachError> suspend_filters(pid_t pid, pid_t tid, Address code) {
  const auto refuse = [&](AttachCause cause, int error, const char* detail) {
    return fail(AttachError{cause, pid, tid, error, detail});
  };
  const auto status = read_thread_status(pid, tid);
  if (!status || status->seccomp == SECCOMP_MODE_DISABLED) return SeccompFilters();
  if (status->seccomp == SECCOMP_MODE_STRICT) return refuse(AttachCause::seccomp_deadly, 0, "mmap");
  auto filters = SeccompFilters::read(tid);
  if (!filters) return refuse(AttachCause::seccomp, filters.error().number, "");
  if (const int number = deadly_call(*filters, code); number != 0)
    return refuse(AttachCause::seccomp_deadly, 0, name_of_call(number));
  if (ptrace(PTRACE_SETOPTIONS, tid, nullptr,
             data(PTRACE_O_TRACESYSGOOD | PTRACE_O_SUSPEND_SECCOMP)) != 0)
    return refuse(AttachCause::seccomp, errno, "");
  return *std::move(filters);
}

bool set_mask(pid_t tid, uint64_t mask) {
  return ptrace(PTRACE_SETSIGMASK, tid, data(sizeof mask), &mask) == 0;
}

// False also for a thread that is gone.
bool has_filter(pid_t pid, pid_t tid) {
  const auto status = read_thread_status(pid, tid);
  return status && status->seccomp != SECCOMP_MODE_DISABLED;
}

}  // namespace

Result<void, AttachError> can_be_borrowed_from(pid_t pid) {
  const auto tids = list_threads(pid);
  if (tids.empty()) return fail(AttachError{AttachCause::no_such_process, pid, 0, 0, {}});
  if (!std::all_of(tids.begin(), tids.end(), [&](pid_t tid) { return has_filter(pid, tid); }))
    return {};
  auto stop = Stop::all_threads(pid);
  if (!stop) return fail(stop.error());
  Result<void, AttachError> able;
  for (const StoppedThread& thread : stop->threads()) {
    // To let it go ends the suspension.
    auto filters = suspend_filters(pid, thread.tid, thread.registers.rip);
    if (filters) return {};
    able = fail(filters.error());
  }
  return able;
}

std::optional<RseqRegistration> rseq_registration(pid_t tid) {
  __ptrace_rseq_configuration configuration = {};
  const long size =
      ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, data(sizeof configuration), &configuration);
  if (size < static_cast<long>(sizeof configuration) || configuration.rseq_abi_pointer == 0)
    return std::nullopt;
  return RseqRegistration{configuration.rseq_abi_pointer, configuration.signature,
                          configuration.rseq_abi_size};
}

Result<BorrowedThread, AttachError> BorrowedThread::borrow(Stop& stop, const Memory& memory,
                                                           Room room) {
  const pid_t pid = stop.pid();
  const auto exited = [&] { return fail(AttachError{AttachCause::exited, pid, 0, 0, {}}); };
  auto filters = Result<SeccompFilters, AttachError>(exited());
  Candidate chosen;
  uint64_t mask = 0;
  for (const Candidate& candidate : candidates(memory, stop.threads())) {
    auto suspended = suspend_filters(pid, candidate.thread->tid, room.address);
    // One that has ended by now says nothing about the others.
    if (ptrace(PTRACE_GETSIGMASK, candidate.thread->tid, data(sizeof mask), &mask) != 0) continue;
    filters = std::move(suspended);
    chosen = candidate;
    if (filters) break;
  }
  if (!filters) return fail(filters.error());
  // What the kernel does to a thread it interrupts there. Without it the thread would finish its
  // sequence although others may have run in between.
  if (chosen.sequence) stop.move(*chosen.thread, chosen.sequence->abort_ip);
  const user_regs_struct home = chosen.thread->registers;
  const pid_t tid = chosen.thread->tid;

  const auto code = arch::borrowed_call(room.address, restarted(home), mask);
  if (code.size() > room.original.size())
    return fail(AttachError{AttachCause::no_room, pid, 0, 0, {}});
  if (auto written = memory.write(room.address, code); !written)
    return fail(AttachError{AttachCause::memory_refused, pid, 0, written.error().number, {}});
  return BorrowedThread(stop, memory, std::move(room), *std::move(filters), tid, home, mask);
}

BorrowedThread::BorrowedThread(Stop& stop, const Memory& memory, Room room, SeccompFilters filters,
                               pid_t tid, const user_regs_struct& home, uint64_t mask)
    : stop_(stop),
      memory_(memory),
      room_(std::move(room)),
      filters_(std::move(filters)),
      tid_(tid),
      home_(home),
      mask_(mask) {}

BorrowedThread::BorrowedThread(BorrowedThread&& other) noexcept
    : stop_(other.stop_),
      memory_(other.memory_),
      room_(std::move(other.room_)),
      filters_(std::move(other.filters_)),
      tid_(other.tid_),
      home_(other.home_),
      mask_(other.mask_),
      holds_(std::exchange(other.holds_, false)),
      away_(other.away_),
      ended_(other.ended_) {}

BorrowedThread::~BorrowedThread() {
  if (!holds_) return;
  if (away_) {
    set_mask(tid_, mask_);
    ptrace(PTRACE_SETREGS, tid_, nullptr, &home_);
  }
  static_cast<void>(memory_.write(room_.address, room_.original));
  ptrace(PTRACE_SETOPTIONS, tid_, nullptr, data(PTRACE_O_TRACESYSGOOD));
}

// Runs the thread to the next entry or exit of a call. Most are over sooner than a processor wakes
// up that has gone to sleep.
bool BorrowedThread::run_to_call_stop() {
  uint64_t signal = 0;
  for (;;) {
    if (ptrace(PTRACE_SYSCALL, tid_, nullptr, data(signal)) != 0) return false;
    int status = 0;
    pid_t waited = 0;
    constexpr int kAttempts = 200;
    constexpr uint64_t kPauseNs = 50'000;
    for (int attempt = 0; waited == 0; ++attempt) {
      waited = waitpid(tid_, &status, __WALL | WNOHANG);
      if (waited != 0) break;
      if (attempt < kAttempts) {
        sched_yield();
        continue;
      }
      // The end of a process's first thread is told only after the ends of all others have been
      // asked for, and nobody does that meanwhile.
      const auto now = read_thread_status(stop_.pid(), tid_);
      if (!now || now->ending) return false;
      sleep_ns(kPauseNs);
    }
    if (waited != tid_ || !WIFSTOPPED(status)) return false;
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) return true;
    // A group stop begins or ends; it takes effect when the thread is resumed for good. The signal
    // that begins one cannot be blocked, and would be lost if we kept it.
    const bool delivers = status >> 16 == 0;
    signal = delivers && WSTOPSIG(status) == SIGSTOP ? SIGSTOP : 0;
  }
}

Result<uint64_t, SystemError> BorrowedThread::call(uint64_t number, uint64_t a, uint64_t b,
                                                   uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
  if (!survives(filters_, seen_by_filters(number, {a, b, c, d, e, f}, room_.address)))
    return fail(SystemError{EPERM});
  user_regs_struct registers = home_;
  registers.rip = room_.address;
  registers.orig_rax = static_cast<uint64_t>(-1);
  registers.rax = number;
  registers.rdi = a;
  registers.rsi = b;
  registers.rdx = c;
  registers.r10 = d;
  registers.r8 = e;
  registers.r9 = f;
  const auto gone = [&] {
    ended_ = true;
    return fail(SystemError{ESRCH});
  };
  if (ptrace(PTRACE_SETREGS, tid_, nullptr, &registers) != 0) return gone();
  if (!away_ && !set_mask(tid_, UINT64_MAX)) return gone();
  away_ = true;
  if (!run_to_call_stop() || !run_to_call_stop() ||
      ptrace(PTRACE_GETREGS, tid_, nullptr, &registers) != 0)
    return gone();
  const auto result = static_cast<int64_t>(registers.rax);
  if (result < 0 && result >= -4095) return fail(SystemError{static_cast<int>(-result)});
  return registers.rax;
}

}  // namespace pinprick::target
