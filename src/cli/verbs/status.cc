// pinprick status and pinprick detach: show and take out probes that are in place, of any owner.
#include <fcntl.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "cli/messages/verb_messages.h"
#include "cli/messages/warnings.h"
#include "cli/object_store.h"
#include "cli/verbs/session_rows.h"
#include "cli/verbs/unknown_process.h"
#include "cli/verbs/verbs.h"
#include "engine/disarm.h"
#include "engine/stubs/debugger_symbols.h"
#include "ledger/discovery.h"
#include "ledger/turn.h"
#include "session/left_events.h"
#include "session/left_over.h"
#include "target/procfs.h"

namespace pinprick::cli {
namespace {

using ledger::FoundSession;

// The probes that the program has placed itself, as an owner; nullopt if it has none.
std::optional<SessionRow> row_of_program(pid_t pid) {
  SessionRow row;
  row.state = SessionRow::State::own;
  row.controller = pid;
  const auto status = target::read_status(pid);
  row.process = {pid, status ? status->command : "?"};
  row.own_probes = ledger::probes_of_program(pid);
  row.sites = row.own_probes.size();
  if (row.sites == 0) return std::nullopt;
  return row;
}

// Those of the given processes, or of all that have sessions.
void add_rows_of_programs(const Options& options, std::vector<SessionRow>& rows) {
  std::set<pid_t> pids(options.pids.begin(), options.pids.end());
  if (pids.empty())
    for (const SessionRow& row : rows)
      if (row.state != SessionRow::State::target_gone) pids.insert(row.process.pid);
  for (pid_t pid : pids)
    if (auto row = row_of_program(pid)) rows.push_back(*std::move(row));
}

// The sessions of the given processes, or of all.
ledger::FoundSessions find(const Options& options) {
  if (options.pids.empty()) return ledger::find_sessions();
  ledger::FoundSessions all;
  for (pid_t pid : options.pids) {
    auto found = ledger::find_sessions(pid);
    std::move(found.sessions.begin(), found.sessions.end(), std::back_inserter(all.sessions));
    std::move(found.unreadable.begin(), found.unreadable.end(), std::back_inserter(all.unreadable));
  }
  return all;
}

// Writes a symbol file for a debugger, for all sessions of the given process.
Result<void, Message> write_symbols(const Options& options,
                                    const std::vector<FoundSession>& sessions) {
  const pid_t pid = options.pids.front();
  auto memory = target::Memory::open(pid);
  if (!memory)
    return fail(message(target::AttachError{
        target::AttachCause::not_permitted, pid, 0, memory.error().number, {}}));
  std::vector<engine::UnwindTablesCopy> tables;
  for (const FoundSession& found : sessions)
    if (auto copy = engine::unwind_tables(*memory, found.journal))
      tables.push_back(*std::move(copy));
  if (tables.empty()) return fail(nothing_for_debuggers(pid));
  auto file = open_file(options.symbols, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const auto written = file ? write_at(file->get(), engine::debugger_symbols(tables), 0)
                            : Result<void, SystemError>(fail(file.error()));
  if (!written) return fail(cannot_write(options.symbols, written.error().number));
  return {};
}

}  // namespace

int run_status(const Options& options, Renderer& renderer) {
  const auto found = find(options);
  auto rows = session_rows(found.sessions, Slots::included);
  add_rows_of_programs(options, rows);
  std::optional<Message> unknown;
  for (pid_t pid : options.pids) {
    const bool has_row = std::any_of(rows.begin(), rows.end(),
                                     [&](const SessionRow& row) { return row.process.pid == pid; });
    if (!has_row && !unknown) unknown = why_nothing_is_known(pid);
  }
  if (!rows.empty() || !unknown) renderer.sessions(rows);
  if (!options.symbols.empty())
    if (auto written = write_symbols(options, found.sessions); !written) {
      renderer.error(written.error());
      renderer.flush();
      return written.error().exit;
    }
  for (const auto& error : found.unreadable) renderer.warning(message(error).text);
  if (unknown) {
    renderer.error(*unknown);
    renderer.flush();
    return unknown->exit;
  }
  return renderer.is_broken() ? kFailed : kOk;
}

int run_detach(const Options& options, Renderer& renderer) {
  auto found = find(options);
  if (options.owner != 0)
    std::erase_if(found.sessions, [&](const FoundSession& session) {
      return session.journal.header.controller != options.owner;
    });
  // Of other users' processes, whose turns they may keep.
  constexpr uint64_t kWaitingNs = 10'000'000'000;
  if (options.pids.empty()) ledger::Turn::limit_waiting(kWaitingNs);
  bool failed = false, refused = false;
  std::vector<pid_t> seen;
  std::map<pid_t, std::pair<ProcessName, engine::DisarmReport>> reports;
  for (const FoundSession& one : found.sessions) {
    const pid_t pid = one.journal.header.pid;
    seen.push_back(pid);
    // Statistics are no left-overs, and the figures of ended processes stay.
    if (options.pids.empty() && one.is_kept() && !is_of_earlier_program(one)) continue;
    if (one.controller_lives) {
      if (options.all && options.pids.empty()) continue;
      const pid_t owner = one.journal.header.controller;
      // Another pinprick may be taking out what a dead one has left.
      renderer.error(target::read_status(owner) ? still_measuring(owner, pid)
                                                : message(ledger::SessionError(ledger::Busy{pid})));
      refused = true;
      continue;
    }
    const auto report = session::take_out_left_over(one, object_store());
    if (!report) renderer.error(message(report.error()));
    failed = failed || !report || report->foreign != 0 || report->memory_left;
    if (!report) continue;
    const pid_t recorder = one.journal.header.controller;
    if (session::has_left_events(one) && !report->memory_left)
      renderer.warning(warning::events_thrown_away({pid, command_of(one)}, recorder));
    auto& [name, sum] = reports[pid];
    name = {pid, command_of(one)};
    sum += *report;
  }
  for (const auto& [pid, report] : reports) renderer.detached(report.first, report.second);
  for (const auto& error : found.unreadable) renderer.warning(message(error).text);
  for (pid_t pid : options.pids) {
    if (std::find(seen.begin(), seen.end(), pid) != seen.end()) continue;
    const auto why = why_nothing_is_known(pid);
    const Message error = why ? *why : nothing_to_detach(pid, options.owner);
    renderer.error(error);
    renderer.flush();
    return error.exit;
  }
  renderer.flush();
  if (refused) return kAttachRefused;
  return failed ? kFailed : kOk;
}

}  // namespace pinprick::cli
