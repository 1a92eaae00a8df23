#include "engine/text/read_permission.h"

#include <fmt/format.h>
#include <linux/seccomp.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>

#include "target/procfs.h"
#include "target/seccomp.h"

namespace pinprick::engine {
namespace {

// Without a filter the kernel says EINVAL; who may not look at filters can see whether there is
// one.
bool filters_allow_reads(pid_t pid, pid_t tid, Address code) {
  const auto filters = target::SeccompFilters::read(tid);
  if (!filters && filters.error().number == EINVAL) return true;
  if (!filters) return target::seccomp_mode(pid, tid) == SECCOMP_MODE_DISABLED;
  const seccomp_data calls[] = {{SYS_gettid, arch::kAuditArchitecture, code, {}},
                                {SYS_process_vm_readv,
                                 arch::kAuditArchitecture,
                                 code,
                                 {static_cast<uint64_t>(tid), code, 1, code, 2, 0}},
                                {SYS_process_vm_readv,
                                 arch::kAuditArchitecture,
                                 code,
                                 {static_cast<uint64_t>(tid), code, 2, code, 3, 0}}};
  return std::all_of(std::begin(calls), std::end(calls), [&](const seccomp_data& call) {
    const uint32_t action = filters->action(call);
    return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_ERRNO;
  });
}

// Before Linux 6.4 this cannot be found out.
bool dispatches_system_calls(pid_t tid) {
  constexpr int kGetConfiguration = 0x4210;  // PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
  struct {
    uint64_t mode, selector, offset, length;
  } configuration = {};
  const auto request = static_cast<__ptrace_request>(kGetConfiguration);
  return ::ptrace(request, tid, sizeof configuration, &configuration) == 0 &&
         configuration.mode != 0;
}

bool has_userfaultfd(pid_t pid) {
  std::error_code error;
  const std::filesystem::directory_iterator files(fmt::format("/proc/{}/fd", pid), error);
  if (error) return true;  // not known
  for (const auto& file : files) {
    const std::string what = std::filesystem::read_symlink(file.path(), error).string();
    if (!error && what.find("[userfaultfd]") != what.npos) return true;
  }
  return false;
}

}  // namespace

bool is_in_harmless_call(const target::StoppedThread& thread) {
  if (!arch::in_system_call(thread.registers)) return false;
  const auto has = [&](size_t argument, const auto& values) {
    const auto value = static_cast<uint32_t>(arch::syscall_argument(thread.registers, argument));
    return std::find(std::begin(values), std::end(values), value) != std::end(values);
  };
  switch (arch::syscall_number(thread.registers)) {
    case SYS_seccomp:
    case SYS_userfaultfd:
      return false;
    case SYS_prctl:
      return !has(0, kFilterOptions);
    case SYS_ioctl:
      return !has(1, kFaultCommands);
    default:
      return true;
  }
}

ReadObstacle obstacle_while_running(pid_t pid) {
  for (const pid_t tid : target::list_threads(pid))
    if (target::seccomp_mode(pid, tid) == SECCOMP_MODE_STRICT) return ReadObstacle::filter;
  return has_userfaultfd(pid) ? ReadObstacle::page_faults : ReadObstacle::none;
}

ReadObstacle obstacle_in_threads(target::Stop& stop, Address code) {
  for (const target::StoppedThread& thread : stop.threads()) {
    if (!filters_allow_reads(stop.pid(), thread.tid, code)) return ReadObstacle::filter;
    if (dispatches_system_calls(thread.tid)) return ReadObstacle::dispatch;
  }
  return ReadObstacle::none;
}

}  // namespace pinprick::engine
