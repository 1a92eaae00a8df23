#include "engine/session.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/task.h"
#include "engine/arming.h"
#include "engine/forked_session.h"
#include "engine/plan/trapping.h"
#include "engine/watch/providing.h"
#include "ledger/turn.h"
#include "patch/text_edit.h"
#include "select/spec.h"

namespace pinprick::engine {

Result<Session, ledger::SessionError> Session::arm(target::RemoteTarget target,
                                                   const image::ProcessImage& image,
                                                   placement::ProbeSet set,
                                                   const ArmOptions& options) {
  const auto turn = ledger::Turn::take(target.pid());
  if (!turn) return fail(turn.error());
  Session session(std::move(target), image);
  session.report_.skipped = std::move(set.skipped);
  session.actions_ = set.actions;
  if (!set.patches.empty()) {
    Arming arming(session, std::move(set), options);
    if (auto armed = arming.run(); !armed) {
      if (session.file_) static_cast<void>(session.disarm());
      return fail(armed.error());
    }
    session.is_armed_ = true;
  }
  session.report_functions_once();
  const auto& skipped = session.report_.skipped;
  if (std::any_of(skipped.begin(), skipped.end(), may_be_trapped))
    if (const auto some = session.trappable(); !some.empty()) {
      if (options.trap)
        session.trap_skipped(some);
      else
        session.report_.trap_would_help = true;
    }
  if (session.direct_) session.admit_regions();
  return session;
}

// A call and its self time have a probe each, and are one thing to people.
void Session::report_functions_once() {
  if (!actions_.tell_self_times()) return;
  report_.armed -= static_cast<size_t>(std::ranges::count_if(
      probes_, [&](const ArmedProbe& probe) { return action_of(probe).tells_self_time(); }));
  std::erase_if(report_.skipped, [&](const placement::Skipped& one) {
    return actions_.of(one.match.pattern).tells_self_time();
  });
}

// The skipped ones at which the kernel may place a breakpoint. Not where a jump of ours lies: the
// kernel knows the file's bytes, and would go on in its middle.
std::vector<size_t> Session::trappable() const {
  std::vector<Range> taken;
  for (const layout::SiteEntry& site : journal_.sites)
    taken.push_back({site.address, site.address + std::max(site.length, site.displaced)});
  const OtherSites others = OtherSites::find(target_.pid(), target_.memory(), file_path());
  for (const OtherSite* other : others.in({0, UINT64_MAX})) taken.push_back(other->touched());
  for (const layout::OwnSite& site : others.program().sites()) taken.push_back(site.range());
  std::sort(taken.begin(), taken.end(), [](Range a, Range b) { return a.begin < b.begin; });
  const auto is_free = [&](Address address) {
    const auto next = std::upper_bound(taken.begin(), taken.end(), address,
                                       [](Address a, Range range) { return a < range.begin; });
    return next == taken.begin() || !std::prev(next)->contains(address);
  };
  // The kernel counts, and looks at nothing.
  const auto counts_each_hit = [&](const image::Match& match) {
    const action::Action& action = actions_.of(match.pattern);
    return action.counts() && action.condition.empty();
  };
  std::vector<size_t> skipped;
  for (size_t i = 0; i < report_.skipped.size(); ++i) {
    const placement::Skipped& one = report_.skipped[i];
    if (counts_each_hit(one.match) && may_be_trapped(one) && is_free(one.match.site))
      skipped.push_back(i);
  }
  return skipped;
}

void Session::trap_skipped(const std::vector<size_t>& skipped) {
  std::vector<target::KernelUprobes::Request> wanted;
  for (const size_t i : skipped) {
    const image::Match& match = report_.skipped[i].match;
    Address semaphore = 0;
    if (match.point != nullptr && match.point->semaphore != 0)
      semaphore = match.point->semaphore + match.object->bias();
    wanted.push_back({match.site, semaphore});
  }
  auto placed = target::KernelUprobes::place(target_.pid(), target_.memory(), wanted);
  if (!placed) {
    report_.trap_refused = placed.error();
    return;
  }
  kernel_ = *std::move(placed);
  std::vector<bool> armed(report_.skipped.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!kernel_->placed()[i]) continue;
    probes_.push_back({static_cast<uint32_t>(matches_.size()),
                       static_cast<uint32_t>(journal_.probes.size() + i)});
    matches_.push_back(report_.skipped[skipped[i]].match);
    armed[skipped[i]] = true;
    ++report_.trapped;
  }
  report_.armed += report_.trapped;
  size_t i = 0;
  std::erase_if(report_.skipped, [&](const placement::Skipped&) { return armed[i++]; });
}

