#include "survive/killing.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/clock.h"

namespace pinprick::survive {
namespace {

void* data(uint64_t value) {
  return reinterpret_cast<void*>(value);
}

std::string text_at(pid_t pid, uint64_t address) {
  char text[256] = {};
  iovec local = {text, sizeof text - 1};
  iovec remote = {data(address), sizeof text - 1};
  // The string may end before the page does, or the page before the string.
  if (::process_vm_readv(pid, &local, 1, &remote, 1, 0) <= 0) {
    local.iov_len = remote.iov_len = 4096 - address % 4096;
    if (local.iov_len >= sizeof text || ::process_vm_readv(pid, &local, 1, &remote, 1, 0) <= 0)
      return "";
  }
  return text;
}

// Does a run leave traces from this call on? It makes a session file, opens one for writing, or
// starts a program.
bool leaves_traces(pid_t pid, const __ptrace_syscall_info& info) {
  if (info.entry.nr == SYS_vfork || info.entry.nr == SYS_clone || info.entry.nr == SYS_clone3)
    return true;
  if (info.entry.nr != SYS_openat || (info.entry.args[2] & O_ACCMODE) != O_RDWR) return false;
  std::string path = text_at(pid, info.entry.args[1]);
  // A file that it has looked at before it opens it.
  const std::string_view self = "/proc/self/";
  if (path.starts_with(self)) {
    std::error_code none;
    const std::string rest = path.substr(self.size());
    path = std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/" + rest, none);
  }
  return path.find(".session") != path.npos || (info.entry.args[2] & O_TMPFILE) == O_TMPFILE;
}

std::string describe(const __ptrace_syscall_info& entry, bool is_entry) {
  std::string text = is_entry ? "entry of call " : "exit of call ";
  text += std::to_string(entry.entry.nr) + "(";
  for (int i = 0; i < 4; ++i) {
    char number[32];
    std::snprintf(number, sizeof number, "%s0x%llx", i == 0 ? "" : ", ",
                  static_cast<unsigned long long>(entry.entry.args[i]));
    text += number;
  }
  return text + ")";
}

KillReport run_traced(const Command& command, int stop, pid_t victim,
                      const std::function<void(uint64_t, const uint64_t*)>& visit) {
  KillReport report;
  Program program(command, true);
  program.close_stdin();
  const pid_t pid = program.pid();
  __ptrace_syscall_info call = {};  // the present call
  bool counting = false;
  bool prepared = false;
  int signal = 0;
  for (;;) {
    int status = 0;
    if (::waitpid(pid, &status, __WALL) != pid) {
      if (errno == EINTR) continue;
      break;
    }
    if (!WIFSTOPPED(status)) {
      report.ending.status = status;
      program.forget();
      break;
    }
    signal = 0;
    if (!prepared) {
      ::ptrace(PTRACE_SETOPTIONS, pid, nullptr, data(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
      prepared = true;
    } else if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
      __ptrace_syscall_info info = {};
      ::ptrace(PTRACE_GET_SYSCALL_INFO, pid, data(sizeof info), &info);
      const bool is_entry = info.op == PTRACE_SYSCALL_INFO_ENTRY;
      if (is_entry) call = info;
      if (is_entry && visit)
        visit(info.entry.nr, reinterpret_cast<const uint64_t*>(info.entry.args));
      if (is_entry && !counting) counting = leaves_traces(pid, info);
      if (counting && !report.killed) {
        if (++report.stops == stop) {
          report.killed = true;
          report.where = describe(call, is_entry);
          ::kill(victim != 0 ? victim : pid, SIGKILL);
          if (victim == 0) continue;
        }
      }
    } else if (status >> 16 == 0) {
      signal = WSTOPSIG(status);
    }
    ::ptrace(PTRACE_SYSCALL, pid, nullptr, data(static_cast<uint64_t>(signal)));
  }
  report.output = program.rest();
  return report;
}

}  // namespace

KillReport kill_at_stop(const Command& command, int stop, pid_t victim) {
  return run_traced(command, stop, victim, nullptr);
}

KillReport visit_calls(const Command& command,
                       const std::function<void(uint64_t, const uint64_t*)>& visit) {
  return run_traced(command, 0, 0, visit);
}

KillReport kill_after(const Command& command, uint64_t nanoseconds) {
  KillReport report;
  const uint64_t begin = monotonic_ns();
  Program program(command);
  const uint64_t until = begin + nanoseconds;
  const timespec at = {static_cast<time_t>(until / 1'000'000'000),
                       static_cast<long>(until % 1'000'000'000)};
  // Waits for nothing, as the moment of the kill is what is tested.
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) == EINTR) {
  }
  program.kill(SIGKILL);
  report.ending = program.wait();
  report.killed = report.ending.killed_by(SIGKILL);
  report.where = "after " + std::to_string(nanoseconds / 1000) + " us";
  report.output = program.rest();
  return report;
}

}  // namespace pinprick::survive
