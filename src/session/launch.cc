#include "session/launch.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "arch/code.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/process_folder.h"
#include "image/elf/elf_file.h"
#include "image/elf/machine.h"
#include "image/loader.h"
#include "image/maps.h"
#include "image/process.h"
#include "target/loader_walk.h"
#include "target/memory.h"
#include "target/ptrace_data.h"
#include "target/stop.h"
#include "target/thread_registers.h"

namespace pinprick::session {
namespace {

// Has the process ended, and was not waited for yet? A stop of a thread is no end.
bool has_ended(pid_t pid) {
  siginfo_t seen = {};
  return ::waitid(P_PID, static_cast<id_t>(pid), &seen, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         (seen.si_pid == pid &&
          (seen.si_code == CLD_EXITED || seen.si_code == CLD_KILLED || seen.si_code == CLD_DUMPED));
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

// The program is killed if we die. While it is traced only its loader runs, and there may be a
// breakpoint of ours. A process that runs already is never traced in this way.
bool trace(pid_t pid) {
  return ptrace(PTRACE_SEIZE, pid, nullptr,
                target::ptrace_data(PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC |
                                    PTRACE_O_TRACESYSGOOD)) == 0;
}

// Waits until the child stops. Returns the signal, and the event of ptrace above it; nullopt if it
// has ended, with the status in `ended`, or cannot be waited for.
std::optional<int> wait_for_stop(pid_t pid, int options, std::optional<int>& ended) {
  int status = 0;
  while (waitpid(pid, &status, options) != pid)
    if (errno != EINTR) return std::nullopt;
  if (WIFSTOPPED(status)) return status >> 8;
  ended = status;
  return std::nullopt;
}

// Waits for the end of an exec, or a breakpoint. Returns false if the child has ended.
bool wait_for_trap(pid_t pid, std::optional<int>& ended) {
  for (;;) {
    const auto stop = wait_for_stop(pid, __WALL, ended);
    if (!stop) return false;
    const int signal = *stop & 0xff;
    const bool is_group_stop = *stop >> 8 == PTRACE_EVENT_STOP;
    if (signal == SIGTRAP && !is_group_stop) return true;
    ptrace(PTRACE_CONT, pid, nullptr, target::ptrace_data(is_group_stop ? 0 : signal));
  }
}

// The kernel unblocks SIGTRAP in a thread that hits a breakpoint.
bool block_traps_again(pid_t pid) {
  constexpr uint64_t kTraps = uint64_t{1} << (SIGTRAP - 1);
  uint64_t mask = 0;
  if (ptrace(PTRACE_GETSIGMASK, pid, target::ptrace_data(sizeof mask), &mask) != 0) return false;
  mask |= kTraps;
  return ptrace(PTRACE_SETSIGMASK, pid, target::ptrace_data(sizeof mask), &mask) == 0;
}

// Runs a traced program to an address that it executes once. If this returns true, the breakpoint
// is removed.
bool run_to(pid_t pid, Address address, const target::Memory& memory,
            const SignalTreatment& treatment, std::optional<int>& ended) {
  uint8_t original = 0;
  if (address == 0 || !memory.read_value(address, original) ||
      !memory.write_value(address, arch::kBreakpoint))
    return false;
  if (ptrace(PTRACE_CONT, pid, nullptr, nullptr) != 0 || !wait_for_trap(pid, ended)) return false;
  arch::Registers registers;
  if (!target::read_registers(pid, registers) || arch::breakpoint_of(registers) != address)
    return false;
  arch::set_instruction_pointer(registers, address);
  return (!treatment.blocks(SIGTRAP) || block_traps_again(pid)) &&
         memory.write_value(address, original) && target::write_registers(pid, registers);
}

// Returns the function that the loader calls for debuggers, by the name that it has in glibc and
// musl; 0 if there is none. musl tells of it only when it calls it.
Address function_for_debuggers(pid_t pid, const image::MemoryReader& reader) {
  const Address base = image::loader_base(pid, reader);
  const auto maps = image::read_maps(pid);
  if (!maps) return 0;
  for (const image::Mapping& mapping : *maps) {
    if (!mapping.range.contains(base)) continue;
    const auto loader = image::ElfFile::open(process_folder(pid) + "/root" + mapping.path);
    if (!loader) return 0;
    for (const image::Symbol& symbol : loader->dynamic_symbols())
      if (symbol.name == "_dl_debug_state") return base + symbol.address;
  }
  return 0;
}

// Runs a traced program from its exec until it has to be held: the loader has mapped all libraries,
// and what it runs next may be code of theirs.
//
// Before that, stubs would lack what they rely on: with glibc the thread pointer and the rseq area
// come last before the relocations. With musl, which has no IFUNCs, the call of the function for
// debuggers comes after the relocations and before the constructors. `relocates_later` tells these
// apart. With an unknown loader it is the program's entry point. glibc's loader, if it is the
// command and is to run a static program, executes that.
enum class Held : uint8_t { yes, executed, no };
Held run_to_hold(pid_t pid, const target::Memory& memory, const SignalTreatment& treatment,
                 bool& relocates_later, std::optional<int>& ended) {
  using Event = target::LoaderWalk::Event;
  const Range loader = target::loader_code(pid);
  target::LoaderWalk walk(pid, loader);
  if (!walk.first_stop()) return Held::no;
  relocates_later = false;
  if (loader.empty()) return Held::yes;  // a static program, at its first instruction
  Event event = walk.next().event;
  while (event == Event::code_mapped || event == Event::object_mapped) event = walk.next().event;
  if (event == Event::executed) return Held::executed;
  if (event != Event::thread_ready) return Held::no;
  relocates_later = image::loader_notifies_at(pid, memory.reader()).has_value();
  if (relocates_later) return Held::yes;
  const Address notifies = function_for_debuggers(pid, memory.reader());
  return run_to(pid, notifies != 0 ? notifies : image::AuxiliaryVector::read(pid).value(AT_ENTRY),
                memory, treatment, ended)
             ? Held::yes
             : Held::no;
}

// Kills a child of ours when a descriptor becomes readable. Meanwhile we wait for the child, which
// may be in its loader for any time, as a library is on a server that does not answer.
class InterruptedChild {
 public:
  InterruptedChild(pid_t pid, int interrupts)
      : child_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))),
        done_(::eventfd(0, EFD_CLOEXEC)),
        thread_([this, interrupts] { watch(interrupts); }) {}
  InterruptedChild(const InterruptedChild&) = delete;
  InterruptedChild& operator=(const InterruptedChild&) = delete;
  ~InterruptedChild() {
    ::eventfd_write(done_.get(), 1);
    thread_.join();
  }
  bool is_killed() const { return is_killed_; }