ProbeName Session::name_of(const ArmedProbe& armed) const {
  const image::Match& match = match_of(armed);
  const placement::Kind kind = kind_of(armed);
  if (kind == placement::Kind::span)
    return {.object = match.object->name(),
            .function = journal_.name(journal_.spans[armed.index].name),
            .file = match.object->path(),
            .build_id = match.object->elf().build_id(),
            .address = match.address()};
  uint64_t offset = match.offset();
  Address address = match.address();
  if (match.each_instruction) {
    const layout::ProbeEntry& probe = journal_.probes[armed.index];
    const Address site = journal_.sites[probe.site].address + probe.offset;
    offset = match.offset_of(site);
    address = site - match.object->bias();
  }
  ProbeName name = {.object = match.object->name(),
                    .function = match.function_name,
                    .offset = offset,
                    .is_point = match.point != nullptr,
                    .file = match.object->path(),
                    .build_id = match.object->elf().build_id(),
                    .address = address,
                    .is_shared = match.shares_name,
                    .event = actions_.of(match.pattern).event,
                    .site = address + match.object->bias()};
  name.condition = actions_.of(match.pattern).condition.text;
  name.at_return = actions_.of(match.pattern).at_return;
  const action::Action& action = actions_.of(match.pattern);
  if (!action.value.empty()) {
    name.value = action.value.text;
    name.is_signed = journal_.probe_name(armed.index).is_signed;
  }
  if (action.has_sum()) {
    name.sum = action.sum.text;
    name.is_sum_signed = journal_.probe_name(armed.index).is_sum_signed;
    name.is_sum_real = journal_.probe_name(armed.index).is_sum_real;
  }
  if (action.has_key()) {
    name.key = action.key.text;
    name.is_key_signed = journal_.probe_name(armed.index).is_key_signed;
    name.is_key_real = journal_.probe_name(armed.index).is_key_real;
    name.is_key_text = action.has_text_key();
    name.is_key_code = action.has_caller_key();
    name.is_key_command = select::is_command_key(action.key.text);
    if (action.has_list_key()) name.key_parts = journal_.probe_name(armed.index).key_parts;
  }
  return name;
}

size_t Session::cell_of(const ArmedProbe& probe) const {
  if (kind_of(probe) == placement::Kind::span)
    return layout::first_span_of(journal_.header) + probe.index;
  const size_t placed = journal_.probes.size();
  if (probe.index >= placed)  // the kernel counts it
    return journal_.header.counter_count + (probe.index - placed);
  return cells_.empty() ? probe.index : cells_[probe.index];
}

std::vector<uint64_t> Session::counters() const {
  std::vector<uint64_t> counters;
  if (file_) counters = file_->read_counters(journal_);
  if (!kernel_) return counters;
  const auto hits = kernel_->hits();
  counters.insert(counters.end(), hits.begin(), hits.end());
  return counters;
}

std::vector<uint64_t> Session::sums() const {
  return file_ ? file_->read_sums(journal_) : std::vector<uint64_t>();
}

ledger::SessionFile::Rests Session::rests() const {
  return file_ ? file_->read_rests(journal_) : ledger::SessionFile::Rests();
}

uint64_t Session::owner_of_keys(const ArmedProbe& probe) const {
  return layout::owner_of_keys(journal_.header, journal_.probes[probe.index], cell_of(probe));
}

std::vector<ledger::KeyHits> Session::keys(const std::vector<layout::Extremes>& extremes) const {
  return file_ ? file_->read_keys(journal_, extremes) : std::vector<ledger::KeyHits>();
}

std::vector<layout::Extremes> Session::extremes() const {
  return file_ ? file_->read_extremes(journal_) : std::vector<layout::Extremes>();
}

