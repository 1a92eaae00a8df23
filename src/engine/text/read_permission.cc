#include "engine/text/read_permission.h"

#include <fmt/format.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <string>

#include "target/procfs.h"
#include "target/seccomp.h"

namespace pinprick::engine {
namespace {

enum class MayRefuse : bool { no, yes };

// Do the thread's filters let these calls through, or refuse them without doing harm? Without a
// filter the kernel says EINVAL; who may not look at filters can see whether there is one.
bool filters_allow(pid_t pid, pid_t tid, std::span<const seccomp_data> calls, MayRefuse may) {
  const auto filters = target::SeccompFilters::read(tid);
  if (!filters && filters.error().number == EINVAL) return true;
  if (!filters) return target::seccomp_mode(pid, tid) == SECCOMP_MODE_DISABLED;
  return std::all_of(calls.begin(), calls.end(), [&](const seccomp_data& call) {
    const uint32_t action = filters->action(call);
    return action == SECCOMP_RET_ALLOW || (may == MayRefuse::yes && action == SECCOMP_RET_ERRNO);
  });
}

seccomp_data reading(pid_t tid, Address code, uint64_t here, uint64_t there) {
  return {SYS_process_vm_readv,
          arch::kAuditArchitecture,
          code,
          {static_cast<uint64_t>(tid), code, here, code, there, 0}};
}

bool filters_allow_reads(pid_t pid, pid_t tid, Address code) {
  const seccomp_data calls[] = {{SYS_gettid, arch::kAuditArchitecture, code, {}},
                                reading(tid, code, 1, 2),
                                reading(tid, code, 2, 3)};
  return filters_allow(pid, tid, calls, MayRefuse::yes);
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

bool filters_allow_waits_for_readers(target::Stop& stop, Address code) {
  constexpr uint64_t kExpedited = MEMBARRIER_CMD_PRIVATE_EXPEDITED;
  constexpr uint64_t kRegister = MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
  return std::all_of(stop.threads().begin(), stop.threads().end(), [&](const auto& thread) {
    const auto call = [&](int number, uint64_t first, uint64_t second) {
      return seccomp_data{number, arch::kAuditArchitecture, code, {first, second}};
    };
    const seccomp_data calls[] = {call(SYS_membarrier, kExpedited, 0),
                                  call(SYS_membarrier, kRegister, 0),
                                  call(SYS_sched_yield, 0, 0),
                                  call(SYS_nanosleep, code, 0),
                                  call(SYS_gettid, 0, 0),
                                  reading(thread.tid, code, 1, 1)};
    return filters_allow(stop.pid(), thread.tid, calls, MayRefuse::no);
  });
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