 private:
  void watch(int interrupts) {
    std::array<pollfd, 2> descriptors = {pollfd{done_.get(), POLLIN, 0},
                                         pollfd{interrupts, POLLIN, 0}};
    while (::poll(descriptors.data(), descriptors.size(), -1) < 0 && errno == EINTR) {
    }
    if (descriptors[0].revents != 0 || descriptors[1].revents == 0) return;
    is_killed_ = true;
    ::syscall(SYS_pidfd_send_signal, child_.get(), SIGKILL, nullptr, 0);
  }

  const Fd child_, done_;
  std::atomic<bool> is_killed_ = false;
  std::thread thread_;
};

// From a stop of ptrace to a group stop, which is reported to us as for any child.
bool hold(pid_t pid, std::optional<int>& ended) {
  return ptrace(PTRACE_DETACH, pid, nullptr, target::ptrace_data(SIGSTOP)) == 0 &&
         wait_for_stop(pid, WUNTRACED, ended);
}

void kill_and_reap(pid_t pid) {
  // If a wait has already reaped it, its number may be another process's by now.
  siginfo_t ended{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0)
    return;
  ::kill(pid, SIGKILL);
  while (waitpid(pid, nullptr, __WALL) < 0 && errno == EINTR) {
  }
}

// The file that execvp() executes; the name itself if there is none.
std::string found_in_path(const std::string& name) {
  if (name.find('/') != name.npos) return name;
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/bin:/usr/bin";
  while (true) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    std::string file = folder.empty() ? name : std::string(folder) + "/" + name;
    struct stat there = {};
    if (::stat(file.c_str(), &there) == 0 && S_ISREG(there.st_mode) &&
        ::access(file.c_str(), X_OK) == 0)
      return file;
    if (folder.size() == rest.size()) return name;
    rest.remove_prefix(folder.size() + 1);
  }
}