std::vector<layout::Extremes> Session::end_interval() {
  if (!file_ || !file_->start_interval(journal_)) return {};
  return file_->read_extremes(journal_, journal_.header.interval - 1);
}

void Session::stop_reads() {
  if (!runtime_ || journal_.header.has_unread == 0) return;
  const Address reads = runtime_->context() + offsetof(layout::RuntimeContext, reads);
  static_cast<void>(target_.memory().write_value(reads, uint64_t{0}));
  stop_direct_reads();
}

std::vector<ledger::ReadText> Session::texts() const {
  return file_ ? file_->read_texts(journal_) : std::vector<ledger::ReadText>();
}

std::vector<uint64_t> Session::unread() const {
  return file_ ? file_->read_unread(journal_) : std::vector<uint64_t>();
}

std::vector<ledger::ReadText> Session::texts_from(uint64_t number) const {
  return file_ ? file_->read_texts_from(journal_, number) : std::vector<ledger::ReadText>();
}

std::vector<uint64_t> Session::passed() const {
  return file_ ? file_->read_passed(journal_) : std::vector<uint64_t>();
}

std::vector<uint64_t> Session::dropped() const {
  return file_ ? file_->read_dropped(journal_) : std::vector<uint64_t>();
}

// An event whose number belongs to no probe was not written by a stub: it is left out.
bool Session::take_events(ledger::Events& events) {
  events.clear();
  if (!file_ || events_.empty()) return false;
  const bool soon = file_->take_events(journal_, events);
  events.remove_if([&](const ledger::Event& one) { return !count(one); });
  return soon;
}

bool Session::count(const ledger::Event& event) {
  if (event.probe >= events_.size() || event.values.size() != field_forms(event.probe).size())
    return false;
  ++events_[event.probe];
  return true;
}

std::optional<ledger::NewestEvents> Session::newest_events() {
  if (!file_ || !keeps_newest_events()) return std::nullopt;
  return file_->newest_events(journal_);
}

bool Session::keeps_newest_events() const {
  return !events_.empty() && journal_.header.rings != layout::EventRings::oldest;
}

void Session::stop_events() {
  if (file_) file_->stop_events(journal_);
}

void Session::restart_events(bool goes_on) {
  if (!file_) return;
  has_overwritten_before_ = has_overwritten_before_ || has_overwritten_events();
  if (goes_on)
    file_->restart_events(journal_);
  else
    file_->pass_over_events();
}

void Session::undo_late_stops() {
  if (file_) file_->undo_late_stops(journal_);
}

bool Session::is_triggered() const {
  return file_ && file_->is_triggered(journal_);
}

bool Session::has_overwritten_events() const {
  return file_ && file_->has_overwritten_events(journal_);
}

std::vector<stats::Histogram> Session::histograms() const {
  return file_ ? file_->read_histograms(journal_) : std::vector<stats::Histogram>();
}

std::vector<uint64_t> Session::hits() const {
  std::vector<uint64_t> hits;
  hits.reserve(probes_.size());
  const auto counts = counters();
  std::vector<uint64_t> of_histograms;
  if (file_ && journal_.header.histogram_count != 0) of_histograms = file_->read_hits(journal_);
  for (const ArmedProbe& probe : probes_) {
    const std::vector<uint64_t>& all = action_of(probe).counts() ? counts : of_histograms;
    const size_t cell = cell_of(probe);
    hits.push_back(cell < all.size() ? all[cell] : 0);
  }
  for (size_t i = 0; i < probes_.size() && !events_.empty(); ++i)
    hits[i] += events_[probes_[i].index];
  if (!actions_.uses_keys()) return hits;
  std::map<uint64_t, uint64_t> by_owner;
  for (const ledger::KeyHits& one : keys()) {
    by_owner[one.owner] += one.hits;
    if (one.recorded)
      by_owner[one.owner] += one.recorded->histogram.count() + one.recorded->losses.total();
  }
  const auto without_room = rests();
  for (size_t i = 0; i < probes_.size(); ++i) {
    const action::Action& action = action_of(probes_[i]);
    if (!action.uses_keys()) continue;
    hits[i] += by_owner[owner_of_keys(probes_[i])];
    const size_t cell = cell_of(probes_[i]);
    if (action.at_return && action.kind == placement::Kind::count &&
        cell < without_room.hits.size())
      hits[i] += without_room.hits[cell];
  }
  return hits;
}

