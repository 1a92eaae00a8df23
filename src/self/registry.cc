#include "self/registry.h"

#include <fmt/format.h>
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "patch/live_edit.h"
#include "plan/tactic.h"
#include "probe/signals_blocked.h"
#include "runtime/thread.h"
#include "runtime/traps.h"
#include "self/return_slots.h"

namespace pinprick::self {
namespace {

constexpr size_t kMostData = 4096;
constexpr uint32_t kUsualActive = 1024;

Error error_of(Cause cause, std::string site, std::string_view detail = {}) {
  return {cause, std::move(site), std::string(detail), 0};
}

Error refused(std::string site, plan::Reason reason) {
  return error_of(Cause::refused, std::move(site), plan::sentence(reason));
}

Error system_error(const SystemError& error) {
  return {Cause::system, {}, {}, error.number};
}

std::string text_of(const Where& where) {
  return where.name() != nullptr ? *where.name() : fmt::format("{}", *where.address());
}

// A thread may block all signals for a moment, as libc does while it makes one. Where threads begin
// and end all the time there is nearly always one, so this looks often, and shortly.
std::optional<target::TrapObstacle> lasting_obstacle() {
  constexpr int kLooks = 3000;
  constexpr timespec kPause = {0, 200'000};
  std::optional<target::TrapObstacle> obstacle;
  for (int i = 0; i < kLooks; ++i) {
    obstacle = target::trap_obstacle();
    if (obstacle != target::TrapObstacle::blocked) break;
    ::nanosleep(&kPause, nullptr);
  }
  return obstacle;
}

Result<void, Error> no_obstacle() {
  const auto obstacle = lasting_obstacle();
  if (!obstacle) return {};
  return fail(error_of(
      *obstacle == target::TrapObstacle::tracer ? Cause::debugger : Cause::signal_blocked, {}));
}

runtime::Handler untyped(const Handler& handler) {
  return {handler.call(), handler.closure(), handler.integer_only()};
}

// What a hit sees of the handlers that `select` finds in probes; null: none.
template <class Select>
std::unique_ptr<OwnedHandlers> handler_list(const Site& site, Select&& select) {
  auto list = std::make_unique<OwnedHandlers>();
  list->integer_only = true;
  for (Attachment* attachment : site.attachments) {
    auto* const probe = dynamic_cast<detail::ProbeState*>(attachment);
    if (probe == nullptr || !probe->enabled || !select(*probe)) continue;
    const Handler& handler = select(*probe);
    list->storage.push_back({untyped(handler), &probe->missed});
    list->integer_only = list->integer_only && handler.integer_only();
  }
  if (list->storage.empty()) return nullptr;
  list->entries = list->storage.data();
  list->count = static_cast<uint32_t>(list->storage.size());
  return list;
}

std::unique_ptr<runtime::ReturnList> return_list(const Site& site) {
  auto list = std::make_unique<runtime::ReturnList>();
  list->integer_only = true;
  for (Attachment* attachment : site.attachments) {
    auto* const probe = dynamic_cast<detail::ReturnState*>(attachment);
    if (probe == nullptr || !probe->enabled) continue;
    list->probes[list->count] = probe->shared;
    list->generations[list->count++] = probe->generation;
    list->integer_only = list->integer_only && (!probe->on_entry || probe->on_entry.integer_only());
  }
  return list->count == 0 ? nullptr : std::move(list);
}

template <class Owned, class Seen>
void exchange(std::atomic<const Seen*>& published, std::unique_ptr<Owned> list,
              std::vector<std::unique_ptr<Owned>>& retired) {
  const Seen* const former = published.exchange(list.release(), std::memory_order_acq_rel);
  if (former != nullptr)
    retired.emplace_back(const_cast<Owned*>(static_cast<const Owned*>(former)));
}

patch::LiveEdit edit_of(const Site& site, std::span<const uint8_t> written) {
  patch::LiveEdit edit;
  edit.site = site.address;
  edit.length = static_cast<uint8_t>(written.size());
  std::copy(written.begin(), written.end(), edit.jump.begin());
  std::copy_n(site.patch.original.begin(), written.size(), edit.original.begin());
  if (!site.no_jump) edit.interior = site.patch.interior;
  return edit;
}

struct Change {
  Site* site;
  patch::LiveEdit edit;
};

std::vector<patch::LiveEdit> edits_of(std::span<const Change> changes) {
  std::vector<patch::LiveEdit> edits;
  for (const Change& change : changes) edits.push_back(change.edit);
  return edits;
}

// A few hundred at a time, as long as f succeeds: a site is a breakpoint for the time of its piece
// only, in which no thread should come to block SIGTRAP.
template <class F>
Result<void, Error> in_pieces(std::span<const Change> changes, F&& f) {
  constexpr size_t kPiece = 512;
  while (!changes.empty()) {
    const auto piece = changes.first(std::min(kPiece, changes.size()));
    if (auto done = f(piece); !done) return done;
    changes = changes.subspan(piece.size());
  }
  return {};
}

}  // namespace

// One call into the library: nothing that it does hits a probe, and what it retires is destroyed
// when no handler can be using it.
class Registry::Operation {
 public:
  explicit Operation(Registry& registry) : registry_(registry), lock_(registry.mutex_) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() {
    Retired& deferred = registry_.deferred_;
    const auto append = [](auto& to, auto& from) {
      std::move(from.begin(), from.end(), std::back_inserter(to));
      from.clear();
    };
    append(deferred.handlers, retired.handlers);
    append(deferred.returns, retired.returns);
    append(deferred.attachments, retired.attachments);
    if (deferred.empty() || runtime::runs_handlers(runtime::this_thread())) return;
    std::swap(deferred, retired);
    lock_.unlock();
    runtime::wait_for_handlers();
    lock_.lock();
    for (const auto& attachment : retired.attachments) registry_.give_back(*attachment);
    lock_.unlock();
  }

