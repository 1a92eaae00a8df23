#include "cli/verbs/probeable.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "base/process_folder.h"
#include "image/elf/machine.h"
#include "target/memory.h"
#include "target/procfs.h"

namespace pinprick::cli {
namespace {

// The parent, its parent and so on; as far as they are visible.
std::set<pid_t> ancestors() {
  std::set<pid_t> found;
  pid_t pid = ::getppid();
  while (pid > 0 && found.insert(pid).second) {
    const auto status = target::read_status(pid);
    if (!status) break;
    pid = status->parent;
  }
  return found;
}

// Returns true for a program that may be executed but not read: an attempt would tell.
bool runs_x86_64(pid_t pid) {
  const auto machine = image::machine_of_file(process_folder(pid) + "/exe");
  return !machine || machine->is_ours();
}

// To open the memory takes the same rights as to attach (PTRACE_MODE_ATTACH), Yama's included.
bool is_probeable(pid_t pid, const target::ProcessStatus& status) {
  return status.tracer == 0 && target::Memory::open(pid) && runs_x86_64(pid);
}

}  // namespace

VisibleProcesses visible_processes() {
  const long ticks_per_second = ::sysconf(_SC_CLK_TCK);
  const uint64_t ms_per_tick =
      ticks_per_second > 0 ? 1000 / static_cast<uint64_t>(ticks_per_second) : 10;
  const std::set<pid_t> above = ancestors();
  VisibleProcesses found;
  for (const pid_t pid : target::all_processes()) {
    if (pid == ::getpid()) continue;
    auto status = target::read_status(pid);
    if (!status) {
      // It has ended, or /proc is mounted with hidepid=1.
      const bool is_there = ::access(fmt::format("/proc/{}", pid).c_str(), F_OK) == 0;
      if (is_there || errno == EPERM || errno == EACCES) ++found.others;
      continue;
    }
    if (status->kernel_thread || status->ending) continue;
    if (is_probeable(pid, *status))
      found.probeable.push_back(
          {pid, std::move(status->command), status->cpu_ticks * ms_per_tick, above.contains(pid)});
    else
      ++found.others;
  }
  return found;
}

}  // namespace pinprick::cli