// What the kernel counts, and what has left the text, is in a group of its own.
std::vector<uint32_t> Session::groups() const {
  std::vector<uint32_t> groups;
  groups.reserve(probes_.size());
  const auto of_sites = sites_restored_together(journal_);
  const auto points = points_of_spans();
  auto alone = static_cast<uint32_t>(of_sites.size());
  for (const ArmedProbe& probe : probes_) {
    if (has_entry(probe))
      groups.push_back(of_sites[journal_.probes[probe.index].site]);
    else if (kind_of(probe) == placement::Kind::span && !points.empty())
      groups.push_back(of_sites[journal_.probes[points.front()].site]);
    else
      groups.push_back(alone++);
  }
  return groups;
}

std::vector<layout::Losses> Session::losses() const {
  if (!file_) return {};
  auto losses = file_->read_losses(journal_);
  const auto& [abandoned, ended] = never_returned_;
  for (size_t i = 0; i < abandoned.size() && i < losses.size(); ++i) {
    losses[i][layout::Loss::abandoned] = abandoned[i];
    losses[i][layout::Loss::ended] = ended[i];
  }
  return losses;
}

bool Session::has_hits() const {
  if (std::any_of(events_.begin(), events_.end(), [](uint64_t n) { return n != 0; })) return true;
  const auto hits = counters();
  if (std::any_of(hits.begin(), hits.end(), [](uint64_t n) { return n != 0; })) return true;
  if (!file_) return false;
  const auto losses = file_->read_losses(journal_);
  return file_->read_pool(journal_).taken != 0 || !file_->read_keys(journal_).empty() ||
         std::any_of(losses.begin(), losses.end(),
                     [](const layout::Losses& one) { return one.total() != 0; });
}

// For a site whose text holds another jump than ours: does that one lead on to ours? If no other
// owner is there, another tool has changed the text, and may do so again. Reads the files of all
// other sessions.
bool Session::is_in_place(const layout::SiteEntry& site) const {
  const auto others = OtherSites::find(target_.pid(), target_.memory(), file_->path());
  const layout::SiteEntry& head = head_of(journal_, site);
  return !others.has_any_at(head.address) || others.share_with(target_.memory(), head);
}

namespace {

// Is the object of the same file in both images? It may have been renamed in between.
bool is_same_file(const image::ProcessImage& before, const image::ProcessImage& now,
                  const image::Object& object) {
  const image::FileNumber file = now.file_of(object);
  return file.inode != 0 && before.file_of(object) == file;
}

}  // namespace

bool Session::may_be_unloaded() const {
  if (!file_ || state_ != State::armed) return false;
  return std::any_of(sites_of_objects_.begin(), sites_of_objects_.end(), [&](const auto& sites) {
    if (!sites.has_probes || sites.armed == sites.end) return false;
    const auto edit = patch::arming(journal_.sites[sites.armed]);
    return patch::examine(target_.memory(), {&edit, 1})[0] != patch::EditOutcome::already;
  });
}

