// pinprick doctor: what works on this machine, and what to do if not.
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/machine.h"
#include "cli/object_store.h"
#include "cli/verbs.h"
#include "cli/warnings.h"
#include "layout/runtime_data.h"
#include "ledger/discovery.h"
#include "ledger/runtime_directory.h"
#include "placement/hooks.h"
#include "runtime/probe_cost.h"
#include "session/subject.h"
#include "target/hijacked_thread.h"
#include "target/kernel_uprobes.h"
#include "target/memory.h"
#include "target/procfs.h"

namespace pinprick::cli {
namespace {

CheckRow kernel() {
  utsname name = {};
  ::uname(&name);
  char* rest = nullptr;
  const long major = std::strtol(name.release, &rest, 10);
  const long minor = *rest == '.' ? std::strtol(rest + 1, nullptr, 10) : 0;
  constexpr int kMajor = 5, kMinor = 13;  // PTRACE_GET_RSEQ_CONFIGURATION, pidfd_getfd
  const bool recent = major > kMajor || (major == kMajor && minor >= kMinor);
  return {"kernel", recent ? Health::ok : Health::note, name.release,
          recent ? "" : "before 5.13 probes count with locked instructions, and may not attach"};
}

// Stops a child of ours and writes its code through /proc, which is all that attaching needs.
CheckRow attaching() {
  CheckRow row = {"attaching", Health::bad, "", ""};
  const pid_t child = ::fork();
  if (child < 0) {  // return early: kill(-1) would kill every process that we may kill
    row.finding = fmt::format("no process can be started: {}", std::strerror(errno));
    row.remedy = "see the limits of processes: ulimit -u, and pids.max of the cgroup";
    return row;
  }
  if (child == 0) {
    for (;;) ::pause();
  }
  const auto end = [&](Health health, std::string finding, std::string remedy) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, __WALL);
    row.health = health;
    row.finding = std::move(finding);
    row.remedy = std::move(remedy);
    return row;
  };
  if (ptrace(PTRACE_SEIZE, child, nullptr, nullptr) != 0)
    return end(Health::bad, fmt::format("ptrace is refused: {}", std::strerror(errno)),
               "a container needs the capability SYS_PTRACE, or a seccomp profile that allows it");
  auto memory = target::Memory::open(child);
  const auto code = reinterpret_cast<Address>(&::getpid);  // text of libc, not writable
  uint8_t byte = 0;
  if (!memory || !memory->read_value(code, byte) || !memory->write_value(code, byte))
    return end(Health::bad, "code cannot be written through /proc/PID/mem",
               "boot with proc_mem.force_override=always or =ptrace");
  return end(Health::ok, "own processes can be stopped, and their code written", "");
}

CheckRow ptrace_scope() {
  auto text = read_file("/proc/sys/kernel/yama/ptrace_scope");
  if (!text) return {"kernel.yama.ptrace_scope", Health::ok, "no Yama: own processes", ""};
  const long scope = std::strtol(text->c_str(), nullptr, 10);
  const bool root = ::geteuid() == 0;
  const char* meaning[] = {"own processes", "own children only, unless root", "root only",
                           "no one"};
  const bool fine = scope == 0 || (root && scope < 3);
  return {"kernel.yama.ptrace_scope", fine ? Health::ok : Health::note,
          fmt::format("{}: {}", scope, scope >= 0 && scope <= 3 ? meaning[scope] : "?"),
          fine         ? ""
          : scope == 3 ? "cannot be undone before the next boot"
                       : "attach as root, or: sysctl kernel.yama.ptrace_scope=0"};
}

CheckRow clock_source() {
  if (!tsc_is_invariant())
    return {"clock", Health::note, "the TSC is not invariant: times may be wrong",
            "latency needs a processor (or a virtual machine) with an invariant TSC"};
  return {"clock", Health::ok, fmt::format("invariant TSC, {:.3f} GHz", tsc_frequency() / 1e9), ""};
}

CheckRow restartable_sequences() {
  const uint32_t cpus = possible_cpus();
  if (cpus > layout::kMaxCpus)
    return {"rseq", Health::note,
            fmt::format("{} CPUs are more than the {} that get counters of their own", cpus,
                        layout::kMaxCpus),
            "probes count with locked instructions"};
  if (__rseq_size == 0)
    return {"rseq", Health::note, "this C library does not register rseq areas",
            "probes count with locked instructions, some nanoseconds slower"};
  return {"rseq", Health::ok, fmt::format("registered; {} CPUs", cpus), ""};
}

CheckRow runtime_folder() {
  auto folder = ledger::runtime_directory();
  if (!folder)
    return {"runtime folder", Health::bad, std::strerror(folder.error().number),
            "set XDG_RUNTIME_DIR to a folder of your own, on a tmpfs"};
  struct statfs status = {};
  const bool tmpfs = ::statfs(folder->c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC;
  return {"runtime folder", tmpfs ? Health::ok : Health::note,
          *folder + (tmpfs ? "" : ", not on a tmpfs: counters will be written to disk"), ""};
}

CheckRow breakpoints() {
  const auto available = target::KernelUprobes::available();
  if (!available)
    return {"breakpoints", Health::note, why_no_breakpoints(available.error()),
            "`count --trap` works without them, and leaves out what no jump fits"};
  return {"breakpoints", Health::ok, "the kernel counts where no jump fits (count --trap)", ""};
}

CheckRow cost() {
  const auto ns = runtime::return_probe_cost();
  if (!ns)
    return {"probe cost", Health::note, "executable memory is refused here, so not measured", ""};
  return {"probe cost", Health::ok,
          fmt::format("{:.0f} ns for a timed call, entry and return", *ns), ""};
}

CheckRow process(pid_t pid) {
  CheckRow row = {fmt::format("process {}", pid), Health::ok, "", ""};
  const auto bad = [&](const Message& message) {
    row.health = Health::bad;
    row.finding = message.text;
    return row;
  };
  if (auto closed = ledger::why_closed(pid)) return bad(message(*closed));
  if (auto able = target::can_be_hijacked(pid); !able) return bad(message(able.error()));
  auto subject = session::look_at(pid, object_store());
  if (!subject) return bad(message(subject.error()));
  row.finding = fmt::format("{}, {} threads, {} objects", subject->target.command(),
                            target::list_threads(pid).size(), subject->image->objects.size());
  const auto note = [&](const std::string& text) {
    row.health = Health::note;
    row.remedy += (row.remedy.empty() ? "" : "; ") + text;
  };
  const auto hooks = placement::hook_sites(*subject->image, placement::Search::by_code);
  if (placement::may_unwind_elsewhere(*subject->image, hooks))
    note("can unwind, but its unwinder was not found: latency refuses it without --force");
  for (const std::string& object : subject->image->replaced) note(warning::object_replaced(object));
  return row;
}

}  // namespace

int run_doctor(const Options& options, Renderer& renderer) {
  std::vector<CheckRow> rows = {
      kernel(),         attaching(),   ptrace_scope(), clock_source(), restartable_sequences(),
      runtime_folder(), breakpoints(), cost()};
  for (pid_t pid : options.pids) rows.push_back(process(pid));
  renderer.checks(rows);
  for (const CheckRow& row : rows)
    if (row.health == Health::bad) return kFailed;
  return kOk;
}

}  // namespace pinprick::cli