// The machine of the program that a child runs.
Result<image::Machine, SystemError> machine_of_process(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/exe";
  if (auto fd = open_file(path, O_RDONLY); !fd) return fail(fd.error());
  return image::machine_of_file(path).value_or(image::Machine{});
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
                                              const SignalTreatment& treatment, int interrupts) {
  std::optional<InterruptedChild> child;
  std::optional<int> ended;
  const auto refuse = [&](LaunchError::Cause cause, int error) {
    const bool is_interrupted = child && child->is_killed();
    return fail(LaunchError{is_interrupted ? LaunchError::Cause::interrupted : cause, command[0],
                            is_interrupted ? 0 : error});
  };
  const auto foreign = [&](image::Machine machine) {
    return fail(LaunchError{LaunchError::Cause::not_x86_64, command[0], 0, machine});
  };
  // The kernel may run it nevertheless, in an emulator (binfmt_misc), whose functions are not those
  // that are meant.
  const auto meant = image::machine_of_file(found_in_path(command[0]));
  if (meant && !meant->is_ours()) return foreign(*meant);
  auto traced = make_pipe();
  auto exec_error = make_pipe();
  if (!traced || !exec_error) return refuse(LaunchError::Cause::cannot_start, errno);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return refuse(LaunchError::Cause::cannot_start, errno);
  if (pid == 0) become(command, treatment, *std::move(traced), *exec_error, parent);
  exec_error->write.reset();
  child.emplace(pid, interrupts);

  if (!trace(pid)) {
    const int error = errno;
    kill_and_reap(pid);
    return refuse(LaunchError::Cause::cannot_start, error);
  }
  const char go = 1;
  // The kernel stops the child with SIGTRAP once exec is done.
  if (::write(traced->write.get(), &go, 1) != 1 || !wait_for_trap(pid, ended)) {
    int error = 0;
    const bool told = ::read(exec_error->read.get(), &error, sizeof error) == sizeof error;
    return refuse(told ? LaunchError::Cause::cannot_exec : LaunchError::Cause::ended_early, error);
  }
  bool relocates_later = false;
  for (Held held = Held::executed; held == Held::executed;) {
    const auto machine = machine_of_process(pid);
    if (!machine || !machine->is_ours()) {
      kill_and_reap(pid);
      if (machine) return foreign(*machine);
      return refuse(LaunchError::Cause::unreadable, machine.error().number);
    }
    const auto memory = target::Memory::open(pid);
    held = memory ? run_to_hold(pid, *memory, treatment, relocates_later, ended) : Held::no;
    if (held != Held::no) continue;
    kill_and_reap(pid);
    return refuse(memory ? LaunchError::Cause::ended_early : LaunchError::Cause::cannot_hold,
                  memory ? 0 : memory.error().number);
  }
  if (!hold(pid, ended)) {
    const int error = errno;
    kill_and_reap(pid);
    return refuse(LaunchError::Cause::cannot_hold, error);
  }
  return Launched(pid, treatment, interrupts, relocates_later);
}

bool Launched::relocate() {
  relocates_later_ = false;
  const InterruptedChild child(pid_, interrupts_);
  const auto memory = target::Memory::open(pid_);
  if (!memory || !trace(pid_)) return false;
  ::kill(pid_, SIGCONT);
  const auto notifies = image::loader_notifies_at(pid_, memory->reader());
  const bool is_held = wait_for_stop(pid_, __WALL, ended_) && notifies &&
                       run_to(pid_, *notifies, *memory, treatment_, ended_) && hold(pid_, ended_);
  is_interrupted_ = child.is_killed();
  return is_held;
}

Launched::Launched(Launched&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      treatment_(other.treatment_),
      interrupts_(other.interrupts_),
      relocates_later_(other.relocates_later_),
      is_interrupted_(other.is_interrupted_),
      released_(other.released_),
      ended_(other.ended_) {}

Launched::~Launched() {
  if (pid_ != 0 && !released_ && !ended_) kill_and_reap(pid_);
}

void Launched::release() {
  released_ = true;
  if (!ended_) ::kill(pid_, SIGCONT);
}

int Launched::wait() {
  // The command may wait for a child of which we still have to let a thread go, or see the end.
  constexpr uint64_t kLookAgainNs = 1'000'000;
  int status = ended_.value_or(0);
  for (bool is_over = ended_.has_value(); !is_over;) {
    target::Stop::settle();
    // A stop of a thread that we still trace is for settle(). waitpid() would take it for the end.
    if (target::Stop::keeps_any() && !has_ended(pid_)) {
      sleep_ns(kLookAgainNs);
      continue;
    }
    const pid_t waited = waitpid(pid_, &status, 0);
    is_over = waited > 0 || (waited < 0 && errno != EINTR);
  }
  pid_ = 0;
  return status;
}

}  // namespace pinprick::session
