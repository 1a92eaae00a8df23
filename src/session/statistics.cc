#include "session/statistics.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/memory/area_sizes.h"
#include "engine/owners/ownership.h"
#include "engine/reset.h"
#include "engine/switches.h"
#include "image/maps.h"
#include "layout/recorded_file.h"
#include "layout/runtime_offsets.h"
#include "ledger/turn.h"
#include "select/spec.h"
#include "session/caller_watch.h"
#include "session/left_over.h"
#include "session/subject.h"
#include "target/hijacked_thread.h"
#include "target/memory.h"
#include "target/procfs.h"

namespace pinprick::session {
namespace {

using ledger::FoundSession;

// All slots are there from the start, as no controller will add any. Those that CPUs keep in their
// lists come on top: with hundreds of CPUs, no slot might be left for the others.
constexpr uint64_t kSlots = 4096;

StatisticError error(const ledger::SessionError& why) {
  return MeasurementError(why);
}

std::string statistic_name(const layout::Session& journal) {
  return std::string(journal.name(journal.header.statistic));
}

Result<MeasurementSpec, StatisticError> spec_of(const StatisticSpec& statistic) {
  const bool is_span = !statistic.end.empty();
  const std::string span = statistic.start + ".." + statistic.end;
  if (is_span && select::split_spec(statistic.start).condition)
    return fail(StatisticError(SelectionError(NoCondition{NoCondition::Of::span, span})));
  MeasureSpec measure;
  measure.kind = is_span ? placement::Kind::span : placement::Kind::latency;
  measure.wanted = {is_span ? span : statistic.start};
  auto selection = parse_selection({.measures = {measure}, .excluded = {}});
  if (!selection) return fail(StatisticError(selection.error()));
  if (!is_span && selection->wanted.front().names_points())
    return fail(StatisticError(NoEnd{statistic.start}));
  MeasurementSpec spec;
  spec.selection = *std::move(selection);
  if (statistic.force) spec.risk = placement::Risk::unknown_unwinder;
  spec.loads = Loads::ignored;
  spec.arming.fraction_bits = statistic.bits;
  spec.arming.slots = kSlots + uint64_t{PP_CPU_FREE_LIMIT} * engine::usable_cpus();
  spec.arming.has_switches = true;
  spec.arming.statistic = statistic.name;
  spec.arming.gap = statistic.gap;
  return spec;
}

// A statistic times one function.
std::optional<AmbiguousPoint> ambiguity(const placement::ProbeSet& set, const std::string& point) {
  std::map<Address, const image::Match*> matches;
  for (const auto& match : set.matches) matches.emplace(match.site, &match);
  for (const auto& skipped : set.skipped) matches.emplace(skipped.match.site, &skipped.match);
  if (matches.size() < 2) return std::nullopt;
  AmbiguousPoint ambiguous = {point, point, matches.size(), {}};
  constexpr size_t kShown = 3;
  for (const auto& [site, match] : matches)
    if (ambiguous.some.size() < kShown) ambiguous.some.push_back(image::name_by_address(*match));
  return ambiguous;
}

std::string described(const layout::Session& journal) {
  if (!journal.spans.empty()) return std::string(journal.name(journal.spans[0].name));
  if (journal.probes.empty()) return "?";
  const auto name = journal.probe_name(0);
  return std::string(journal.name(journal.objects[journal.probes[0].object].name)) + ":" +
         std::string(name.function);
}

Result<void, ledger::SessionError> give_up(const FoundSession& found) {
  auto file = ledger::SessionFile::open(found.file.path(), ledger::SessionFile::Lock::exclusive);
  if (!file) return fail(ledger::SessionError(file.error()));
  auto journal = file->read();
  if (!journal) return fail(ledger::SessionError(journal.error()));
  journal->header.is_kept = 0;
  if (auto written = file->write_header(journal->header); !written)
    return fail(ledger::SessionError(written.error()));
  return {};
}

// The start time of the process whose statistics a PID means: the one that runs, or else the last
// one that had this PID and has left some, of either kind. PIDs are used again, in containers soon.
uint64_t start_time_of(pid_t pid) {
  if (const auto status = target::read_status(pid)) return status->start_time;
  uint64_t newest = 0;
  for (const FoundSession& one : ledger::find_sessions(pid).sessions)
    if (one.is_kept()) newest = std::max(newest, one.journal.header.start_time);
  for (const auto& file : ledger::find_recordings(pid, ledger::RecordedFile::Access::read).files)
    newest = std::max(newest, file.start_time());
  return newest;
}

// Has the process that has recorded them executed another program?
bool is_of_earlier_program(const ledger::RecordedFile& file) {
  if (!file.process_lives()) return false;
  const auto maps = image::read_maps(file.pid());
  return maps && !file.is_in(*maps);
}

std::vector<ledger::RecordedFile> recordings_of(pid_t pid, ledger::RecordedFile::Access access) {
  auto files = ledger::find_recordings(pid, access).files;
  if (files.empty()) return files;
  const uint64_t start_time = start_time_of(pid);
  std::erase_if(files, [&](const auto& file) {
    return file.start_time() != start_time || is_of_earlier_program(file);
  });
  return files;
}

using layout::Loss;

StatisticFigures figures_of(ledger::RecordedStatistic recorded) {
  StatisticFigures figures;
  figures.name = std::move(recorded.name);
  figures.bits = recorded.bits;
  figures.kind = StatisticFigures::Kind::recorded;
  figures.is_running = recorded.running;
  figures.created_ns = recorded.created_ns;
  figures.resets = recorded.resets;
  figures.by_cpu = std::move(recorded.cpus);
  figures.losses[Loss::missed] = recorded.missed;
  figures.losses[Loss::repeated] = recorded.unmatched_starts;
  figures.losses[Loss::unmatched] = recorded.unmatched_ends;
  return figures;
}

// Does the text at one of its points have the program's own bytes?
bool has_lost_a_probe(const layout::Session& journal, const target::Memory& memory) {
  using Phase = layout::SiteEntry::Phase;
  return std::any_of(journal.probes.begin(), journal.probes.end(), [&](const auto& probe) {
    const layout::SiteEntry& site = journal.sites[probe.site];
    if (site.phase == Phase::left_out || site.own == 0) return false;
    std::array<uint8_t, layout::kMaxSiteLength> bytes;
    const size_t own = std::min<size_t>(site.own, bytes.size());
    return site.phase == Phase::gone || !memory.read(site.address, std::span(bytes).first(own)) ||
           std::equal(bytes.begin(), bytes.begin() + own, site.original);
  });
}

enum class Which : uint8_t { times, gaps };
using OpenMemory = Result<target::Memory, SystemError>;

StatisticFigures figures_of(const FoundSession& found, Which which, const OpenMemory& memory) {
  const layout::Session& journal = found.journal;
  const layout::FileHeader& header = journal.header;
  StatisticFigures figures;
  const bool is_gap = which == Which::gaps;
  figures.kind = is_gap                  ? StatisticFigures::Kind::gaps
                 : journal.spans.empty() ? StatisticFigures::Kind::calls
                                         : StatisticFigures::Kind::span;
  figures.name = (is_gap ? std::string(kGapPrefix) : "") + statistic_name(journal);
  figures.what = described(journal);
  if (!journal.probes.empty()) {
    const layout::ProbeEntry& first =
        journal.probes[journal.spans.empty() ? 0 : journal.spans[0].start];
    figures.object = journal.name(journal.objects[first.object].name);
    figures.file = journal.name(journal.objects[first.object].path);
    figures.address = journal.address_in_file(first);
  }
  figures.bits = header.fraction_bits;
  figures.is_running = header.is_stopped == 0;
  figures.is_gone = found.target_lives && memory && has_lost_a_probe(journal, *memory);
  figures.created_ns = header.created_ns;
  figures.of_thread = is_gap && header.gap == layout::Gap::thread;
  const uint64_t gaps = layout::metric_count(header);
  const uint64_t histogram = is_gap ? gaps : 0;
  uint64_t gaps_missed = 0;
  // A reset meanwhile: some of it is from before, and some from after.
  constexpr int kAttempts = 8;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    layout::Session now = journal;
    now.header.resets = found.file.resets().value_or(header.resets);
    figures.by_cpu = found.file.read_by_cpu(now, histogram);
    const auto losses = found.file.read_losses(now);
    if (histogram < losses.size()) figures.losses = losses[histogram];
    if (!is_gap && gaps < losses.size()) gaps_missed = losses[gaps][Loss::missed];
    figures.resets = now.header.resets;
    if (found.file.resets() == now.header.resets) break;
  }
  // The pool's number is that of both, for the whole time: after a reset nothing can be said. Gaps
  // are missed for nothing else.
  const uint64_t refused = figures.resets == 0 ? found.file.read_pool(journal).refused : 0;
  figures.refused =
      is_gap ? figures.losses[Loss::missed] : refused - std::min(refused, gaps_missed);
  return figures;
}

// Those of the statistic, and of its gaps.
void add_figures(const FoundSession& found, const OpenMemory& memory,
                 std::vector<StatisticFigures>& figures) {
  figures.push_back(figures_of(found, Which::times, memory));
  if (found.journal.header.gap != layout::Gap::none)
    figures.push_back(figures_of(found, Which::gaps, memory));
}

void add_figures(const ledger::RecordedFile& file, std::vector<StatisticFigures>& figures) {
  auto recorded = file.read();
  if (!recorded) return;
  for (auto& one : *recorded) figures.push_back(figures_of(std::move(one)));
}

}  // namespace

