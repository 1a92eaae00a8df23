#include "engine/journal/journal_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <utility>

#include "base/clock.h"
#include "base/machine.h"
#include "engine/journal/journal_tables.h"
#include "ledger/discovery.h"
#include "ledger/runtime_directory.h"

namespace pinprick::engine {

layout::FileHeader session_header(const layout::SessionCounts& counts,
                                  const target::RemoteTarget& target, Clock clock) {
  layout::FileHeader header = layout::lay_out(counts);
  header.pid = target.pid();
  header.start_time = target.start_time();
  header.controller = ::getpid();
  header.created_ns = realtime_ns();
  header.ns_multiplier = clock == Clock::measured ? ns_multiplier() : rough_ns_multiplier();
  copy_text(header.boot_id, boot_id());
  copy_text(header.command, target.command());
  return header;
}

Result<ledger::SessionFile, ledger::SessionError> create_session_file(
    const std::string& folder, const target::RemoteTarget& target,
    const std::vector<image::Mapping>& maps, const layout::Session& journal) {
  if (auto closed = ledger::why_closed(target.pid(), target.memory(), maps))
    return fail(*std::move(closed));
  // If readers refused the file, a killed controller's probes would stay for good.
  assert(!layout::check_header(journal.header, journal.header.file_size));
  // Other sessions have files of their own.
  constexpr unsigned kMostSessions = 10'000;
  auto created = Result<ledger::SessionFile, ledger::FileError>(fail(ledger::FileError{}));
  for (unsigned number = 0; number < kMostSessions; ++number) {
    const std::string path =
        folder + "/" + ledger::session_file_name(target.pid(), target.start_time(), number);
    // A file is complete before it gets its name, so it is not made in vain.
    struct stat there = {};
    if (number + 1 < kMostSessions && ::lstat(path.c_str(), &there) == 0) continue;
    created = ledger::SessionFile::create(path, journal);
    if (created || created.error().cause != ledger::FileError::Cause::exists) break;
  }
  if (!created) return fail(ledger::SessionError(created.error()));
  return *std::move(created);
}

}  // namespace pinprick::engine
