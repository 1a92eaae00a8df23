#include "session/caller_watch.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/calls/caller_table.h"
#include "engine/owners/ownership.h"
#include "engine/owners/shared_sites.h"
#include "image/loader.h"
#include "image/maps.h"
#include "ledger/discovery.h"
#include "ledger/turn.h"
#include "session/subject.h"

namespace pinprick::session {
namespace {

std::vector<ledger::FoundSession> statistics_of(const target::RemoteTarget& target,
                                                const std::string& except = {}) {
  std::vector<ledger::FoundSession> statistics;
  ledger::FoundSessions all = ledger::find_sessions(target.pid(), except);
  if (all.sessions.empty()) return statistics;
  const auto maps = image::read_maps(target.pid());
  if (!maps) return statistics;
  for (ledger::FoundSession& found : all.sessions)
    if (found.is_kept() && engine::is_in_target(target.memory(), found.journal, *maps, found.file))
      statistics.push_back(std::move(found));
  return statistics;
}

std::vector<const layout::Session*> journals_of(const std::vector<ledger::FoundSession>& sessions) {
  std::vector<const layout::Session*> journals;
  journals.reserve(sessions.size());
  for (const ledger::FoundSession& session : sessions) journals.push_back(&session.journal);
  return journals;
}

void admit_callers_in(const target::RemoteTarget& target, std::span<const Range> objects,
                      std::span<const layout::Session* const> journals) {
  if (journals.empty()) return;
  std::vector<Range> code(objects.begin(), objects.end());
  const auto probes = engine::OtherSites::find(target.pid(), target.memory());
  code.insert(code.end(), probes.code().begin(), probes.code().end());
  for (const layout::Session* journal : journals)
    engine::admit_callers(target.memory(), *journal, code);
}

}  // namespace

void admit_callers_of_statistics(const target::RemoteTarget& target, std::span<const Range> objects,
                                 const std::string& except) {
  const auto statistics = statistics_of(target, except);
  admit_callers_in(target, objects, journals_of(statistics));
}

void look_after_callers(const target::RemoteTarget& target, image::ObjectStore& store,
                        std::span<const layout::Session* const> journals) {
  constexpr uint64_t kPatienceNs = 10'000'000;
  const pid_t pid = target.pid();
  const auto turn = ledger::Turn::take(pid, kPatienceNs);
  if (!turn || image::loader_is_at_work(pid, target.reader())) return;
  const auto statistics = statistics_of(target);
  auto all = journals_of(statistics);
  all.insert(all.end(), journals.begin(), journals.end());
  const auto maps = image::read_maps(pid);
  if (!maps) return;
  bool is_news = false;
  for (const layout::Session* journal : all) {
    const Address caller = engine::take_unknown_caller(target.memory(), *journal);
    // Code that is generated stays unknown. That of a file is an object's, that of memory which a
    // session's file describes is another owner's.
    is_news |= caller != 0 && std::any_of(maps->begin(), maps->end(), [&](const auto& mapping) {
                 return mapping.inode != 0 && mapping.range.contains(caller);
               });
    if (caller == 0 || is_news) continue;
    const auto probes = engine::OtherSites::find(pid, target.memory());
    is_news = std::any_of(probes.code().begin(), probes.code().end(),
                          [&](Range code) { return code.contains(caller); });
  }
  if (!is_news) return;
  if (const auto subject = look_at(target, store))
    admit_callers_in(target, subject->image->calling_code(), all);
}

bool CallerWatch::is_news(const target::RemoteTarget& target, Address caller,
                          const std::vector<image::Mapping>& maps) {
  bool is_new = false;
  // A file may hold generated code, so each is news only once.
  for (const image::Mapping& mapping : maps)
    if (mapping.inode != 0 && mapping.range.contains(caller))
      is_new |= files_.insert(mapping.range.begin).second;
  // If a function that another owner times tail calls one of ours, the caller is a slot.
  const auto others = engine::OtherSites::find(target.pid(), target.memory());
  return is_new || std::any_of(others.code().begin(), others.code().end(),
                               [&](Range code) { return code.contains(caller); });
}

// Whether there was such a call is one word of the process's memory. What is costly is to find out
// where it came from, and only that is done rarely: generated code may make such calls all the
// time.
bool CallerWatch::finds_new(engine::Engine& engine) {
  const target::RemoteTarget& target = engine.target();
  constexpr uint64_t kPauseNs = 100'000'000;
  if (monotonic_ns() - found_ns_ < kPauseNs) return false;
  bool is_new = false;
  std::optional<std::vector<image::Mapping>> maps;
  for (engine::Batch& batch : engine.batches())
    if (const auto caller = batch.session.take_unknown_caller()) {
      found_ns_ = monotonic_ns();
      if (!maps)
        if (auto read = image::read_maps(target.pid())) maps = *std::move(read);
      if (!maps) return false;
      is_new |= is_news(target, *caller, *maps);
    }
  return is_new && !image::loader_is_at_work(target.pid(), target.reader());
}

}  // namespace pinprick::session