std::vector<FoundSession> Statistics::all() const {
  auto found = ledger::find_sessions(pid_);
  auto& sessions = found.sessions;
  std::erase_if(sessions, [](const FoundSession& one) { return !one.is_kept(); });
  if (sessions.empty()) return std::move(sessions);
  const uint64_t start_time = start_time_of(pid_);
  const PresentProgram program(pid_);
  std::erase_if(sessions, [&](const FoundSession& one) {
    return one.journal.header.start_time != start_time || (one.target_lives && !program.has(one));
  });
  std::stable_sort(sessions.begin(), sessions.end(), [](const auto& a, const auto& b) {
    return a.journal.header.created_ns < b.journal.header.created_ns;
  });
  return std::move(sessions);
}

std::optional<FoundSession> Statistics::find(const std::string& name) const {
  for (FoundSession& one : all())
    if (statistic_name(one.journal) == name) return std::move(one);
  return std::nullopt;
}

std::optional<FoundSession> Statistics::find_either(const std::string& name) const {
  if (!name.starts_with(kGapPrefix)) return find(name);
  auto found = find(name.substr(kGapPrefix.size()));
  if (found && found->journal.header.gap == layout::Gap::none) return std::nullopt;
  return found;
}

Result<engine::ArmReport, StatisticError> Statistics::trace(const StatisticSpec& statistic) {
  auto traced = try_to_trace(statistic);
  const auto* error = traced ? nullptr : std::get_if<MeasurementError>(&traced.error());
  if (error != nullptr && is_outdated(*error)) return try_to_trace(statistic);
  return traced;
}