std::vector<Unloaded> Session::note_unloaded(const image::ProcessImage& now) {
  if (!file_ || state_ != State::armed) return {};
  std::vector<size_t> gone;
  for (size_t number = 0; number < journal_.objects.size(); ++number) {
    const layout::ObjectEntry& entry = journal_.objects[number];
    const auto object = std::find_if(now.objects.begin(), now.objects.end(), [&](const auto& one) {
      return one->bias() == entry.bias &&
             (one->path() == journal_.name(entry.path) || is_same_file(*image_, now, *one));
    });
    const ObjectSites& sites = sites_of_objects_[number];
    if (sites.armed == sites.end) continue;
    // The text is the truth: a file that cannot be read just now is not gone. Unloaded and loaded
    // again at the same address, an object holds its own bytes.
    const auto edit = patch::arming(journal_.sites[sites.armed]);
    const auto held = patch::examine(target_.memory(), {&edit, 1})[0];
    if (held == patch::EditOutcome::already) continue;
    // Each batch has hooks of its own, at the same sites.
    if (held == patch::EditOutcome::different && object != now.objects.end() &&
        (!sites.has_probes || is_in_place(journal_.sites[sites.armed])))
      continue;
    gone.push_back(number);
  }
  // Nothing can be read of a process that is ending.
  if (gone.empty() || !target_.same_image()) return {};
  std::vector<Unloaded> unloaded;
  for (const size_t number : gone) {
    ObjectSites& sites = sites_of_objects_[number];
    for (size_t i = sites.begin; i < sites.end; ++i)
      journal_.sites[i].leave_text(layout::SiteEntry::Phase::gone);
    for (layout::SemaphoreEntry& semaphore : journal_.semaphores)
      if (semaphore.object == number &&
          semaphore.progress != layout::SemaphoreEntry::Progress::untouched)
        semaphore.progress = layout::SemaphoreEntry::Progress::lowered;
    sites.armed = sites.end;
    const layout::ObjectEntry& entry = journal_.objects[number];
    unloaded.push_back({std::string(journal_.name(entry.name)),
                        std::string(journal_.name(entry.path)), entry.bias});
  }
  static_cast<void>(file_->write_tables(journal_));
  return unloaded;
}

bool Session::provide() {
  if (!runtime_ || state_ != State::armed) return false;
  while (file_->extend_pool(journal_, runtime_->pool_bytes)) continue;
  sweep_threads();
  admit_regions_again();
  const Provided slots = provide_slots(target_.memory(), journal_);
  if (slots.slots != 0) runtime_->spec.slot_count = slots.slots;
  return slots.soon;
}

// With the process's turn held. What the process maps later is admitted when hits have read there.
void Session::admit_regions() {
  constexpr uint64_t kFirstPauseNs = 100'000'000, kLongestPauseNs = 5'000'000'000;
  const Admission decided = engine::admit_regions(target_, *direct_, report_.stopped_ns);
  seen_reads_.pause_ns =
      std::min(std::max(2 * seen_reads_.pause_ns, kFirstPauseNs), kLongestPauseNs);
  seen_reads_.look_ns = monotonic_ns() + seen_reads_.pause_ns;
  switch (decided) {
    case Admission::done:
    case Admission::later:
      return;
    case Admission::no_rseq:
      report_.slow_reads = SlowReads::no_rseq;
      break;
    case Admission::code_generated:
      report_.slow_reads = SlowReads::unwatched;
      break;
    case Admission::calls_refused:
      report_.slow_reads = SlowReads::refused;
      break;
    case Admission::reads_forbidden:
      break;
  }
  stop_direct_reads();
}

uint64_t Session::reads_by_kernel() const {
  if (!runtime_ || journal_.header.has_unread == 0) return 0;
  uint64_t reads = 0;
  const Address at = runtime_->context() + offsetof(layout::RuntimeContext, slow_reads);
  return target_.memory().read_value(at, reads) ? reads : 0;
}

// Each admission stops the process for a moment, so there must be a use for it.
void Session::admit_regions_again() {
  if (monotonic_ns() >= seen_reads_.look_ns) admit_regions_now();
}

void Session::admit_regions_now() {
  constexpr uint64_t kMany = 1000, kTimeoutNs = 10'000'000;
  if (!direct_) return;
  const uint64_t now = reads_by_kernel();
  if (now - seen_reads_.seen < kMany) return;
  const auto turn = ledger::Turn::take(target_.pid(), kTimeoutNs);
  if (!turn) return;
  seen_reads_.seen = now;
  admit_regions();
}

void Session::note_harmless(const image::ProcessImage& now) {
  if (!direct_) return;
  for (const auto& object : now.objects) direct_->watched.insert(now.file_of(*object));
}

void Session::end_direct_reads_of_load() {
  if (direct_) report_.slow_reads = SlowReads::loaded;
  stop_direct_reads();
}

