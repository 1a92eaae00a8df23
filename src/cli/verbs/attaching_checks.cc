#include "cli/verbs/attaching_checks.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "cli/verbs/check_rows.h"
#include "target/memory.h"

namespace pinprick::cli {
namespace {

// May this process attach to those of other users, as far as the kernel's own rules go?
bool may_trace_others() {
  const auto status = read_file("/proc/self/status");
  constexpr std::string_view kEffective = "\nCapEff:";
  const size_t at = status ? status->find(kEffective) : std::string::npos;
  if (at == std::string::npos) return ::geteuid() == 0;
  const uint64_t effective = std::strtoull(status->c_str() + at + kEffective.size(), nullptr, 16);
  return (effective >> CAP_SYS_PTRACE & 1) != 0;
}

}  // namespace

CheckRow check_attaching() {
  const pid_t child = ::fork();
  if (child < 0)  // return early: kill(-1) would kill every process that we may kill
    return check::no_child(errno);
  if (child == 0) {
    for (;;) ::pause();
  }
  const auto end = [&](CheckRow row) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, __WALL);
    return row;
  };
  if (ptrace(PTRACE_SEIZE, child, nullptr, nullptr) != 0) return end(check::ptrace_refused(errno));
  auto memory = target::Memory::open(child);
  const auto code = reinterpret_cast<Address>(&::getpid);  // text of libc, not writable
  uint8_t byte = 0;
  if (!memory || !memory->read_value(code, byte) || !memory->write_value(code, byte))
    return end(check::text_not_writable());
  return end(check::attaching_works());
}

CheckRow check_ptrace_scope() {
  const auto text = read_file("/proc/sys/kernel/yama/ptrace_scope");
  const auto scope = text ? std::optional(std::strtol(text->c_str(), nullptr, 10)) : std::nullopt;
  return check::ptrace_scope(scope, ::geteuid() == 0);
}

CheckRow check_processes(const VisibleProcesses& visible) {
  if (::access("/proc/self/status", F_OK) != 0) return check::no_proc();
  const auto mounts = read_file("/proc/self/mounts");
  return check::processes({visible.probeable.size(), visible.others,
                           mounts && check::hides_processes(*mounts), may_trace_others(),
                           ::geteuid() == 0});
}

}  // namespace pinprick::cli