Result<engine::ArmReport, StatisticError> Statistics::try_to_trace(const StatisticSpec& statistic) {
  // A session file with such a name is refused by all that read it: nothing could take it out.
  if (!layout::is_statistic_name(statistic.name))
    return fail(StatisticError(BadName{statistic.name}));
  auto spec = spec_of(statistic);
  if (!spec) return fail(spec.error());
  const auto turn = ledger::Turn::take(pid_);
  if (!turn) return fail(error(turn.error()));
  if (auto closed = ledger::why_closed(pid_)) return fail(error(*closed));
  static_cast<void>(take_out_left_overs(pid_, *store_));
  if (find(statistic.name) || !recorded(&statistic.name).empty())
    return fail(StatisticError(NameTaken{statistic.name}));
  auto target = open_target(pid_);
  if (!target) return fail(error(target.error()));
  if (auto able = target::can_be_hijacked(pid_); !able) return fail(error(able.error()));
  auto subject = look_at(*target, *store_);
  if (!subject) return fail(error(subject.error()));
  auto set = plan(*subject, *spec);
  if (!set) return fail(StatisticError(set.error()));
  // The end of such a span is its next start.
  for (const placement::Span& span : set->spans)
    if (span.starts == span.ends) spec->arming.gap = layout::Gap::none;
  if (statistic.end.empty())
    if (auto ambiguous = ambiguity(*set, statistic.start))
      return fail(StatisticError(MeasurementError(MatchError(*std::move(ambiguous)))));
  if (set->patches.empty() && !set->skipped.empty())
    return fail(
        StatisticError(NotTimed{set->skipped.front().match.name(), set->skipped.front().refusal}));
  engine::Engine engine(*target);
  const auto changed = engine.apply(
      {.add = engine::Addition{std::move(subject->image), *std::move(set), spec->arming}});
  if (!changed) return fail(error(changed.error()));
  engine::Session& session = changed->added->session;
  if (session.report().armed == 0) {
    const auto& skipped = session.report().skipped;
    if (skipped.empty())
      return fail(StatisticError(MeasurementError(NothingArmed{spec->selection.kind()})));
    return fail(StatisticError(NotTimed{skipped.front().match.name(), skipped.front().refusal}));
  }
  engine::ArmReport report = session.report();
  if (auto kept = session.keep(); !kept) return fail(error(kept.error()));
  admit_callers_of_statistics(*target, changed->added->image->calling_code());
  return report;
}