void Session::stop_direct_reads() {
  if (!direct_) return;
  // Threads that are reading while they are stopped start again, and ask the kernel.
  auto stopped = target::Stop::all_threads(target_.pid());
  if (target_.same_image()) forbid_regions(target_.memory(), direct_->regions);
  if (stopped) static_cast<void>(std::move(*stopped).resume());
  direct_.reset();
}

void Session::sweep_threads() {
  if (runtime_->spec.spans == 0 || monotonic_ns() - runtime_->swept_ns < kSweepPauseNs) return;
  runtime_->swept_ns = monotonic_ns();
  engine::sweep_threads(target_.pid(), target_.memory(), journal_);
}

uint64_t Session::slots_to_ask_for() const {
  if (!runtime_) return 0;
  const runtime::RuntimeSpec& spec = runtime_->spec;
  return spec.slot_count < spec.capacity ? spec.capacity : 2 * spec.capacity;
}

Address Session::Runtime::context() const {
  return address + runtime::runtime_extent(spec).data_size - sizeof(layout::RuntimeContext);
}

void Session::admit_callers(std::span<const Range> code) {
  if (!runtime_ || runtime_->spec.callers_size == 0 || state_ != State::armed) return;
  std::vector<Range> all(code.begin(), code.end());
  const OtherSites others = OtherSites::find(target_.pid(), target_.memory(), file_->path());
  all.insert(all.end(), others.code().begin(), others.code().end());
  for (const runtime::Piece& piece : runtime_->callers.update(all))
    if (!target_.memory().write(piece.address, piece.bytes)) return;  // it has ended
}

void Session::admit_frames(const image::ProcessImage& now) {
  if (!runtime_ || !runtime_->frames || state_ != State::armed || !runtime_->frames->update(now))
    return;
  for (const runtime::Piece& piece : runtime_->frames->pieces())
    if (!target_.memory().write(piece.address, piece.bytes)) return;  // it has ended
}

std::vector<Range> Session::code() const {
  std::vector<Range> code;
  for (const layout::MappingEntry& entry : journal_.mappings)
    if (layout::is_code(entry.kind)) code.push_back({entry.address, entry.address + entry.size});
  return code;
}

std::optional<Address> Session::take_unknown_caller() {
  if (!runtime_ || state_ != State::armed) return std::nullopt;
  const Address at = runtime_->context() + offsetof(layout::RuntimeContext, unknown_caller);
  Address unknown_caller = 0;
  if (!target_.memory().read_value(at, unknown_caller) || unknown_caller == 0) return std::nullopt;
  static_cast<void>(target_.memory().write_value(at, Address{0}));
  return unknown_caller;
}

bool Session::is_gone() const {
  return !kernel_ && exec_ == nullptr &&
         std::all_of(sites_of_objects_.begin(), sites_of_objects_.end(),
                     [](const ObjectSites& sites) {
                       return !sites.has_probes || sites.armed == sites.end;
                     });
}

Session::Session(Session&& other) noexcept
    : target_(std::move(other.target_)),
      image_(other.image_),
      actions_(std::move(other.actions_)),
      matches_(std::move(other.matches_)),
      probes_(std::move(other.probes_)),
      cells_(std::move(other.cells_)),
      events_(std::move(other.events_)),
      has_overwritten_before_(other.has_overwritten_before_),
      form_of_probe_(std::move(other.form_of_probe_)),
      forms_of_fields_(std::move(other.forms_of_fields_)),
      report_(std::move(other.report_)),
      journal_(std::move(other.journal_)),
      file_(std::exchange(other.file_, std::nullopt)),
      removed_(std::move(other.removed_)),
      sites_of_objects_(std::move(other.sites_of_objects_)),
      loader_(std::move(other.loader_)),
      exec_(std::move(other.exec_)),
      runtime_(std::move(other.runtime_)),
      direct_(std::exchange(other.direct_, std::nullopt)),
      seen_reads_(other.seen_reads_),
      kernel_(std::move(other.kernel_)),
      is_armed_(other.is_armed_),
      state_(other.state_) {}

bool Session::is_in(pid_t forked) const {
  return file_ && has_session(forked, *file_);
}

std::vector<pid_t> Session::forked() const {
  if (!file_) return {};
  auto all = processes_with(*file_);
  std::erase(all, target_.pid());
  return all;
}

