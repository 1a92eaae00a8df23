#include "child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "base/clock.h"

namespace pinprick::bench {
namespace {

struct Pipe {
  Fd reading;
  Fd writing;
};

std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

struct Ends {
  int input, output, executed;
};

// Runs between fork and exec.
[[noreturn]] void become(const std::vector<char*>& arguments, std::optional<int> cpu,
                         const Ends& ends, pid_t parent) {
  // In a process group of its own, so that Ctrl-C only reaches us; we end the child when it is
  // safe.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(EXIT_FAILURE);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  if (cpu) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(*cpu, &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  ::dup2(ends.input, STDIN_FILENO);
  ::dup2(ends.output, STDOUT_FILENO);
  const uint64_t now = monotonic_ns();
  static_cast<void>(!::write(ends.executed, &now, sizeof now));
  ::execvp(arguments[0], arguments.data());
  ::_exit(EXIT_FAILURE);
}

}  // namespace

Result<Child, cli::Message> Child::start(const std::vector<std::string>& command,
                                         std::optional<int> cpu, const Interrupts& interrupts) {
  auto to_child = make_pipe();
  auto from_child = make_pipe();
  auto executed = make_pipe();
  if (!to_child || !from_child || !executed) return fail(cli::Message{"pipe", "no pipe to be had"});
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const Ends ends = {to_child->reading.get(), from_child->writing.get(), executed->writing.get()};
  // Not fork(): the execution would begin by giving back a copy of our memory. What the child calls
  // are system calls, and it changes nothing of ours.
  // NOLINTBEGIN(clang-analyzer-unix.Vfork,clang-analyzer-security.insecureAPI.vfork)
  const pid_t pid = ::vfork();
  if (pid < 0) return fail(cli::Message{"fork", fmt::format("cannot start {}", command[0])});
  if (pid == 0) become(arguments, cpu, ends, parent);
  // NOLINTEND(clang-analyzer-unix.Vfork,clang-analyzer-security.insecureAPI.vfork)
  executed->writing.reset();
  Child child(pid, command[0], std::move(to_child->writing), std::move(from_child->reading),
              interrupts);
  if (::read(executed->reading.get(), &child.executed_ns_, sizeof child.executed_ns_) !=
      sizeof child.executed_ns_)
    return fail(child.ended());
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      program_(std::move(other.program_)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      pending_(std::move(other.pending_)),
      executed_ns_(other.executed_ns_),
      interrupts_(other.interrupts_) {}

Child::~Child() {
  if (pid_ == 0) return;
  // It was not waited for yet, so the PID is still the child's.
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

cli::Message Child::ended() const {
  return {"child_ended", fmt::format("{} could not be started, or ended early", program_)};
}

Result<void, cli::Message> Child::write_line(std::string line) {
  line += '\n';
  // Lines are short enough to be written to a pipe in one piece.
  if (::write(input_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return fail(ended());
  return {};
}

Result<std::optional<std::string>, cli::Message> Child::read_line() {
  for (;;) {
    if (const size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return std::optional(std::move(line));
    }
    if (auto readable = interrupts_->wait_readable(output_.get()); !readable)
      return fail(readable.error());
    char bytes[4096];
    const ssize_t n = ::read(output_.get(), bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return std::optional<std::string>();
    pending_.append(bytes, static_cast<size_t>(n));
  }
}

Result<std::string, cli::Message> Child::read_line_with(std::string_view text) {
  for (;;) {
    auto line = read_line();
    if (!line) return fail(line.error());
    if (!*line) return fail(ended());
    if ((*line)->find(text) != std::string::npos) return *std::move(*line);
  }
}

bool is_installed(const std::string& program) {
  const char* path = ::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0) return true;
  return false;
}

std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  return cpus;
}

}  // namespace pinprick::bench
