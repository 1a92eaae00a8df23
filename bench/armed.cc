#include "armed.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "image/store/object_store.h"
#include "ledger/discovery.h"
#include "ledger/turn.h"
#include "session/matching.h"
#include "session/planning.h"
#include "session/selection.h"

namespace pinprick::bench {
namespace {

image::ObjectStore& object_store() {
  static image::ObjectStore store;
  return store;
}

Result<Armed, cli::Message> arm(session::Subject subject, placement::ProbeSet set,
                                const engine::ArmOptions& options) {
  auto session =
      engine::Session::arm(std::move(subject.target), *subject.image, std::move(set), options);
  if (!session) return fail(cli::message(session.error()));
  if (session->report().armed == 0)
    return fail(cli::Message{"nothing_armed", "none of the functions can be probed"});
  return Armed{std::move(subject.image), *std::move(session)};
}

}  // namespace

Result<Found, cli::Message> find(pid_t pid, const std::vector<std::string>& patterns,
                                 placement::Kind kind, const std::string& key) {
  session::SelectionSpec spec;
  spec.key = key;
  spec.measures = {{{}, kind, patterns}};
  const auto selection = session::parse_selection(spec);
  if (!selection) return fail(cli::message(selection.error()));
  auto subject = session::look_at(pid, object_store());
  if (!subject) return fail(cli::message(subject.error()));
  auto matches = session::match(*subject->image, *selection, session::Unmatched::refuse);
  if (!matches) return fail(cli::message(matches.error()));
  return Found{*std::move(subject), *std::move(matches), selection->actions};
}

Result<Armed, cli::Message> arm(pid_t pid, const std::vector<std::string>& patterns,
                                placement::Kind kind,
                                const std::function<bool(const image::Match&)>& wanted,
                                const engine::ArmOptions& options, placement::Ends ends) {
  // As a measurement does it: what is planned holds as long as no other controller has its turn.
  const auto turn = ledger::Turn::take(pid);
  if (!turn) return fail(cli::message(turn.error()));
  auto found = find(pid, patterns, kind);
  if (!found) return fail(found.error());
  auto& [subject, matches, actions] = *found;
  if (wanted)
    matches.erase(std::remove_if(matches.begin(), matches.end(), std::not_fn(wanted)),
                  matches.end());
  auto set = placement::plan_probes(*subject.image, std::move(matches), std::move(actions), {},
                                    placement::Risk::none, ends);
  return arm(std::move(subject), std::move(set), options);
}

Result<Armed, cli::Message> arm_by_key(pid_t pid, const std::string& function,
                                       const std::string& key) {
  const auto turn = ledger::Turn::take(pid);
  if (!turn) return fail(cli::message(turn.error()));
  auto found = find(pid, {function}, placement::Kind::count, key);
  if (!found) return fail(found.error());
  auto& [subject, matches, actions] = *found;
  auto set = placement::plan_probes(*subject.image, std::move(matches), std::move(actions));
  return arm(std::move(subject), std::move(set), {});
}

Result<Armed, cli::Message> arm_span(pid_t pid, const std::string& span) {
  session::SelectionSpec texts;
  texts.measures = {{{}, placement::Kind::span, {span}}};
  auto selection = session::parse_selection(texts);
  if (!selection) return fail(cli::message(selection.error()));
  session::MeasurementSpec spec;
  spec.selection = *std::move(selection);
  spec.loads = session::Loads::ignored;
  auto subject = session::look_at(pid, object_store());
  if (!subject) return fail(cli::message(subject.error()));
  auto set = session::plan(*subject, spec);
  if (!set) return fail(cli::message(set.error()));
  return arm(*std::move(subject), *std::move(set), {});
}

Result<engine::DisarmReport, cli::Message> disarm(engine::Session& session) {
  // The probes at the entry of a function and at its return share a site.
  std::set<Address> sites;
  for (const engine::ArmedProbe& probe : session.probes())
    sites.insert(session.match_of(probe).site);
  auto report = session.disarm();
  if (!report) return fail(cli::message(report.error()));
  if (report->target_gone)
    return fail(cli::Message{"target_gone", "the target ended while it was measured"});
  // Trampolines, and the windows that make room for them, are restored, too.
  if (report->restored < sites.size())
    return fail(cli::Message{"not_restored", fmt::format("{} of {} sites are as before",
                                                         report->restored, sites.size())});
  return *report;
}

LeftRecords::~LeftRecords() {
  if (pid_ == 0) return;
  for (auto& left : ledger::find_sessions(pid_).sessions)
    if (!left.controller_lives && !left.target_lives) left.file.remove();
}

uint64_t hits(const engine::Session& session) {
  const auto counters = session.counters();
  const auto histograms = session.histograms();
  uint64_t sum = 0;
  for (const engine::ArmedProbe& probe : session.probes()) {
    const size_t cell = session.cell_of(probe);
    sum += session.kind_of(probe) == placement::Kind::count ? counters[cell]
                                                            : histograms[cell].count();
  }
  for (const ledger::KeyHits& key : session.keys()) sum += key.hits;
  return sum;
}

}  // namespace pinprick::bench