namespace {

// Of the probes that were removed from the parent, those that are removed in the child with that
// journal as well: it may have been forked before.
std::vector<bool> still_removed(const layout::Session& child, std::vector<bool> removed) {
  for (size_t i = 0; i < removed.size() && i < child.probes.size(); ++i) {
    const bool is_off = i < child.switches.size() && child.switches[i].is_on == 0;
    removed[i] = removed[i] && (is_off || !child.sites[child.probes[i].site].is_in_text());
  }
  return removed;
}

}  // namespace

Result<Session, ledger::SessionError> Session::fork_to(const target::RemoteTarget& child) const {
  auto forked = fork_session(child, *image_, journal_, *file_);
  if (!forked) return fail(forked.error());
  Session session(child, *image_);
  session.actions_ = actions_;
  session.matches_ = matches_;
  // What the kernel counts, it counts in the parent.
  std::copy_if(probes_.begin(), probes_.end(), std::back_inserter(session.probes_),
               [&](const ArmedProbe& probe) {
                 return kind_of(probe) == placement::Kind::span ||
                        probe.index < journal_.probes.size();
               });
  session.cells_ = cells_;
  session.events_.resize(events_.size());
  session.form_of_probe_ = form_of_probe_;
  session.forms_of_fields_ = forms_of_fields_;
  session.report_ = report_;
  session.journal_ = std::move(forked->journal);
  session.removed_ = still_removed(session.journal_, removed_);
  session.file_ = std::move(forked->file);
  session.sites_of_objects_ = sites_of_objects_;
  for (ObjectSites& sites : session.sites_of_objects_) sites.armed = sites.begin;
  session.note_removed_sites();
  if (loader_ != nullptr)
    session.loader_ = LoaderWatch::start(session.file_->descriptor(), session.journal_);
  if (exec_ != nullptr)
    session.exec_ = ExecWatch::start(session.file_->descriptor(), session.journal_,
                                     exec_->handshake(), session.code());
  if (runtime_) {
    session.runtime_ = runtime_;
    session.runtime_->frames.reset();  // the child has those that there were at the fork
    session.runtime_->pool_bytes = ledger::SessionFile::first_blocks(session.journal_.header);
    // It may have been changed in the parent since the fork.
    const runtime::RuntimeSpec& spec = runtime_->spec;
    const Address callers = runtime::callers_in(runtime_->address, spec);
    std::vector<uint8_t> bytes(spec.callers_size);
    std::optional<runtime::CallerTable> table;
    if (child.memory().read(callers, bytes)) table = runtime::CallerTable::read(callers, bytes);
    session.runtime_->callers = table.value_or(runtime::CallerTable(callers, spec.callers_size));
  }
  return session;
}

Session::~Session() {
  if (file_ && state_ == State::armed) static_cast<void>(disarm());
}

bool Session::has_entry(const ArmedProbe& probe) const {
  return kind_of(probe) != placement::Kind::span && probe.index < journal_.probes.size();
}

std::vector<uint32_t> Session::points_of_spans() const {
  std::vector<uint32_t> points;
  for (uint32_t i = 0; i < journal_.probes.size(); ++i)
    if (journal_.probes[i].kind == layout::ProbeEntry::Kind::span) points.push_back(i);
  return points;
}

// Of spans, the entries are those of all their points, or none if not all spans are among these.
Session::Entries Session::entries_of(std::span<const uint32_t> probes) const {
  Entries entries;
  entries.all.reserve(probes.size());
  std::vector<bool> spans(journal_.spans.size());
  size_t named = 0;
  for (const uint32_t probe : probes) {
    const bool is_one = probe < probes_.size();
    if (is_one && has_entry(probes_[probe])) {
      entries.all.push_back(probes_[probe].index);
    } else if (is_one && kind_of(probes_[probe]) == placement::Kind::span) {
      spans[probes_[probe].index] = true;
      ++named;
    } else {
      ++entries.without;
    }
  }
  const bool has_all = std::all_of(probes_.begin(), probes_.end(), [&](const ArmedProbe& one) {
    return kind_of(one) != placement::Kind::span || spans[one.index];
  });
  if (named == 0) return entries;
  if (!has_all) {
    entries.without += named;
    return entries;
  }
  const auto points = points_of_spans();
  entries.all.insert(entries.all.end(), points.begin(), points.end());
  return entries;
}

