#include "session/left_over.h"

#include <algorithm>

#include "engine/forked_session.h"
#include "engine/owners/ownership.h"
#include "image/maps.h"
#include "ledger/turn.h"
#include "session/left_events.h"
#include "session/subject.h"

namespace pinprick::session {

Result<engine::DisarmReport, ledger::SessionError> take_out_left_over(
    const ledger::FoundSession& found, image::ObjectStore& store, uint64_t timeout_ns) {
  const pid_t pid = found.journal.header.pid;
  const auto turn = ledger::Turn::take(pid);
  if (!turn) return fail(turn.error());
  auto file = ledger::SessionFile::open(found.file.path(), ledger::SessionFile::Lock::exclusive);
  if (!file) return fail(ledger::SessionError(file.error()));
  auto journal = file->read();  // again, now that the file is locked
  if (!journal) return fail(ledger::SessionError(journal.error()));
  if (!found.target_lives) {
    engine::DisarmReport gone;
    gone.target_gone = true;
    engine::take_out_of_forked(*file, *journal, nullptr, timeout_ns, gone);
    if (gone.forked_left == 0) file->remove();
    return gone;
  }
  auto subject = look_at(pid, store);
  if (!subject) return fail(subject.error());
  // Not before: a process may execute a program that runs as another user. Once it is opened, a
  // later exec cannot change what we write to.
  if (!ledger::is_trusted(*file, pid))
    return fail(ledger::SessionError(
        ledger::FileError{ledger::FileError::Cause::untrusted, file->path(), 0, {}, 0}));
  return engine::disarm(subject->target, *subject->image, *file, *journal, timeout_ns);
}

PresentProgram::PresentProgram(pid_t pid)
    : memory_(target::Memory::open(pid)), maps_(image::read_maps(pid)) {}

bool PresentProgram::has(const ledger::FoundSession& found) const {
  return !memory_ || !maps_ || engine::is_in_target(*memory_, found.journal, *maps_, found.file);
}

bool is_statistic_in_place(const ledger::FoundSession& found) {
  return found.is_kept() && found.target_lives &&
         PresentProgram(found.journal.header.pid).has(found);
}

// The thread that was in an earlier session's memory may have left it by now.
std::vector<pid_t> take_out_left_overs(pid_t pid, image::ObjectStore& store) {
  std::vector<pid_t> recorders;
  for (const ledger::FoundSession& left : ledger::find_sessions(pid).sessions) {
    if (!left.target_lives || left.controller_lives || is_statistic_in_place(left)) continue;
    const pid_t recorder = left.journal.header.controller;
    if (!has_left_events(left))
      static_cast<void>(take_out_left_over(left, store, 0));
    else if (std::ranges::find(recorders, recorder) == recorders.end())
      recorders.push_back(recorder);
  }
  return recorders;
}

}  // namespace pinprick::session