Result<void, StatisticError> Statistics::remove(const std::string& name) {
  const auto turn = ledger::Turn::take(pid_);
  if (!turn) return fail(error(turn.error()));
  const auto found = find(name);
  if (!found && !recorded(&name).empty()) return fail(StatisticError(OfProgram{name}));
  if (!found) return fail(StatisticError(NoStatistic{name}));
  // From here on it is a left-over, also if we die: what is half undone is no statistic.
  if (auto given_up = give_up(*found); !given_up) return fail(error(given_up.error()));
  auto removed = take_out_left_over(*found, *store_);
  if (!removed) return fail(error(removed.error()));
  return {};
}

Result<void, StatisticError> Statistics::change(const std::string& name, const Change& change) {
  const auto turn = ledger::Turn::take(pid_);
  if (!turn) return fail(error(turn.error()));
  const auto found = find_either(name);
  if (!found) return fail(StatisticError(NoStatistic{name}));
  auto target = open_target(pid_);
  if (!target) return fail(error(target.error()));
  if (!is_statistic_in_place(*found))
    return fail(error(target::AttachError{target::AttachCause::exited, pid_, 0, 0, {}}));
  auto file = ledger::SessionFile::open(found->file.path(), ledger::SessionFile::Lock::exclusive);
  if (!file) return fail(error(file.error()));
  auto journal = file->read();  // again, now that the file is locked
  if (!journal) return fail(error(journal.error()));
  if (!ledger::is_trusted(*file, pid_))
    return fail(
        error(ledger::FileError{ledger::FileError::Cause::untrusted, file->path(), 0, {}, 0}));
  const auto maps = image::read_maps(pid_);
  if (!maps || !engine::is_in_target(target->memory(), *journal, *maps, *file))
    return fail(error(target::AttachError{target::AttachCause::exited, pid_, 0, 0, {}}));
  return change(*target, *file, *journal);
}

Result<void, StatisticError> Statistics::switch_to(const std::string& name, engine::Switched to) {
  return change(name,
                [&](const target::RemoteTarget& target, ledger::SessionFile& file,
                    layout::Session& journal) -> Result<void, StatisticError> {
                  const bool stops = to == engine::Switched::off;
                  if (!stops && journal.header.is_stopped != 0)
                    if (auto forgotten = engine::forget_starts(target.memory(), file, journal);
                        !forgotten)
                      return fail(error(forgotten.error()));
                  std::vector<uint32_t> probes(journal.probes.size());
                  std::iota(probes.begin(), probes.end(), 0u);
                  const auto switched = engine::switch_probes(target, file, journal, probes, to);
                  if (!switched) return fail(error(switched.error()));
                  if (switched->unswitched != 0) {
                    // All of its points, or none.
                    const auto back = stops ? engine::Switched::on : engine::Switched::off;
                    static_cast<void>(engine::switch_probes(target, file, journal, probes, back));
                    return fail(StatisticError(NotSwitched{name}));
                  }
                  journal.header.is_stopped = stops ? 1 : 0;
                  journal.header.stopped_ns = stops ? realtime_ns() : 0;
                  if (auto written = file.write_header(journal.header); !written)
                    return fail(error(written.error()));
                  return {};
                });
}

std::vector<ledger::RecordedStatistic> Statistics::recorded(const std::string* name) const {
  std::vector<ledger::RecordedStatistic> all;
  for (const auto& file : recordings_of(pid_, ledger::RecordedFile::Access::read)) {
    if (name != nullptr) {
      if (auto one = file.read(*name)) all.push_back(*std::move(one));
    } else if (auto some = file.read()) {
      std::move(some->begin(), some->end(), std::back_inserter(all));
    }
  }
  return all;
}

