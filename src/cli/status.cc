// pinprick status and pinprick detach: probes that are in place, whoever put them there.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/clock.h"
#include "cli/attach.h"
#include "cli/verbs.h"
#include "session/disarm.h"
#include "session/registry.h"

namespace pinprick::cli {
namespace {

using session::FoundSession;

SessionRow::State state_of(const FoundSession& found) {
  if (found.controller_lives) return SessionRow::State::live;
  if (!found.target_lives) return SessionRow::State::target_gone;
  return found.journal.header.state == layout::SessionState::disarmed
             ? SessionRow::State::left_behind
             : SessionRow::State::orphaned;
}

template <size_t N>
std::string text_of(const char (&field)[N]) {
  return std::string(field, std::find(field, field + N, '\0'));
}

SessionRow row_of(const FoundSession& found) {
  const layout::Session& journal = found.journal;
  SessionRow row;
  row.process = {journal.header.pid, text_of(journal.header.command)};
  row.file = found.file.path();
  row.state = state_of(found);
  if (found.controller_lives) row.controller = journal.header.controller;
  const uint64_t now = realtime_ns();
  row.age_s = now > journal.header.created_ns
                  ? static_cast<double>(now - journal.header.created_ns) / 1e9
                  : 0;
  row.sites = journal.probes.size();
  const auto counters = found.file.read_counters(journal);
  const auto unwound = found.file.read_unwound(journal);
  for (size_t i = 0; i < journal.probes.size(); ++i) {
    const layout::ProbeEntry& probe = journal.probes[i];
    const std::string object(journal.name(journal.objects[probe.object].name));
    const std::string function(journal.name(probe.name));
    if (probe.kind == layout::ProbeEntry::Kind::count)
      row.counts.push_back({object, function, counters[i]});
    else
      row.latencies.push_back({object, function,
                               found.file.read_histogram(journal, probe.histogram), counters[i],
                               unwound[probe.histogram]});
  }
  return row;
}

// Of the processes asked for, or of all.
session::FoundSessions find(const Options& options) {
  if (options.pids.empty()) return session::find_sessions();
  session::FoundSessions all;
  for (pid_t pid : options.pids) {
    auto found = session::find_sessions(pid);
    std::move(found.sessions.begin(), found.sessions.end(), std::back_inserter(all.sessions));
    std::move(found.unreadable.begin(), found.unreadable.end(), std::back_inserter(all.unreadable));
  }
  return all;
}

// One session's worth of detaching. True: nothing of it is left, or will be.
bool detach_one(const FoundSession& found, Renderer& renderer) {
  const auto& header = found.journal.header;
  const ProcessName name = {header.pid, text_of(header.command)};
  auto file = session::SessionFile::open(found.file.path(), session::SessionFile::Lock::exclusive);
  if (!file) {
    renderer.error(message(file.error()));
    return false;
  }
  auto journal = file->read();  // again, now that it is ours
  if (!journal) {
    renderer.error(message(journal.error()));
    return false;
  }
  if (!found.target_lives) {
    file->remove();
    session::DisarmReport gone;
    gone.target_gone = true;
    renderer.detached(name, gone);
    return true;
  }
  auto subject = look_at(header.pid);
  if (!subject) {
    renderer.error(subject.error());
    return false;
  }
  auto report = session::disarm(subject->target, *subject->image, *file, *journal);
  if (!report) {
    renderer.error(message(report.error()));
    return false;
  }
  renderer.detached(name, *report);
  return report->foreign == 0;
}

}  // namespace

int run_status(const Options& options, Renderer& renderer) {
  const auto found = find(options);
  std::vector<SessionRow> rows;
  for (const FoundSession& session : found.sessions) rows.push_back(row_of(session));
  renderer.sessions(rows);
  for (const auto& error : found.unreadable) renderer.warning(message(error).text);
  return renderer.is_broken() ? kFailed : kOk;
}

int run_detach(const Options& options, Renderer& renderer) {
  const auto found = find(options);
  bool failed = false;
  std::vector<pid_t> seen;
  for (const FoundSession& session : found.sessions) {
    const pid_t pid = session.journal.header.pid;
    seen.push_back(pid);
    if (session.controller_lives) {
      if (options.all && options.pids.empty()) continue;
      renderer.error(message(
          session::SessionError(session::Occupied{pid, session.journal.header.controller, 0})));
      renderer.flush();
      return kAttachRefused;
    }
    failed = !detach_one(session, renderer) || failed;
  }
  for (const auto& error : found.unreadable) renderer.warning(message(error).text);
  for (pid_t pid : options.pids) {
    if (std::find(seen.begin(), seen.end(), pid) != seen.end()) continue;
    renderer.error({"nothing_matched",
                    fmt::format("no probes of pinprick are known in process {}", pid),
                    kNothingMatched});
    renderer.flush();
    return kNothingMatched;
  }
  renderer.flush();
  return failed ? kFailed : kOk;
}

}  // namespace pinprick::cli
