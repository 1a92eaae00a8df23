#include "session/launch.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "arch/code.h"
#include "base/clock.h"
#include "base/fd.h"
#include "image/process.h"
#include "target/memory.h"
#include "target/stop.h"
#include "target/thread_registers.h"

namespace pinprick::session {
namespace {

void* data(long value) {
  return reinterpret_cast<void*>(value);
}

struct Pipe {
  Fd read, write;
};

std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

// Runs between fork and exec. Waits until the parent traces it. If exec fails, writes the errno to
// the other pipe, which exec closes otherwise.
[[noreturn]] void become(const std::vector<std::string>& command, const SignalTreatment& treatment,
                         Pipe traced, const Pipe& error, pid_t parent) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  treatment.adopt();
  restore_descriptor_limit();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  traced.write.reset();
  char go = 0;
  if (getppid() != parent || ::read(traced.read.get(), &go, 1) != 1) _exit(125);
  // If the parent dies while it traces us, we are killed. If it dies after detaching, the program
  // is left in a group stop, which this signal then ends.
  prctl(PR_SET_PDEATHSIG, SIGCONT);
  execvp(arguments[0], arguments.data());
  const int number = errno;
  static_cast<void>(!::write(error.write.get(), &number, sizeof number));
  _exit(125);
}

// The program is killed if we die. Before its entry point it has done nothing, and at the entry
// point there is a breakpoint of ours. A process that runs already is never traced in this way.
bool trace(pid_t pid) {
  return ptrace(PTRACE_SEIZE, pid, nullptr, data(PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC)) == 0;
}

bool wait_for_trap(pid_t pid) {
  for (;;) {
    int status = 0;
    if (waitpid(pid, &status, __WALL) != pid) {
      if (errno == EINTR) continue;
      return false;
    }
    if (!WIFSTOPPED(status)) return false;
    if (WSTOPSIG(status) == SIGTRAP) return true;
    ptrace(PTRACE_CONT, pid, nullptr, data(WSTOPSIG(status)));
  }
}

// The kernel unblocks SIGTRAP in a thread that hits a breakpoint.
bool block_traps_again(pid_t pid) {
  constexpr uint64_t kTraps = uint64_t{1} << (SIGTRAP - 1);
  uint64_t mask = 0;
  if (ptrace(PTRACE_GETSIGMASK, pid, data(sizeof mask), &mask) != 0) return false;
  mask |= kTraps;
  return ptrace(PTRACE_SETSIGMASK, pid, data(sizeof mask), &mask) == 0;
}

// Runs a traced program from its exec to its entry point. If this returns true, the breakpoint is
// removed.
bool run_to_entry(pid_t pid, const target::Memory& memory, const SignalTreatment& treatment) {
  const Address entry = image::auxiliary_value(pid, AT_ENTRY);
  uint8_t original = 0;
  if (entry == 0 || !memory.read_value(entry, original) ||
      !memory.write_value(entry, arch::kBreakpoint))
    return false;
  if (ptrace(PTRACE_CONT, pid, nullptr, nullptr) != 0 || !wait_for_trap(pid)) return false;
  arch::Registers registers;
  if (!target::read_registers(pid, registers) || arch::breakpoint_of(registers) != entry)
    return false;
  arch::set_instruction_pointer(registers, entry);
  return (!treatment.blocks(SIGTRAP) || block_traps_again(pid)) &&
         memory.write_value(entry, original) && target::write_registers(pid, registers);
}

void kill_and_reap(pid_t pid) {
  ::kill(pid, SIGKILL);
  while (waitpid(pid, nullptr, __WALL) < 0 && errno == EINTR) {
  }
}

bool is_64_bit(pid_t pid) {
  uint8_t identity[EI_NIDENT] = {};
  auto fd = open_file("/proc/" + std::to_string(pid) + "/exe", O_RDONLY);
  return fd && read_at(fd->get(), identity, 0) && identity[EI_CLASS] == ELFCLASS64;
}

}  // namespace

SignalTreatment SignalTreatment::current() {
  SignalTreatment now;
  sigprocmask(SIG_SETMASK, nullptr, &now.blocked_);
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action = {};
    now.ignored_[static_cast<size_t>(signal)] =
        sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
  }
  return now;
}

void SignalTreatment::adopt() const {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action = {};
    action.sa_handler = ignored_[static_cast<size_t>(signal)] ? SIG_IGN : SIG_DFL;
    sigaction(signal, &action, nullptr);  // fails for SIGKILL, SIGSTOP and the C library's own
  }
  sigprocmask(SIG_SETMASK, &blocked_, nullptr);
}

Result<Launched, LaunchError> Launched::start(const std::vector<std::string>& command,
                                              const SignalTreatment& treatment) {
  const auto refuse = [&](LaunchError::Cause cause, int error) {
    return fail(LaunchError{cause, command[0], error});
  };
  auto traced = make_pipe();
  auto exec_error = make_pipe();
  if (!traced || !exec_error) return refuse(LaunchError::Cause::cannot_start, errno);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return refuse(LaunchError::Cause::cannot_start, errno);
  if (pid == 0) become(command, treatment, *std::move(traced), *exec_error, parent);
  exec_error->write.reset();

  if (!trace(pid)) {
    const int error = errno;
    kill_and_reap(pid);
    return refuse(LaunchError::Cause::cannot_start, error);
  }
  const char go = 1;
  // The kernel stops the child with SIGTRAP once exec is done.
  if (::write(traced->write.get(), &go, 1) != 1 || !wait_for_trap(pid)) {
    int error = 0;
    const bool told = ::read(exec_error->read.get(), &error, sizeof error) == sizeof error;
    return refuse(told ? LaunchError::Cause::cannot_exec : LaunchError::Cause::ended_early, error);
  }
  if (!is_64_bit(pid)) {
    kill_and_reap(pid);
    return refuse(LaunchError::Cause::not_64_bit, 0);
  }
  auto memory = target::Memory::open(pid);
  if (!memory || !run_to_entry(pid, *memory, treatment)) {
    kill_and_reap(pid);
    return refuse(memory ? LaunchError::Cause::ended_early : LaunchError::Cause::cannot_hold,
                  memory ? 0 : memory.error().number);
  }
  // Detaching with SIGSTOP leaves it in a group stop, which is reported to us as for any child.
  int status = 0;
  if (ptrace(PTRACE_DETACH, pid, nullptr, data(SIGSTOP)) != 0 ||
      waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status)) {
    kill_and_reap(pid);
    return refuse(LaunchError::Cause::cannot_hold, errno);
  }
  return Launched(pid);
}

Launched::Launched(Launched&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), released_(other.released_) {}

Launched::~Launched() {
  if (pid_ != 0 && !released_) kill_and_reap(pid_);
}

void Launched::release() {
  released_ = true;
  ::kill(pid_, SIGCONT);
}

int Launched::wait() {
  constexpr uint64_t kLookAgainNs = 1'000'000;
  while (target::Stop::settle() != 0) sleep_ns(kLookAgainNs);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
  return status;
}

}  // namespace pinprick::session