Result<void, StatisticError> Statistics::change_recorded(const std::string& name,
                                                         const ChangeRecorded& change) {
  for (auto& file : recordings_of(pid_, ledger::RecordedFile::Access::change)) {
    const auto changed = change(file);
    if (changed) return {};
    if (changed.error().cause != ledger::RecordedError::Cause::no_statistic)
      return fail(StatisticError(changed.error()));
  }
  return fail(StatisticError(NoStatistic{name}));
}

Result<void, StatisticError> Statistics::start(const std::string& name) {
  if (!find_either(name))
    return change_recorded(name, [&](auto& file) { return file.set_running(name, true); });
  return switch_to(name, engine::Switched::on);
}

Result<void, StatisticError> Statistics::stop(const std::string& name) {
  if (!find_either(name))
    return change_recorded(name, [&](auto& file) { return file.set_running(name, false); });
  return switch_to(name, engine::Switched::off);
}

Result<void, StatisticError> Statistics::reset(const std::string& name) {
  if (!find_either(name))
    return change_recorded(name, [&](auto& file) { return file.reset(name); });
  return change(name,
                [&](const target::RemoteTarget& target, ledger::SessionFile& file,
                    layout::Session& journal) -> Result<void, StatisticError> {
                  const auto done = engine::reset(target, file, journal);
                  if (!done) return fail(error(done.error()));
                  return {};
                });
}

std::vector<StatisticState> Statistics::list() const {
  std::vector<StatisticState> states;
  for (const FoundSession& one : all()) {
    const layout::FileHeader& header = one.journal.header;
    states.push_back({statistic_name(one.journal), header.is_stopped == 0, header.created_ns,
                      header.stopped_ns, false});
    if (header.gap == layout::Gap::none) continue;
    states.push_back(states.back());
    states.back().name.insert(0, kGapPrefix);
  }
  for (const auto& one : recorded())
    states.push_back({one.name, one.running, one.created_ns, one.created_ns, true});
  return states;
}

Result<StatisticFigures, StatisticError> Statistics::read(const std::string& name) const {
  const auto found = find_either(name);
  if (!found) {
    const auto recordings = recorded(&name);
    if (recordings.empty()) return fail(StatisticError(NoStatistic{name}));
    return figures_of(recordings.front());
  }
  const bool is_gap = name.starts_with(kGapPrefix);
  return figures_of(*found, is_gap ? Which::gaps : Which::times, target::Memory::open(pid_));
}

std::vector<StatisticFigures> Statistics::read_all() const {
  std::vector<StatisticFigures> figures;
  const auto memory = target::Memory::open(pid_);
  for (const FoundSession& one : all()) add_figures(one, memory, figures);
  for (const auto& file : recordings_of(pid_, ledger::RecordedFile::Access::read))
    add_figures(file, figures);
  return figures;
}

void read_statistics(
    std::span<const FoundSession> sessions, std::span<const ledger::RecordedFile> recordings,
    const std::function<void(const ProcessName&, std::vector<StatisticFigures>)>& take) {
  struct Files {
    std::vector<const FoundSession*> sessions;
    std::vector<const ledger::RecordedFile*> recordings;
  };
  std::map<pid_t, Files> by_pid;
  for (const FoundSession& one : sessions)
    if (one.is_kept() && one.target_lives) by_pid[one.journal.header.pid].sessions.push_back(&one);
  for (const auto& file : recordings)
    if (file.process_lives() && !is_of_earlier_program(file))
      by_pid[file.pid()].recordings.push_back(&file);
  for (const auto& [pid, files] : by_pid) {
    const auto status = target::read_status(pid);
    if (!status) continue;
    const auto memory = target::Memory::open(pid);
    const PresentProgram program(pid);
    std::vector<StatisticFigures> figures;
    for (const FoundSession* one : files.sessions)
      if (program.has(*one)) add_figures(*one, memory, figures);
    for (const ledger::RecordedFile* file : files.recordings) add_figures(*file, figures);
    if (!figures.empty()) take({pid, status->command}, std::move(figures));
  }
}

std::vector<pid_t> processes_with_statistics() {
  std::vector<pid_t> pids;
  for (const FoundSession& one : ledger::find_sessions().sessions)
    if (is_statistic_in_place(one)) pids.push_back(one.journal.header.pid);
  using Access = ledger::RecordedFile::Access;
  for (const auto& file : ledger::find_recordings(std::nullopt, Access::read).files)
    if (file.process_lives() && !is_of_earlier_program(file)) pids.push_back(file.pid());
  return pids;
}

}  // namespace pinprick::session
