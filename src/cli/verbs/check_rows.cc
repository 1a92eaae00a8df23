#include "cli/verbs/check_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cli/messages/messages.h"
#include "layout/runtime_data.h"

namespace pinprick::cli::check {

CheckRow kernel(const std::string& release, bool has_pidfds, bool is_recent) {
  if (!has_pidfds)
    return {"kernel", Health::bad, release + ", without pidfd_getfd: nothing can be attached to",
            "Linux 5.6 or later has it; a seccomp profile of a container may forbid it"};
  return {"kernel", is_recent ? Health::ok : Health::note, release,
          is_recent ? "" : "before Linux 5.13, probes count with locked instructions"};
}

CheckRow no_child(int system_error) {
  return {"attaching", Health::bad,
          fmt::format("no process can be started: {}", std::strerror(system_error)),
          "see the limits of processes: ulimit -u, and pids.max of the cgroup"};
}

CheckRow ptrace_refused(int system_error) {
  return {"attaching", Health::bad,
          fmt::format("ptrace is refused: {}", std::strerror(system_error)),
          "a container needs the capability SYS_PTRACE, or a seccomp profile that allows ptrace"};
}

CheckRow text_not_writable() {
  return {"attaching", Health::bad, "code cannot be written through /proc/PID/mem",
          "boot with proc_mem.force_override=always or =ptrace"};
}

CheckRow attaching_works() {
  return {"attaching", Health::ok, "own processes can be stopped, and their code written", ""};
}

CheckRow ptrace_scope(std::optional<long> scope, bool is_root) {
  constexpr const char* kName = "kernel.yama.ptrace_scope";
  if (!scope) return {kName, Health::ok, "no Yama: users may probe their own processes", ""};
  constexpr const char* kMeaning[] = {"users may probe their own processes",
                                      "users may probe their own children only",
                                      "only root may probe", "no one may probe"};
  constexpr long kNoOne = 3;
  const bool is_known = *scope >= 0 && *scope <= kNoOne;
  const bool is_fine = *scope == 0 || (is_root && *scope < kNoOne);
  return {kName, is_fine ? Health::ok : Health::note,
          fmt::format("{}: {}", *scope, is_known ? kMeaning[*scope] : "an unknown value"),
          is_fine            ? ""
          : *scope == kNoOne ? "it cannot be changed before the next boot"
                             : "attach as root, or: sysctl kernel.yama.ptrace_scope=0"};
}

CheckRow no_proc() {
  return {"processes", Health::bad, "/proc is not there", "mount -t proc proc /proc"};
}

CheckRow processes(const Processes& processes) {
  const auto& [probeable, others, hides_others, may_trace_others, is_root] = processes;
  const bool is_some = probeable > 0;
  const bool is_hidden = hides_others && !may_trace_others;
  CheckRow row = {"processes", is_some ? Health::ok : Health::note, "", ""};
  if (is_some)
    row.finding = fmt::format("{} of {} may be probed", probeable, probeable + others);
  else if (others > 0)
    row.finding = fmt::format("none of {} may be probed", others);
  else
    row.finding = "no other process is to be seen";
  if (is_hidden) row.finding += "; /proc hides those of other users (hidepid)";
  if (is_some) return row;
  if (!may_trace_others)
    row.remedy = is_root
                     ? "a container needs the capability SYS_PTRACE"
                     : "run pinprick as root, or start a program: pinprick count ... -- COMMAND";
  else if (others == 0)
    row.remedy = "in a container, join the PID namespace of the program";
  return row;
}

bool hides_processes(std::string_view mounts) {
  bool hides = false;  // the last mount covers the others
  for (size_t at = 0; at < mounts.size();) {
    const size_t end = std::min(mounts.find('\n', at), mounts.size());
    const std::string_view line = mounts.substr(at, end - at);
    at = end + 1;
    // DEVICE FOLDER TYPE OPTIONS 0 0
    const size_t folder = line.find(" /proc proc ");
    if (folder == line.npos) continue;
    const size_t option = line.find("hidepid=", folder);
    hides = option != line.npos && !line.substr(option).starts_with("hidepid=0") &&
            !line.substr(option).starts_with("hidepid=off");
  }
  return hides;
}

CheckRow clock(bool is_invariant, double hertz) {
  if (!is_invariant)
    return {"clock", Health::note, "the TSC is not invariant: times may be wrong",
            "latency needs a processor (or a virtual machine) with an invariant TSC"};
  return {"clock", Health::ok, fmt::format("invariant TSC, {:.3f} GHz", hertz / 1e9), ""};
}

CheckRow restartable_sequences(uint32_t cpus, bool registered) {
  constexpr const char* kLocked = "probes count with locked instructions, some nanoseconds slower";
  if (cpus > layout::kMaxCpus)
    return {"rseq", Health::note,
            fmt::format("{} CPUs are more than the {} that get counters of their own", cpus,
                        layout::kMaxCpus),
            kLocked};
  if (!registered)
    return {"rseq", Health::note, "this C library does not register rseq areas", kLocked};
  return {"rseq", Health::ok, fmt::format("registered; {} CPUs", cpus), ""};
}

CheckRow no_runtime_folder(int system_error) {
  return {"runtime folder", Health::bad, std::strerror(system_error),
          "set XDG_RUNTIME_DIR to a folder of your own, on a tmpfs"};
}

CheckRow runtime_folder(const std::string& path, bool is_tmpfs) {
  if (is_tmpfs) return {"runtime folder", Health::ok, path, ""};
  return {"runtime folder", Health::note, path + ", not on a tmpfs: counters are written to disk",
          "set XDG_RUNTIME_DIR to a folder of your own, on a tmpfs"};
}

CheckRow breakpoints(const Result<void, SystemError>& available) {
  if (!available)
    return {"breakpoints", Health::note, why_no_breakpoints(available.error()),
            "`count --trap` works without them, and leaves out instructions where no jump fits"};
  return {"breakpoints", Health::ok, "the kernel counts where no jump fits (count --trap)", ""};
}

CheckRow probe_cost(std::optional<double> ns) {
  if (!ns)
    return {"probe cost", Health::note,
            "not measured: a security policy allows pinprick no executable memory", ""};
  return {"probe cost", Health::ok,
          fmt::format("{:.0f} ns for a timed call, entry and return", *ns), ""};
}

std::string unwinder_not_found() {
  return "it can unwind its stack, but its unwinder was not found: latency refuses it without "
         "--force";
}

}  // namespace pinprick::cli::check