Result<SwitchReport, ledger::SessionError> Session::turn(std::span<const uint32_t> probes,
                                                         Switched to) {
  if (state_ != State::armed || !file_) return SwitchReport{.unswitched = probes.size()};
  auto [entries, others] = entries_of(probes);
  const size_t named = entries.size();
  std::erase_if(entries,
                [&](uint32_t entry) { return entry < removed_.size() && removed_[entry]; });
  others += named - entries.size();
  const auto turn = ledger::Turn::take(target_.pid());
  if (!turn) return fail(turn.error());
  auto report = switch_probes(target_, *file_, journal_, entries, to);
  if (report) report->unswitched += others;
  return report;
}

Result<RemovalReport, ledger::SessionError> Session::remove(std::span<const uint32_t> probes) {
  if (state_ != State::armed || !file_) return RemovalReport{.staying = probes.size()};
  const auto [entries, others] = entries_of(probes);
  const auto turn = ledger::Turn::take(target_.pid());
  if (!turn) return fail(turn.error());
  auto report = remove_probes(target_, *image_, *file_, journal_, removed_, entries);
  note_removed_sites();
  if (report) report->staying += others;
  return report;
}

// note_unloaded() looks at a site that holds our jump.
void Session::note_removed_sites() {
  const auto is_armed = [&](size_t i) {
    const layout::SiteEntry& site = journal_.sites[i];
    return site.is_in_text() && site.jump != 0;
  };
  for (ObjectSites& sites : sites_of_objects_)
    while (sites.armed != sites.end && !is_armed(sites.armed)) ++sites.armed;
}

bool Session::is_removed(uint32_t probe) const {
  if (state_ != State::armed || probe >= probes_.size()) return true;
  const auto is_out = [&](uint32_t entry) { return entry < removed_.size() && removed_[entry]; };
  if (has_entry(probes_[probe])) return is_out(probes_[probe].index);
  if (kind_of(probes_[probe]) != placement::Kind::span || removed_.empty()) return false;
  const auto points = points_of_spans();
  return std::all_of(points.begin(), points.end(), is_out);
}

size_t Session::placed() const {
  size_t placed = 0;
  for (uint32_t i = 0; i < probes_.size(); ++i) placed += is_removed(i) ? 0 : 1;
  return placed;
}

bool Session::has_only(std::span<const uint32_t> probes) const {
  std::vector<bool> named(probes_.size());
  for (const uint32_t probe : probes)
    if (probe < named.size()) named[probe] = true;
  for (uint32_t i = 0; i < probes_.size(); ++i)
    if (!named[i] && !is_removed(i)) return false;
  return true;
}

Result<void, ledger::SessionError> Session::keep() {
  journal_.header.is_kept = 1;
  if (auto written = file_->write_header(journal_.header); !written) {
    journal_.header.is_kept = 0;
    return fail(ledger::SessionError(written.error()));
  }
  file_.reset();
  state_ = State::disarmed;
  return {};
}

Result<DisarmReport, ledger::SessionError> Session::disarm(const image::ProcessImage* now) {
  if (state_ == State::disarmed) return DisarmReport{};
  const Task::Scope undoing(nullptr);
  if (kernel_) kernel_->remove(target_.memory());
  if (!file_) return DisarmReport{};
  state_ = State::left;
  loader_.reset();
  if (exec_ != nullptr && !target_.is_over()) exec_->close();
  exec_.reset();
  // Once: what an earlier attempt has put back was not overwritten.
  const Armed armed = std::exchange(is_armed_, false) ? Armed::completely : Armed::perhaps_partly;
  auto report = engine::disarm(target_, now != nullptr ? *now : *image_, *file_, journal_,
                               kDisarmTimeoutNs, armed);
  if (report && !report->memory_left) state_ = State::disarmed;
  if (report && !report->never_returned.abandoned.empty()) never_returned_ = report->never_returned;
  return report;
}

}  // namespace pinprick::engine
