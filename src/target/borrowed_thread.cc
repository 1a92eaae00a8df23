#include "target/borrowed_thread.h"

#include <linux/rseq.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "arch/x86_64/borrowed_call.h"
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

bool set_mask(pid_t tid, uint64_t mask) {
  return ptrace(PTRACE_SETSIGMASK, tid, data(sizeof mask), &mask) == 0;
}

}  // namespace

std::optional<RseqRegistration> rseq_registration(pid_t tid) {
  __ptrace_rseq_configuration configuration = {};
  const long size =
      ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid, data(sizeof configuration), &configuration);
  if (size < static_cast<long>(sizeof configuration) || configuration.rseq_abi_pointer == 0)
    return std::nullopt;
  return RseqRegistration{configuration.rseq_abi_pointer, configuration.signature};
}

Result<BorrowedThread, AttachError> BorrowedThread::borrow(Stop& stop, const Memory& memory,
                                                           Room room) {
  const pid_t pid = stop.pid();
  StoppedThread* best = nullptr;
  std::optional<rseq_cs> sequence;
  int least = 0;
  for (StoppedThread& thread : stop.threads()) {
    const auto active = active_sequence(memory, thread);
    const int here = reluctance(thread, active.has_value());
    if (best != nullptr && here >= least) continue;
    best = &thread;
    sequence = active;
    least = here;
  }
  if (best == nullptr) return fail(AttachError{AttachCause::exited, pid, 0, 0, {}});
  // What the kernel does to a thread it interrupts there. Without it the thread would finish its
  // sequence although others may have run in between.
  if (sequence) stop.move(*best, sequence->abort_ip);
  const user_regs_struct home = best->registers;
  const pid_t tid = best->tid;

  const auto status = read_thread_status(pid, tid);
  if (status && status->seccomp != 0 &&
      ptrace(PTRACE_SETOPTIONS, tid, nullptr,
             data(PTRACE_O_TRACESYSGOOD | PTRACE_O_SUSPEND_SECCOMP)) != 0)
    return fail(AttachError{AttachCause::seccomp, pid, tid, errno, {}});
  uint64_t mask = 0;
  if (ptrace(PTRACE_GETSIGMASK, tid, data(sizeof mask), &mask) != 0)
    return fail(AttachError{AttachCause::exited, pid, tid, errno, {}});

  const auto code = arch::borrowed_call(room.address, restarted(home), mask);
  if (code.size() > room.original.size())
    return fail(AttachError{AttachCause::no_room, pid, 0, 0, {}});
  if (auto written = memory.write(room.address, code); !written)
    return fail(AttachError{AttachCause::memory_refused, pid, 0, written.error().number, {}});
  return BorrowedThread(stop, memory, std::move(room), tid, home, mask);
}

BorrowedThread::BorrowedThread(Stop& stop, const Memory& memory, Room room, pid_t tid,
                               const user_regs_struct& home, uint64_t mask)
    : stop_(stop), memory_(memory), room_(std::move(room)), tid_(tid), home_(home), mask_(mask) {}

BorrowedThread::BorrowedThread(BorrowedThread&& other) noexcept
    : stop_(other.stop_),
      memory_(other.memory_),
      room_(std::move(other.room_)),
      tid_(other.tid_),
      home_(other.home_),
      mask_(other.mask_),
      holds_(std::exchange(other.holds_, false)),
      away_(other.away_) {}

BorrowedThread::~BorrowedThread() {
  if (!holds_) return;
  if (away_) {
    set_mask(tid_, mask_);
    ptrace(PTRACE_SETREGS, tid_, nullptr, &home_);
  }
  static_cast<void>(memory_.write(room_.address, room_.original));
  ptrace(PTRACE_SETOPTIONS, tid_, nullptr, data(PTRACE_O_TRACESYSGOOD));
}

// Runs the thread to the next entry or exit of a call.
bool BorrowedThread::run_to_call_stop() {
  uint64_t signal = 0;
  for (;;) {
    if (ptrace(PTRACE_SYSCALL, tid_, nullptr, data(signal)) != 0) return false;
    int status = 0;
    pid_t waited;
    do {
      waited = waitpid(tid_, &status, __WALL);
    } while (waited < 0 && errno == EINTR);
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
  const auto gone = [] { return fail(SystemError{ESRCH}); };
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
