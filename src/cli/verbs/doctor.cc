// pinprick doctor: what works on this machine, and what to do if not.
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>

#include "base/build_id.h"
#include "base/clock.h"
#include "base/machine.h"
#include "cli/messages/warnings.h"
#include "cli/object_store.h"
#include "cli/verbs/attaching_checks.h"
#include "cli/verbs/check_rows.h"
#include "cli/verbs/probeable.h"
#include "cli/verbs/verbs.h"
#include "cli/version.h"
#include "ledger/discovery.h"
#include "ledger/runtime_directory.h"
#include "pinprick/version.h"
#include "placement/hooks.h"
#include "runtime/probe_cost.h"
#include "session/subject.h"
#include "session/unseen_code.h"
#include "target/hijacked_thread.h"
#include "target/kernel_uprobes.h"
#include "target/procfs.h"

namespace pinprick::cli {
namespace {

MachineRow machine() {
  utsname name = {};
  ::uname(&name);
  return {
      kVersion,      kCommit,    own_build_id(),  fmt::format("{} {}", name.release, name.version),
      system_name(), cpu_name(), possible_cpus(), ::geteuid()};
}

// Both say that -1 is no descriptor, or no process, where they are.
bool has_pidfds() {
  const bool opens = ::syscall(SYS_pidfd_open, -1, 0) == -1 && errno == EINVAL;
  const bool copies = ::syscall(SYS_pidfd_getfd, -1, 0, 0) == -1 && errno == EBADF;
  return opens && copies;
}

CheckRow check_kernel() {
  utsname name = {};
  ::uname(&name);
  // PTRACE_GET_RSEQ_CONFIGURATION
  return check::kernel(name.release, has_pidfds(), kernel_version() >= KernelVersion{5, 13});
}

CheckRow check_clock_source() {
  const bool invariant = tsc_is_invariant();
  return check::clock(invariant, invariant ? tsc_frequency() : 0);
}

CheckRow check_restartable_sequences() {
  return check::restartable_sequences(possible_cpus(), __rseq_size != 0);
}

CheckRow check_runtime_folder() {
  const auto folder = ledger::runtime_directory();
  if (!folder) return check::no_runtime_folder(folder.error().number);
  struct statfs status = {};
  const bool tmpfs = ::statfs(folder->c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC;
  return check::runtime_folder(*folder, tmpfs);
}

CheckRow check_process(pid_t pid) {
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
  if (placement::may_unwind_elsewhere(*subject->image, hooks)) note(check::unwinder_not_found());
  const auto all = image::Pattern::parse("*", image::PatternSyntax::glob);
  for (const auto& code : session::unseen_objects(*subject->image, {&*all, 1}))
    note(warning::unseen(code));
  for (const auto& code : session::text_without_functions(*subject->image, {&*all, 1}))
    note(warning::unseen(code));
  return row;
}

}  // namespace

int run_doctor(const Options& options, Renderer& renderer) {
  std::vector<CheckRow> rows = {check_kernel(),
                                check_attaching(),
                                check_ptrace_scope(),
                                check_processes(visible_processes()),
                                check_clock_source(),
                                check_restartable_sequences(),
                                check_runtime_folder(),
                                check::breakpoints(target::KernelUprobes::available()),
                                check::probe_cost(runtime::return_probe_cost())};
  for (pid_t pid : options.pids) rows.push_back(check_process(pid));
  renderer.checks(machine(), rows);
  for (const CheckRow& row : rows)
    if (row.health == Health::bad) return kFailed;
  return kOk;
}

}  // namespace pinprick::cli
