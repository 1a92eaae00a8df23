// pinprick doctor: what works on this machine, and what to do if not.
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "base/clock.h"
#include "base/machine.h"
#include "cli/check_rows.h"
#include "cli/object_store.h"
#include "cli/verbs.h"
#include "cli/warnings.h"
#include "ledger/discovery.h"
#include "ledger/runtime_directory.h"
#include "placement/hooks.h"
#include "runtime/probe_cost.h"
#include "session/subject.h"
#include "session/unseen_code.h"
#include "target/hijacked_thread.h"
#include "target/kernel_uprobes.h"
#include "target/memory.h"
#include "target/procfs.h"

namespace pinprick::cli {
namespace {

CheckRow kernel() {
  utsname name = {};
  ::uname(&name);
  // PTRACE_GET_RSEQ_CONFIGURATION, pidfd_getfd
  return check::kernel(name.release, kernel_version() >= KernelVersion{5, 13});
}

// Stops a child of ours and writes its code through /proc, which is all that attaching needs.
CheckRow attaching() {
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

CheckRow ptrace_scope() {
  const auto text = read_file("/proc/sys/kernel/yama/ptrace_scope");
  const auto scope = text ? std::optional(std::strtol(text->c_str(), nullptr, 10)) : std::nullopt;
  return check::ptrace_scope(scope, ::geteuid() == 0);
}

CheckRow clock_source() {
  const bool invariant = tsc_is_invariant();
  return check::clock(invariant, invariant ? tsc_frequency() : 0);
}

CheckRow restartable_sequences() {
  return check::restartable_sequences(possible_cpus(), __rseq_size != 0);
}

CheckRow runtime_folder() {
  const auto folder = ledger::runtime_directory();
  if (!folder) return check::no_runtime_folder(folder.error().number);
  struct statfs status = {};
  const bool tmpfs = ::statfs(folder->c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC;
  return check::runtime_folder(*folder, tmpfs);
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
  std::vector<CheckRow> rows = {kernel(),
                                attaching(),
                                ptrace_scope(),
                                clock_source(),
                                restartable_sequences(),
                                runtime_folder(),
                                check::breakpoints(target::KernelUprobes::available()),
                                check::probe_cost(runtime::return_probe_cost())};
  for (pid_t pid : options.pids) rows.push_back(process(pid));
  renderer.checks(rows);
  for (const CheckRow& row : rows)
    if (row.health == Health::bad) return kFailed;
  return kOk;
}

}  // namespace pinprick::cli