  Retired retired;

 private:
  const runtime::InLibrary in_library_;
  Registry& registry_;
  std::unique_lock<std::mutex> lock_;
};

Registry& Registry::get() {
  static Registry* const registry = new Registry;
  return *registry;
}

Registry::Registry()
    : image_([this](Address at, std::span<uint8_t> bytes) { restore(at, bytes); }) {
  runtime::prepare_vector_state();
  // A child is forked between operations, never within one.
  ::pthread_atfork(
      [] {
        ++runtime::this_thread().in_library;
        get().lock_for_fork();
      },
      [] {
        get().unlock_after_fork();
        --runtime::this_thread().in_library;
      },
      [] {
        runtime::forget_other_threads();
        get().unlock_after_fork();
        --runtime::this_thread().in_library;
      });
}

void Registry::restore(Address at, std::span<uint8_t> bytes) const {
  const Range range = {at, at + bytes.size()};
  for (auto it = sites_.lower_bound(at - std::min(at, plan::kMaxWindow));
       it != sites_.end() && it->first < range.end; ++it) {
    const Site& site = *it->second;
    if (!site.in_place) continue;
    const size_t length = site.written().size();
    for (size_t i = 0; i < length; ++i)
      if (range.contains(site.address + i)) bytes[site.address + i - at] = site.patch.original[i];
  }
}

Result<void, Error> Registry::refresh() {
  const auto anew = image_.refresh();
  if (!anew) return fail(system_error(anew.error()));
  if (*anew) forget_what_is_gone();
  return {};
}

// A library that was unloaded took our jumps along. Another may lie there now.
void Registry::forget_what_is_gone() {
  const auto memory = target::Memory::open(::getpid());
  if (!memory) return;
  for (const auto& [address, site] : sites_) {
    if (!site->in_place) continue;
    const auto ours = site->written();
    std::vector<uint8_t> there(ours.size());
    if (memory->read(address, there) && there == ours) continue;
    site->in_place = false;
    site->gone = true;
    runtime::forget_continuations(site->touched());
  }
}

Result<image::Match, Error> Registry::resolve(const Where& where) {
  if (where.address() != nullptr) {
    auto match = image_.at(reinterpret_cast<Address>(*where.address()));
    if (!match) return fail(error_of(Cause::not_found, text_of(where)));
    return *std::move(match);
  }
  auto matches = image_.matching(*where.name());
  if (!matches) return fail(matches.error());
  if (matches->size() > 1) return fail(error_of(Cause::ambiguous, *where.name()));
  return std::move(matches->front());
}

// Does the range lie beside all that is, or is about to be, in place?
bool Registry::is_free(Range range) const {
  for (auto it = sites_.lower_bound(range.begin - std::min(range.begin, plan::kMaxWindow));
       it != sites_.end() && it->first < range.end; ++it) {
    const Site& site = *it->second;
    const bool taken = site.in_place || !site.attachments.empty();
    if (taken && site.touched().overlaps(range)) return false;
  }
  return true;
}

Result<probe::SinglePlan, Error> Registry::plan(const Request& request,
                                                const image::Match& match) const {
  const Attachment& attachment = *request.attachment;
  const uint64_t bias = match.object->bias();
  auto plan = probe::plan_single(match, attachment.wanted(), attachment.allow_breakpoint);
  if (!plan) return fail(refused(text_of(request.where), plan.error().reason));
  const Address address = plan->patch.site + bias;
  const auto known = sites_.find(address);
  if (known != sites_.end() && !known->second->attachments.empty()) {
    const auto& no_jump = known->second->no_jump;
    if (no_jump && !attachment.allow_breakpoint)
      return fail(refused(text_of(request.where), *no_jump));
    return *std::move(plan);
  }
  const auto fits = [&](const plan::Patch& patch) {
    const Range touched = {address, address + patch.original.size()};
    const bool is_own =
        known != sites_.end() && known->second->in_place && known->second->touched() == touched;
    return is_own || is_free(touched);
  };
  if (!fits(plan->patch)) {
    constexpr auto kNeighbour = plan::Reason::neighbour;
    if (!attachment.allow_breakpoint) return fail(refused(text_of(request.where), kNeighbour));
    plan = probe::plan_breakpoint(match, kNeighbour);
    if (!plan || !fits(plan->patch)) return fail(refused(text_of(request.where), kNeighbour));
  }
  return *std::move(plan);
}

Result<Site*, Error> Registry::site_for(const Request& request) {
  auto match = resolve(request.where);
  if (!match) return fail(match.error());
  const Address asked = match->site;
  const bool is_blocked = std::any_of(blocked_.begin(), blocked_.end(),
                                      [&](const auto& one) { return one.first.contains(asked); });
  if (is_blocked || image_.is_own_code(asked) ||
      (probe::runs_with_signals_blocked(*match->object, *match->function) &&
       !image_.implements_ifunc(*match)))
    return fail(error_of(Cause::blacklisted, text_of(request.where)));
  auto planned = plan(request, *match);
  if (!planned) return fail(planned.error());
  const Address address = planned->patch.site + match->object->bias();
  std::unique_ptr<Site>& place = sites_[address];
  if (place && !place->gone &&
      (!place->attachments.empty() || place->in_place ||
       (place->patch.original == planned->patch.original && place->no_jump == planned->no_jump)))
    return place.get();
  if (place) former_sites_.push_back(std::move(place));
  place = std::make_unique<Site>();
  place->address = address;
  place->object = match->object->extent();
  place->name = match->name;
  place->object_name = match->object->name();
  place->keep_red_zone = planned->keep_red_zone;
  place->no_jump = planned->no_jump;
  place->patch = std::move(planned->patch);
  return place.get();
}

Result<void, Error> Registry::attach(Attachment& attachment, Site& site) {
  if (auto* const state = dynamic_cast<detail::ReturnState*>(&attachment)) {
    const auto others = std::count_if(
        site.attachments.begin(), site.attachments.end(),
        [](Attachment* other) { return dynamic_cast<detail::ReturnState*>(other) != nullptr; });
    if (others == runtime::kMostReturnProbes) return fail(error_of(Cause::too_many, site.name));
    if (state->data_size > kMostData) return fail(error_of(Cause::data_too_large, site.name));
    if (state->data_size != 0 || state->max_active != 0) {
      const uint32_t count = state->max_active != 0 ? state->max_active : kUsualActive;
      if (count > runtime::kSlots) return fail(error_of(Cause::too_many, site.name));
      const size_t size = align_up(state->data_size, alignof(std::max_align_t));
      state->item_links.resize(count);
      state->item_data.resize(size * count);
      state->items = std::make_unique<runtime::ItemPool>(state->item_links.data(),
                                                         state->item_data.data(), size, count);
    }
    state->shared = return_states_.take();
    state->generation = state->shared->generation.load();
    state->shared->on_entry = untyped(state->on_entry);
    state->shared->on_return = untyped(state->on_return);
    state->shared->items = state->items.get();
    state->shared->missed = 0;
    state->shared->unwound = 0;
  }
  if (auto* const counter = dynamic_cast<detail::CounterState*>(&attachment)) {
    if (!site.cell) site.cell = stubs_.new_cell();
    if (!site.cell) return fail(error_of(Cause::too_many, site.name));
    counter->at_begin = stubs_.count(*site.cell);
  }
  if (auto* const latency = dynamic_cast<detail::LatencyState*>(&attachment)) {
    if (auto made = timing_.make_slots(); !made) return fail(system_error(made.error()));
    if (!site.histogram) site.histogram = timing_.new_histogram();
    if (!site.histogram) return fail(error_of(Cause::too_many, site.name));
    latency->at_begin = timing_.read(*site.histogram);
    latency->missed_at_begin = timing_.missed(*site.histogram);
    latency->unwound_at_begin = timing_.unwound(*site.histogram);
  }
  attachment.site = &site;
  const auto behind =
      std::find_if(site.attachments.begin(), site.attachments.end(),
                   [&](const Attachment* other) { return other->priority < attachment.priority; });
  site.attachments.insert(behind, &attachment);
  return {};
}

void Registry::detach(Attachment& attachment) {
  if (attachment.site == nullptr) return;
  std::erase(attachment.site->attachments, &attachment);
  // Calls in flight are not followed any more.
  if (auto* const state = dynamic_cast<detail::ReturnState*>(&attachment))
    state->shared->generation.fetch_add(1);
}

// What no hit knows of any more.
void Registry::give_back(Attachment& attachment) {
  if (auto* const state = dynamic_cast<detail::ReturnState*>(&attachment))
    return_states_.give(state->shared);
}

Result<void, Error> Registry::make_stub(Site& site, const Shape& shape) {
  arch::HandlerStub spec;
  if (shape.counts) spec.cell = site.cell;
  spec.keep_red_zone = site.keep_red_zone;
  spec.before = shape.before ? reinterpret_cast<uint64_t>(&site.before) : 0;
  spec.behind = shape.behind ? reinterpret_cast<uint64_t>(&site.behind) : 0;
  spec.measures = shape.measures;
  spec.hit = reinterpret_cast<Address>(site.keep_red_zone ? pp_hit_inside : pp_hit);
  spec.hit_behind = reinterpret_cast<Address>(pp_hit_inside);
  if (shape.times) {
    spec.enter = timing_.enter();
    spec.timed = Timing::cells_of(*site.histogram);
  }
  const arch::Displaced displaced = {site.address, site.patch.displaced_bytes()};
  auto stub = stubs_.place(site.object, spec, displaced);
  if (stub && !site.no_jump && !site.patch.interior.empty() && !site.springboard) {
    site.springboard = stubs_.springboard(site.object, site.address, site.patch.interior);
    if (!site.springboard) stub.reset();
  }
  if (!stub) return fail(refused(site.name, plan::Reason::out_of_reach));
  site.stubs.push_back({shape, *std::move(stub)});
  return {};
}

Result<void, Error> Registry::prepare(const target::SelfTarget& self,
                                      std::span<Site* const> sites) {
  bool writes = false;
  for (Site* site : sites) {
    Shape needed = site->needed();
    if (needed.empty()) continue;
    if (needed.measures)
      if (auto made = make_return_slots(self); !made) return fail(system_error(made.error()));
    if (site->in_place) {
      if (site->stubs[site->in_use].shape.covers(needed)) continue;
      needed = needed.with(site->stubs[site->in_use].shape);
    } else {
      std::vector<uint8_t> there(site->patch.original.size());
      if (!self.memory().read(site->address, there) || there != site->patch.original)
        return fail(refused(site->name, plan::Reason::text_changed));
    }
    writes = true;
    const auto has = std::find_if(site->stubs.begin(), site->stubs.end(),
                                  [&](const Site::Stub& stub) { return stub.shape == needed; });
    if (has == site->stubs.end())
      if (auto made = make_stub(*site, needed); !made) return made;
  }
  if (!writes) return {};
  if (auto clear = no_obstacle(); !clear) return clear;
  if (auto taken = runtime::take_trap_signal(); !taken) return fail(system_error(taken.error()));
  return {};
}

void Registry::publish(Site& site, Retired& retired) {
  exchange(site.before.handlers,
           handler_list(site, [](const detail::ProbeState& p) -> const Handler& { return p.pre; }),
           retired.handlers);
  exchange(site.behind.handlers,
           handler_list(site, [](const detail::ProbeState& p) -> const Handler& { return p.post; }),
           retired.handlers);
  exchange(site.before.returns, return_list(site), retired.returns);
}

Result<void, Error> Registry::commit(const target::SelfTarget& self, std::span<Site* const> sites,
                                     Retired& retired) {
  if (auto written = stubs_.write(self); !written) return fail(system_error(written.error()));
  std::vector<Change> placing, removing;
  for (Site* site : sites) {
    publish(*site, retired);
    Shape needed = site->needed();
    if (needed.empty()) {
      if (!site->in_place) continue;
      removing.push_back({site, edit_of(*site, site->written())});
      continue;
    }
    if (site->in_place) {
      if (site->stubs[site->in_use].shape.covers(needed)) continue;
      needed = needed.with(site->stubs[site->in_use].shape);
    }
    const auto stub = std::find_if(site->stubs.begin(), site->stubs.end(),
                                   [&](const Site::Stub& one) { return one.shape == needed; });
    site->in_use = static_cast<size_t>(stub - site->stubs.begin());
    for (const arch::Copy& copy : stub->stub.copies)
      if (copy.window_offset != 0)
        runtime::set_continuation(site->address + copy.window_offset,
                                  stub->stub.body + copy.offset);
    runtime::set_continuation(site->address, stub->stub.begin);
    if (site->springboard) site->springboard->stub->store(stub->stub.begin);
    // A breakpoint, or a jump to a springboard, stays as it is.
    const bool leads_on = site->no_jump || site->springboard;
    if (!site->in_place || !leads_on) placing.push_back({site, edit_of(*site, site->written())});
  }
  auto done = in_pieces(placing, [&](std::span<const Change> piece) -> Result<void, Error> {
    if (auto clear = no_obstacle(); !clear) return clear;
    if (auto written = patch::place_live(self, edits_of(piece)); !written)
      return fail(system_error(written.error()));
    for (const Change& change : piece) change.site->in_place = true;
    return {};
  });
  if (!done) return done;
  return in_pieces(removing, [&](std::span<const Change> piece) -> Result<void, Error> {
    // Without SIGTRAP nothing can be taken out safely: such jumps stay, and lead to empty lists.
    if (!no_obstacle()) return {};
    if (auto written = patch::remove_live(self, edits_of(piece)); !written)
      return fail(system_error(written.error()));
    for (const Change& change : piece) change.site->in_place = false;
    return {};
  });
}

Result<std::vector<Attachment*>, Error> Registry::place(std::vector<Request> requests) {
  Operation operation(*this);
  if (auto fresh = refresh(); !fresh) return fail(fresh.error());
  const auto self = target::SelfTarget::open();
  if (!self) return fail(system_error(self.error()));
  std::vector<Site*> sites;
  std::vector<Attachment*> attachments;
  const auto undo = [&](Error error) {
    for (Attachment* attachment : attachments) {
      detach(*attachment);
      give_back(*attachment);
    }
    return fail(std::move(error));
  };
  for (Request& request : requests) {
    auto site = site_for(request);
    if (!site) return undo(site.error());
    if (auto attached = attach(*request.attachment, **site); !attached)
      return undo(attached.error());
    attachments.push_back(request.attachment.get());
    sites.push_back(*site);
  }
  std::sort(sites.begin(), sites.end());
  sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
  if (auto ready = prepare(*self, sites); !ready) return undo(ready.error());
  if (auto done = commit(*self, sites, operation.retired); !done) {
    for (Request& request : requests) {
      detach(*request.attachment);
      operation.retired.attachments.push_back(std::move(request.attachment));
    }
    for (Site* site : sites) publish(*site, operation.retired);
    return fail(done.error());
  }
  for (Request& request : requests) static_cast<void>(request.attachment.release());
  return attachments;
}

void Registry::remove(std::span<Attachment* const> attachments) {
  Operation operation(*this);
  static_cast<void>(refresh());
  std::vector<Site*> sites;
  for (Attachment* attachment : attachments) {
    sites.push_back(attachment->site);
    detach(*attachment);
    operation.retired.attachments.emplace_back(attachment);
  }
  std::sort(sites.begin(), sites.end());
  sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
  // Where the text cannot be written, handlers are gone all the same.
  const auto self = target::SelfTarget::open();
  if (!self || !commit(*self, sites, operation.retired))
    for (Site* site : sites) publish(*site, operation.retired);
}

Result<void, Error> Registry::set_enabled(Attachment& attachment, bool enabled) {
  Operation operation(*this);
  if (attachment.enabled == enabled) return {};
  if (auto fresh = refresh(); !fresh) return fresh;
  const auto self = target::SelfTarget::open();
  if (!self) return fail(system_error(self.error()));
  attachment.enabled = enabled;
  Site* const site[] = {attachment.site};
  if (attachment.site->gone) return {};
  auto done = prepare(*self, site);
  if (!done) {
    attachment.enabled = !enabled;
    return done;
  }
  done = commit(*self, site, operation.retired);
  if (done) return done;
  attachment.enabled = !enabled;
  publish(*attachment.site, operation.retired);
  return done;
}

Result<std::vector<Where>, Error> Registry::find(std::string_view pattern) {
  Operation operation(*this);
  if (auto fresh = refresh(); !fresh) return fail(fresh.error());
  const auto matches = image_.matching(pattern);
  if (!matches) return fail(matches.error());
  std::vector<Where> places;
  for (const image::Match& match : *matches)
    places.emplace_back(reinterpret_cast<const void*>(match.site));
  return places;
}

Result<void, Error> Registry::block(const Where& function) {
  Operation operation(*this);
  if (auto fresh = refresh(); !fresh) return fresh;
  const auto match = resolve(function);
  if (!match) return fail(match.error());
  const uint64_t bias = match->object->bias();
  const Range range = match->function->range;
  blocked_.push_back({{range.begin + bias, range.end + bias}, match->name});
  return {};
}

std::string Registry::blocked() {
  Operation operation(*this);
  std::string text;
  const auto add = [&](Range range, std::string_view name) {
    text += fmt::format("{:#018x}-{:#018x}\t{}\n", range.begin, range.end, name);
  };
  static_cast<void>(refresh());
  if (const auto* own = image_.objects().object_at(reinterpret_cast<Address>(pp_hit)))
    for (Range range : own->executable_ranges()) add(range, own->name());
  for (const auto& [range, name] : blocked_) add(range, name);
  return text;
}

Placement Registry::placement(const Attachment& attachment) {
  const Operation operation(*this);
  const Site& site = *attachment.site;
  if (site.gone) return Placement::gone;
  if (!site.in_place || !attachment.enabled) return Placement::disabled;
  return site.no_jump ? Placement::breakpoint : Placement::jump;
}

std::string Registry::list() {
  Operation operation(*this);
  std::string text;
  for (const auto& [address, site] : sites_)
    for (const Attachment* attachment : site->attachments) {
      const bool returns = dynamic_cast<const detail::ReturnState*>(attachment) != nullptr;
      const std::string_view offset = site->name.find("+0x") == site->name.npos ? "+0x0" : "";
      text += fmt::format("{:016x}  {}  {}{}  {} {}{}{}\n", address, returns ? 'r' : 'k',
                          site->name, offset, site->object_name, site->gone ? "[GONE]" : "",
                          attachment->enabled ? "" : "[DISABLED]",
                          site->in_place && !site->no_jump ? "[OPTIMIZED]" : "");
    }
  return text;
}

std::optional<Registry::NewSpan> Registry::new_span() {
  const Operation operation(*this);
  if (!timing_.make_histograms()) return std::nullopt;
  for (uint32_t i = 0; i < span_places_.size(); ++i) {
    SpanPlace& place = span_places_[i];
    if (!place.span.expired()) continue;
    if (!place.histogram) place.histogram = timing_.new_histogram();
    if (!place.histogram) return std::nullopt;
    auto span = std::make_shared<runtime::Span>();
    span->index = i;
    span->generation = ++place.generation;
    span->histogram = Timing::cells_of(*place.histogram).histogram;
    place.span = span;
    return NewSpan{std::move(span), *place.histogram};
  }
  return std::nullopt;
}

uint64_t Registry::count(const detail::CounterState& counter) {
  return stubs_.count(*counter.site->cell) - counter.at_begin;
}

}  // namespace pinprick::self
