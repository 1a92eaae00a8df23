#include "cli/messages/warnings.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/render/units.h"
#include "ledger/runtime_directory.h"

namespace pinprick::cli::warning {

std::string events_not_printed(size_t events) {
  return fmt::format("{} not printed, as what reads the output takes nothing",
                     events == 1 ? "1 event was" : fmt::format("{} events were", events));
}

std::string recording_not_written() {
  return "the rest of the recording is not written, as what reads it takes nothing";
}

std::string recording_without_end() {
  return "the recording has no end: pinprick was killed, or still records";
}

std::optional<std::string> figures_lack(const std::string& path, const layout::Losses& losses) {
  std::string lost;
  losses.for_each([&](const layout::LossWords& words, uint64_t n) {
    if (n != 0)
      lost += fmt::format("{}{} {}", lost.empty() ? "" : ", ", words.text, with_commas(n));
  });
  if (lost.empty()) return std::nullopt;
  return fmt::format("{}: its figures lack hits and calls: {}", path, lost);
}

std::string paths_left_out(uint64_t calls) {
  return fmt::format("{} came by other paths than the million that are told apart, and {} left out",
                     plural(calls, "call"), calls == 1 ? "is" : "are");
}

std::string graphs_left_out(size_t functions) {
  return fmt::format("the pattern names {} more that took less time, which are not shown",
                     plural(functions, "function"));
}

std::string events_left(const session::ProcessName& process, pid_t recorder) {
  return fmt::format(
      "pinprick {}, which was killed, has left its newest events and its probes in {}: `pinprick "
      "trace --collect -p {}` prints the events, `pinprick detach -p {}` throws them away",
      recorder, process.command, process.pid, process.pid);
}

std::string events_thrown_away(const session::ProcessName& process, pid_t recorder) {
  return fmt::format(
      "the newest events that pinprick {} had recorded in {} ({}) were thrown away; `pinprick "
      "trace --collect -p {}` would have printed them",
      recorder, process.command, process.pid, process.pid);
}

std::string strange_events(uint64_t events) {
  return fmt::format("{} in the rings {} none of its probes, and {} left out",
                     plural(events, "event"), events == 1 ? "is of" : "are of",
                     events == 1 ? "is" : "are");
}

std::string never_triggered() {
  return "the point of --until was not hit";
}

std::string unseen(const session::UnseenCode& code) {
  using Why = session::UnseenCode::Why;
  switch (code.why) {
    case Why::replaced:
      return fmt::format(
          "{}: its file was replaced or deleted after it was loaded; only dynamic symbols "
          "can be read from memory",
          code.object);
    case Why::unreadable:
      return message(code.error).text;
    case Why::without_functions:
      return fmt::format(
          "{}: {} of its {} of code are in no function that symbols or unwind tables describe, and "
          "have no probe",
          code.object, byte_size(code.unknown), byte_size(code.text));
  }
  return {};
}

std::string may_unwind_elsewhere(const std::string& command) {
  return fmt::format(
      "{} can unwind its stack, but its unwinder was not found: an exception that passes through a "
      "timed function may end the program, and a thread that is cancelled in one may skip its "
      "cleanup; `count` is safe",
      command);
}

std::string code_unfinished(const std::string& command, const std::string& object) {
  return fmt::format(
      "{} loaded {}, which is not probed: the loader has yet to relocate its code "
      "(DT_TEXTREL); start pinprick again to probe it",
      command, object);
}

std::string load_missed(const Message& why) {
  return fmt::format("the objects that were just loaded are not probed: {}", why.text);
}

std::string removal_failed(pid_t pid, const Message& why) {
  return fmt::format("probes that were hit cannot be taken out of process {} yet: {}", pid,
                     why.text);
}

Message probes_stay(pid_t pid, Message why) {
  why.text += fmt::format("; its probes stay until `pinprick detach -p {}`", pid);
  return why;
}

std::string load_timed_out(const std::string& command) {
  return fmt::format(
      "{} loaded an object, and pinprick did not probe it in time: "
      "its first calls are not counted",
      command);
}

std::string calls_refused(uint64_t calls) {
  const auto folder = ledger::runtime_directory();
  return fmt::format(
      "{} of the missed calls were missed because {} had no space for more histograms; "
      "time fewer functions, or free space there",
      calls, folder ? *folder : "the runtime directory");
}

std::string executions_not_followed(uint64_t executions) {
  return fmt::format(
      "{} not followed, as pinprick did not answer in time; what was executed is not measured",
      executions == 1 ? std::string("1 execution was")
                      : fmt::format("{} executions were", executions));
}

std::string no_descriptors(uint64_t limit) {
  return fmt::format(
      "some processes are left alone: each takes some open files, and pinprick may have {} in all; "
      "`ulimit -n` raises that",
      limit);
}

std::string slow_reads(const session::ProcessName& process, engine::SlowReads why) {
  const char* reason = "";
  switch (why) {
    case engine::SlowReads::none:
    case engine::SlowReads::no_rseq:
      reason =
          "its threads have no restartable sequences (rseq), as with musl, Go, or an old glibc";
      break;
    case engine::SlowReads::unwatched:
      reason =
          "it could unmap memory unnoticed, by system calls of its own or in code that it "
          "generates";
      break;
    case engine::SlowReads::loaded:
      reason = "a library that it has loaded since could unmap memory unnoticed";
      break;
    case engine::SlowReads::refused:
      reason = "the kernel, or a seccomp filter, may refuse membarrier(2)";
      break;
  }
  return fmt::format("{} ({}): each read of what a pointer leads to takes a system call: {}",
                     process.pid, process.command, reason);
}

std::string reachable_by_others(const std::string& address) {
  return fmt::format(
      "all who reach {} see the names of processes and functions here, and their figures; "
      "127.0.0.1 is for this machine alone",
      address);
}

std::string no_reads(const session::ProcessName& process, engine::ReadObstacle why) {
  const char* reason = "";
  switch (why) {
    case engine::ReadObstacle::none:
    case engine::ReadObstacle::filter:
      reason = "it has a seccomp filter, which may not allow process_vm_readv(2)";
      break;
    case engine::ReadObstacle::dispatch:
      reason = "it handles its system calls itself (PR_SET_SYSCALL_USER_DISPATCH)";
      break;
    case engine::ReadObstacle::page_faults:
      reason = "it handles page faults itself (userfaultfd), and would wait for itself";
      break;
    case engine::ReadObstacle::unwatched:
      reason =
          "it could install a seccomp filter unnoticed, since it makes system calls by itself, or "
          "is in the midst of one";
      break;
  }
  return fmt::format(
      "{} ({}): nothing that pointers lead to can be read, and all counts as unread: {}",
      process.pid, process.command, reason);
}

std::string no_breakpoints(const SystemError& error) {
  return "--trap: " + why_no_breakpoints(error);
}

std::string executed(const std::string& command, const session::ExecutedProgram& program) {
  const bool is_certain = program.certainty == session::ExecutedProgram::Certainty::certain;
  return fmt::format("{} has {}executed {}, which is not probed; with --follow-exec it is", command,
                     is_certain ? "" : "probably ", program.name);
}

std::string frees_dropped(uint64_t events, uint32_t sample) {
  constexpr uint32_t kFewer = 16, kMost = 1 << 16;
  const uint32_t next = std::min(sample * kFewer, kMost);
  return fmt::format(
      "{} dropped, so the figures are unreliable: a block whose free was dropped looks like a "
      "leak; "
      "--sample {} follows one block of {}, and --buffer makes more room",
      events == 1 ? std::string("1 event was") : fmt::format("{} events were", events), next, next);
}

std::string nothing_frees() {
  return "no function that frees is probed, so all blocks look like leaks; name it with --free";
}

std::string no_room_for_blocks(uint64_t blocks) {
  return fmt::format(
      "{} not known, as there were too many others; --blocks makes more room, and --sample follows "
      "fewer blocks",
      blocks == 1 ? std::string("1 block is") : fmt::format("{} blocks are", blocks));
}

std::string blocks_reused(uint64_t blocks) {
  return fmt::format(
      "{} again without having been freed: something frees that is not probed, so other blocks may "
      "only look like leaks; name it with --free",
      blocks == 1 ? std::string("1 block came") : fmt::format("{} blocks came", blocks));
}

std::string lock_events_dropped(uint64_t events) {
  return fmt::format(
      "{} dropped, so the figures are unreliable, and lock orders are left out; --slower 100us "
      "follows long waits only, and --buffer makes more room",
      events == 1 ? std::string("1 event was") : fmt::format("{} events were", events));
}

std::string no_room_for_locks(uint64_t events) {
  return fmt::format(
      "{} left out, as there were too many other locks",
      events == 1 ? std::string("1 call was") : fmt::format("{} calls were", events));
}

std::string no_room_for_lock_stacks(uint64_t events) {
  return fmt::format(
      "{} of too many stacks: locks have them as (other); --stack=1 tells fewer apart",
      events == 1 ? std::string("1 call was") : fmt::format("{} calls were", events));
}

std::string no_room_for_lock_orders(uint64_t events) {
  return fmt::format(
      "{} not compared with others, as there were too many: a contradiction may be missing",
      events == 1 ? std::string("1 order of locks was")
                  : fmt::format("{} orders of locks were", events));
}

std::string releases_unseen(uint64_t releases) {
  return fmt::format(
      "{} taken while it seemed to be held: something releases that is not probed, so "
      "how long locks are held is not known; name it with --unlock",
      releases == 1 ? std::string("once a lock was")
                    : fmt::format("{} times a lock was", releases));
}

std::string deadlock(const session::LockWaits& waits, const std::vector<size_t>& ring) {
  std::string text = fmt::format("deadlock in {} {}: ", waits.process.pid, waits.process.command);
  for (size_t i = 0; i < ring.size(); ++i) {
    const session::LockWait& wait = waits.waits[ring[i]];
    text += fmt::format("{}thread {} waits for {} {}", i == 0 ? "" : "; ", wait.thread,
                        session::word_of(wait.kind), wait.lock_name);
    text += wait.owner == wait.thread ? ", which it holds itself"
                                      : fmt::format(", which thread {} holds", wait.owner);
  }
  return text;
}

std::string nothing_releases() {
  return "no function that releases is probed, so it is not known how long locks are held; name it "
         "with --unlock";
}

std::vector<std::string> shortfalls_of(const compare::Run& run) {
  std::vector<std::string> texts;
  if (run.was_cut_short)
    texts.push_back(run.path +
                    ": the last line is cut short, as its writer was ended; it is left out");
  if (run.has_no_end)
    texts.push_back(
        run.path +
        ": its writer was ended before it wrote the sums; they are those of the intervals");
  if (const auto lack = figures_lack(run.path, run.losses)) texts.push_back(*lack);
  if (run.partial_rows != 0)
    texts.push_back(
        fmt::format("{}: --budget took probes out for a time, so {} of its rows are partial",
                    run.path, run.partial_rows));
  return texts;
}

std::string different_bits() {
  return "the histograms before and after have different --bits: they are compared by the wider "
         "slots, and p99 is not judged";
}

}  // namespace pinprick::cli::warning
