#include "library/registry.h"

#include <fmt/format.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "library/return_slots.h"
#include "library/unwinding.h"
#include "patch/live_edit.h"
#include "patch/text_owner.h"
#include "plan/tactic.h"
#include "runtime/thread.h"
#include "runtime/traps.h"

namespace pinprick::library {
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

// No thread that meets a breakpoint of ours dies of it. Before each piece of a change: the program
// may have set a handler of its own, blocked the signal, or come under a debugger since the last.
Result<void, Error> ready_for_breakpoints() {
  if (const auto obstacle = lasting_obstacle())
    return fail(error_of(
        *obstacle == target::TrapObstacle::tracer ? Cause::debugger : Cause::signal_blocked, {}));
  if (auto taken = runtime::take_trap_signal(); !taken) return fail(system_error(taken.error()));
  return {};
}

Error attached_error(const patch::AttachedSession& session) {
  const pid_t controller = session.controller;
  return error_of(Cause::attached, {},
                  controller == 0 ? "pinprick" : fmt::format("pinprick {}", controller));
}

Result<void, Error> not_attached() {
  const auto memory = target::Memory::open(::getpid());
  if (!memory) return fail(system_error(memory.error()));
  const auto session = patch::session_in_own_text(*memory);
  if (!session) return fail(system_error(session.error()));
  if (*session) return fail(attached_error(**session));
  return {};
}

// Text is about to change: no attached session may do so, too.
Result<void, Error> claim_text(const target::SelfTarget& self) {
  const auto session = patch::claim_own_text(self.memory());
  if (!session) return fail(system_error(session.error()));
  if (*session) return fail(attached_error(**session));
  return {};
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
  if (list->count == 1 && list->integer_only) list->only = list->entries[0].handler;
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

patch::LiveEdit edit_of(const Form& form) {
  const auto written = form.written();
  patch::LiveEdit edit;
  edit.site = form.patch.site;
  edit.length = static_cast<uint8_t>(written.size());
  std::copy(written.begin(), written.end(), edit.jump.begin());
  std::copy_n(form.patch.original.begin(), written.size(), edit.original.begin());
  edit.interior = form.patch.interior;
  return edit;
}

struct Change {
  Site* site;
  Form* to;  // null: the program's own text
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

template <class T>
void keep_one_of_each(std::vector<T*>& all) {
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
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
    if (site.in_place == nullptr) continue;
    const plan::Patch& patch = site.in_place->patch;
    for (size_t i = 0; i < patch.written; ++i)
      if (range.contains(site.address + i)) bytes[site.address + i - at] = patch.original[i];
  }
}

Result<void, Error> Registry::refresh() {
  const bool is_first = image_.objects().objects.empty();
  // With an attached session's jumps in it the text says nothing of where probes fit.
  const bool has_foreign_probes = !not_attached();
  if (image_has_foreign_probes_ && !has_foreign_probes) image_.forget();
  const auto anew = image_.refresh();
  if (!anew) return fail(system_error(anew.error()));
  if (*anew) {
    image_has_foreign_probes_ = has_foreign_probes;
    forget_what_is_gone();
  }
  if (is_first) know_program(*image_.objects().objects.front());
  return {};
}

// A library that was unloaded took our jumps along. Another may lie there now, or the same one with
// its own bytes. What somebody has written into our jump may be taken out again, and leads to us
// then: that is not gone.
void Registry::forget_what_is_gone() {
  const auto memory = target::Memory::open(::getpid());
  if (!memory) return;
  for (const auto& [address, site] : sites_) {
    if (site->gone) continue;
    const image::Object* const object = image_.objects().object_at(address);
    const bool is_mapped = object != nullptr && object->extent() == site->object &&
                           object->name() == site->object_name;
    if (is_mapped && site->in_place == nullptr) continue;
    if (is_mapped) {
      const auto& original = site->in_place->patch.original;
      std::vector<uint8_t> there(site->in_place->written().size());
      if (memory->read(address, there) && !std::equal(there.begin(), there.end(), original.begin()))
        continue;
    }
    site->in_place = nullptr;
    site->gone = true;
    runtime::forget_continuations((site->jump ? *site->jump : site->breakpoint).touched());
  }
}

Result<image::Match, Error> Registry::resolve(const Where& where) {
  if (where.address() != nullptr) {
    const auto match = image_.at(reinterpret_cast<Address>(*where.address()));
    if (!match) return fail(error_of(Cause::not_found, text_of(where)));
    return *match;
  }
  const auto matches = image_.matching(*where.name());
  if (!matches) return fail(matches.error());
  if (matches->size() > 1) return fail(error_of(Cause::ambiguous, *where.name()));
  return matches->front();
}

std::vector<Site*> Registry::others_in(Range range, Address site_address) const {
  std::vector<Site*> others;
  for (auto it = sites_.lower_bound(range.begin - std::min(range.begin, plan::kMaxWindow));
       it != sites_.end() && it->first < range.end; ++it) {
    Site& site = *it->second;
    if (site.address == site_address || site.gone) continue;
    const bool is_to_be = !site.attachments.empty() && site.touched().overlaps(range);
    if (is_to_be || (site.in_place != nullptr && site.in_place->touched().overlaps(range)))
      others.push_back(&site);
  }
  return others;
}

Result<Registry::Planned, Error> Registry::plan(const Request& request,
                                                const image::Match& match) const {
  constexpr auto kNeighbour = plan::Reason::neighbour;
  const Attachment& attachment = *request.attachment;
  const auto refuse = [&](plan::Reason reason) {
    return fail(refused(text_of(request.where), reason));
  };
  auto single = placement::plan_single(match, attachment.wanted(),
                                       attachment.allow_breakpoint
                                           ? placement::Breakpoints::where_no_jump_fits
                                           : placement::Breakpoints::none);
  if (!single) return refuse(single.error().reason);
  Planned planned;
  planned.stack = single->stack;
  planned.no_jump = single->no_jump;
  const Address address = planned.address = single->patch.site + match.object->bias();
  single->patch.site = address;
  planned.breakpoint =
      single->is_breakpoint() ? single->patch : plan::under_breakpoint(single->patch);
  if (!single->is_breakpoint()) planned.jump = std::move(single->patch);

  const auto known = sites_.find(address);
  if (known != sites_.end() && !known->second->gone && !known->second->attachments.empty()) {
    planned.no_jump = known->second->no_jump;
    if (planned.no_jump && !attachment.allow_breakpoint) return refuse(*planned.no_jump);
    return planned;
  }
  // Nobody gives way to a jump from before it.
  if (planned.jump)
    for (const Site* other : others_in(planned.jump->touched(), address))
      if (other->address > address && !other->attachments.empty()) planned.no_jump = kNeighbour;
  if (planned.no_jump && !attachment.allow_breakpoint) return refuse(*planned.no_jump);
  const Range range = (planned.no_jump ? planned.breakpoint : *planned.jump).touched();
  planned.in_the_way = others_in(range, address);
  for (const Site* other : planned.in_the_way) {
    const bool can_be_breakpoint = other->address < address && other->allows_breakpoint() &&
                                   !other->breakpoint.touched().overlaps(range);
    if (!can_be_breakpoint && !other->attachments.empty()) return refuse(kNeighbour);
  }
  return planned;
}

// Sites that have to give way are asked to, and noted.
Result<Site*, Error> Registry::site_for(const Request& request, Displaced& displaced) {
  auto match = resolve(request.where);
  if (!match) return fail(match.error());
  const Address asked = match->site;
  const bool is_blocked = std::any_of(blocked_.begin(), blocked_.end(),
                                      [&](const auto& one) { return one.first.contains(asked); });
  const std::string_view why = is_blocked ? "block() names it" : image_.why_never_probed(*match);
  if (!why.empty()) return fail(error_of(Cause::blacklisted, text_of(request.where), why));
  auto planned = plan(request, *match);
  if (!planned) return fail(planned.error());
  for (Site* other : planned->in_the_way) {
    displaced.emplace_back(other, other->no_jump);
    other->no_jump = plan::Reason::neighbour;
  }
  std::unique_ptr<Site>& place = sites_[planned->address];
  const auto is_as_planned = [&](const Site& site) {
    return site.breakpoint.patch.original == planned->breakpoint.original &&
           site.jump.has_value() == planned->jump.has_value() &&
           (!site.jump || site.jump->patch.original == planned->jump->original);
  };
  if (place && !place->gone) {
    if (!place->attachments.empty()) return place.get();
    if (place->in_place != nullptr || is_as_planned(*place)) {
      place->no_jump = planned->no_jump;
      return place.get();
    }
  }
  if (place) former_sites_.push_back(std::move(place));
  place = std::make_unique<Site>();
  place->address = planned->address;
  place->object = match->object->extent();
  place->name = match->name();
  place->object_name = match->object->name();
  place->stack = planned->stack;
  place->no_jump = planned->no_jump;
  place->breakpoint.patch = std::move(planned->breakpoint);
  if (planned->jump) place->jump.emplace().patch = *std::move(planned->jump);
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
    state->shared->abandoned = 0;
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
    site.metric = Timing::metric_of(*site.histogram);
    latency->at_begin = timing_.read(*site.histogram);
    latency->missed_at_begin = timing_.missed(*site.histogram);
    latency->unwound_at_begin = timing_.unwound(*site.histogram);
    latency->abandoned_at_begin = timing_.abandoned(*site.histogram);
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

// The actions of a stub of that shape.
std::vector<arch::StubAction> Registry::actions_of(const Site& site, const Shape& shape,
                                                   const arch::Displaced& displaced) const {
  using arch::StackUse;
  std::vector<arch::StubAction> actions;
  if (shape.counts && site.cell)
    actions.push_back({.stack = site.stack, .what = arch::CountHit{*site.cell}});
  if (shape.before) {
    const auto routine = site.stack == StackUse::keep_red_zone ? pp_hit_inside : pp_hit;
    actions.push_back(
        {.stack = site.stack,
         .what = arch::CallHandlers{.handlers = reinterpret_cast<uint64_t>(&site.before),
                                    .routine = reinterpret_cast<Address>(routine),
                                    .may_enter_slot = shape.measures}});
  }
  if (shape.times) {
    actions.push_back(
        {.what = arch::TimeCall{.metrics = {&*site.metric, 1}, .enter = timing_.enter()}});
  }
  if (shape.behind)
    actions.push_back(
        {.offset = arch::decode(displaced.bytes, displaced.address)->length,
         .stack = StackUse::keep_red_zone,
         .what = arch::CallHandlers{.handlers = reinterpret_cast<uint64_t>(&site.behind),
                                    .routine = reinterpret_cast<Address>(pp_hit_inside)}});
  return actions;
}

Result<void, Error> Registry::make_stub(Site& site, Form& form) {
  const Shape shape = wanted_shape(site, form);
  const auto has = std::find_if(form.stubs.begin(), form.stubs.end(),
                                [&](const Form::Stub& stub) { return stub.shape == shape; });
  if (has != form.stubs.end()) return {};
  const arch::Displaced displaced = {site.address, form.patch.displaced_bytes()};
  auto stub = stubs_.place(site.object, actions_of(site, shape, displaced), displaced);
  if (stub && !form.patch.interior.empty() && !form.trampoline) {
    form.trampoline = stubs_.trampoline(site.object, site.address, form.patch.interior);
    if (!form.trampoline) stub.reset();
  }
  if (!stub) return fail(refused(site.name, plan::Reason::out_of_reach));
  form.stubs.push_back({shape, *std::move(stub)});
  return {};
}

Form* Registry::form_when_armed(Site& site) const {
  if (site.gone || site.needed().empty()) return nullptr;
  return site.jump && !site.no_jump && optimised_ ? &*site.jump : &site.breakpoint;
}

Form* Registry::wanted_form(Site& site) const {
  return armed_ ? form_when_armed(site) : nullptr;
}

// What its stub has to do: not less than it does.
Shape Registry::wanted_shape(const Site& site, const Form& form) {
  const Shape needed = site.needed();
  return site.in_place == &form ? needed.with(form.stubs[form.in_use].shape) : needed;
}

bool Registry::is_as_wanted(Site& site) const {
  const Form* const form = wanted_form(site);
  return site.in_place == form &&
         (form == nullptr || form->stubs[form->in_use].shape.covers(site.needed()));
}

// While all are disarmed, too: what cannot be placed is refused now, and not by arm_all().
Result<void, Error> Registry::prepare(const target::SelfTarget& self,
                                      std::span<Site* const> sites) {
  bool writes = false;
  for (Site* site : sites) {
    Form* const form = form_when_armed(*site);
    if (form == nullptr) continue;
    if (auto claimed = claim_text(self); !claimed) return claimed;
    if (site->needed().measures)
      if (auto made = make_return_slots(self); !made) return fail(system_error(made.error()));
    if (armed_ && is_as_wanted(*site)) continue;
    if (site->in_place == nullptr) {
      std::vector<uint8_t> there(form->patch.original.size());
      const bool can_be_read = self.memory().read(site->address, there);
      restore(site->address, there);
      if (!can_be_read || there != form->patch.original) {
        image_.forget();
        return fail(refused(site->name, plan::Reason::text_changed));
      }
    }
    writes = armed_;
    auto made = make_stub(*site, *form);
    if (!made && !form->is_breakpoint() && (site->in_place || site->allows_breakpoint())) {
      site->no_jump = plan::Reason::out_of_reach;
      made = make_stub(*site, site->breakpoint);
    }
    if (!made) return made;
  }
  if (!writes) return {};
  return ready_for_breakpoints();
}

// Whatever is in the way could not be taken out, as SIGTRAP is blocked, or a debugger there.
Result<void, Error> Registry::no_room_after_all(const Site& site) {
  if (auto ready = ready_for_breakpoints(); !ready) return ready;
  return fail(refused(site.name, plan::Reason::neighbour));
}

void Registry::publish(Site& site, Retired& retired) const {
  // A thread may be in the stub, or its jump still be there as SIGTRAP is blocked.
  if (!armed_) {
    exchange(site.before.handlers, std::unique_ptr<OwnedHandlers>(), retired.handlers);
    exchange(site.behind.handlers, std::unique_ptr<OwnedHandlers>(), retired.handlers);
    exchange(site.before.returns, std::unique_ptr<runtime::ReturnList>(), retired.returns);
    return;
  }
  exchange(site.before.handlers,
           handler_list(site, [](const detail::ProbeState& p) -> const Handler& { return p.pre; }),
           retired.handlers);
  exchange(site.behind.handlers,
           handler_list(site, [](const detail::ProbeState& p) -> const Handler& { return p.post; }),
           retired.handlers);
  exchange(site.before.returns, return_list(site), retired.returns);
}

// Whoever comes to the site goes on in the form's stub from now on.
void Registry::lead_to(Site& site, Form& form) {
  const Shape shape = wanted_shape(site, form);
  const auto stub = std::find_if(form.stubs.begin(), form.stubs.end(),
                                 [&](const Form::Stub& one) { return one.shape == shape; });
  form.in_use = static_cast<size_t>(stub - form.stubs.begin());
  for (const arch::Copy& copy : stub->stub.copies)
    if (copy.window_offset != 0)
      runtime::set_continuation(site.address + copy.window_offset, stub->stub.body + copy.offset);
  runtime::set_continuation(site.address, stub->stub.begin);
  if (form.trampoline) form.trampoline->stub->store(stub->stub.begin);
}

// First what takes less of the text than before, then what takes more: one may be in the way of the
// other.
Result<void, Error> Registry::commit(const target::SelfTarget& self, std::span<Site* const> sites,
                                     Retired& retired) {
  if (auto written = stubs_.write(self); !written) return fail(system_error(written.error()));
  std::vector<Change> removing, placing;
  for (Site* site : sites) {
    publish(*site, retired);
    Form* const form = wanted_form(*site);
    if (site->in_place == nullptr || site->in_place == form) continue;
    if (form != nullptr && !form->is_breakpoint()) continue;
    if (form != nullptr) lead_to(*site, *form);
    Change& change = removing.emplace_back(Change{site, form, edit_of(*site->in_place)});
    change.edit.to_breakpoint = form != nullptr;
  }
  Result<void, Error> can_remove;
  auto done = in_pieces(removing, [&](std::span<const Change> piece) -> Result<void, Error> {
    // Without SIGTRAP nothing can be taken out safely: such jumps stay, and lead to empty lists.
    // But one that should have become a breakpoint has failed to. A thread that has blocked it all
    // through one look is not waited for again with each piece.
    if (can_remove) can_remove = ready_for_breakpoints();
    if (!can_remove) {
      const bool only_removes = std::all_of(
          piece.begin(), piece.end(), [](const Change& change) { return change.to == nullptr; });
      return only_removes ? Result<void, Error>() : can_remove;
    }
    if (auto written = patch::remove_live(self, edits_of(piece)); !written)
      return fail(system_error(written.error()));
    for (const Change& change : piece) change.site->in_place = change.to;
    return {};
  });
  if (!done) return done;
  for (Site* site : sites) {
    Form* const form = wanted_form(*site);
    if (form == nullptr || is_as_wanted(*site)) continue;
    const auto others = others_in(form->touched(), site->address);
    if (std::any_of(others.begin(), others.end(),
                    [](const Site* other) { return other->in_place != nullptr; })) {
      if (site->in_place == nullptr) return no_room_after_all(*site);
      site->no_jump = plan::Reason::neighbour;  // it stays what it is
      continue;
    }
    lead_to(*site, *form);
    // A breakpoint, or a jump to a trampoline, stays as it is.
    const bool leads_on = form->is_breakpoint() || form->trampoline;
    if (site->in_place != form || !leads_on) placing.push_back({site, form, edit_of(*form)});
  }
  return in_pieces(placing, [&](std::span<const Change> piece) -> Result<void, Error> {
    if (auto ready = ready_for_breakpoints(); !ready) return ready;
    if (auto written = patch::place_live(self, edits_of(piece)); !written)
      return fail(system_error(written.error()));
    for (const Change& change : piece) change.site->in_place = change.to;
    return {};
  });
}

// Text that cannot be written now stays: its lists say what runs there.
void Registry::put_back(const target::SelfTarget& self, std::span<Site* const> sites,
                        Retired& retired) {
  // Stubs of before may have done more than what is needed now.
  if (prepare(self, sites) && commit(self, sites, retired)) return;
  for (Site* site : sites) publish(*site, retired);
}

Result<std::vector<Attachment*>, Error> Registry::place(std::vector<Request> requests) {
  Operation operation(*this);
  if (auto clear = not_attached(); !clear) return fail(clear.error());
  if (auto fresh = refresh(); !fresh) return fail(fresh.error());
  const auto self = target::SelfTarget::open();
  if (!self) return fail(system_error(self.error()));
  std::vector<Site*> sites;
  std::vector<Attachment*> attachments;
  Displaced displaced;
  const auto put_back = [&] {
    // One may have been in the way twice.
    std::for_each(displaced.rbegin(), displaced.rend(),
                  [](const auto& one) { one.first->no_jump = one.second; });
  };
  const auto undo = [&](Error error) {
    put_back();
    for (Attachment* attachment : attachments) {
      detach(*attachment);
      give_back(*attachment);
    }
    return fail(std::move(error));
  };
  for (Request& request : requests) {
    auto site = site_for(request, displaced);
    if (!site) return undo(site.error());
    if (auto attached = attach(*request.attachment, **site); !attached)
      return undo(attached.error());
    attachments.push_back(request.attachment.get());
    sites.push_back(*site);
  }
  for (const auto& [site, former] : displaced) sites.push_back(site);
  keep_one_of_each(sites);
  if (auto ready = prepare(*self, sites); !ready) return undo(ready.error());
  if (auto done = commit(*self, sites, operation.retired); !done) {
    put_back();
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

// Breakpoints for want of room before the sites of which nothing is left: they become jumps.
void Registry::add_those_with_room_now(const target::SelfTarget& self, std::vector<Site*>& sites) {
  const std::vector<Site*> removed = sites;
  for (const Site* site : removed) {
    if (!site->attachments.empty() || site->gone) continue;
    const Address from = site->address - std::min(site->address, plan::kMaxWindow);
    for (auto it = sites_.lower_bound(from); it->first < site->address; ++it) {
      Site& other = *it->second;
      if (other.gone || !other.jump || other.no_jump != plan::Reason::neighbour ||
          other.attachments.empty())
        continue;
      const auto in_the_way = others_in(other.jump->touched(), other.address);
      if (std::any_of(in_the_way.begin(), in_the_way.end(),
                      [](const Site* one) { return !one->attachments.empty(); }))
        continue;
      other.no_jump.reset();
      Site* const one[] = {&other};
      if (prepare(self, one)) {
        sites.push_back(&other);
        sites.insert(sites.end(), in_the_way.begin(), in_the_way.end());
      } else {
        other.no_jump = plan::Reason::neighbour;
      }
    }
  }
}

Result<void, Error> Registry::change_all(bool Registry::*what, bool wanted, Retired& retired) {
  if (this->*what == wanted) return {};
  if (auto fresh = refresh(); !fresh) return fresh;
  const auto self = target::SelfTarget::open();
  if (!self) return fail(system_error(self.error()));
  std::vector<Site*> sites;
  for (const auto& [address, site] : sites_)
    if (!site->gone) sites.push_back(site.get());
  this->*what = wanted;
  auto done = prepare(*self, sites);
  const bool was_prepared = done.ok();
  if (done) done = commit(*self, sites, retired);
  if (done) return done;
  this->*what = !wanted;
  if (was_prepared) put_back(*self, sites, retired);
  return done;
}

Result<void, Error> Registry::optimise(bool wanted) {
  Operation operation(*this);
  return change_all(&Registry::optimised_, wanted, operation.retired);
}

// A thread that comes to block SIGTRAP between two pieces of disarming leaves jumps in place, as
// when a probe is disabled: they run no handlers.
Result<void, Error> Registry::set_armed(bool armed) {
  Operation operation(*this);
  if (!armed && std::any_of(sites_.begin(), sites_.end(),
                            [](const auto& one) { return one.second->in_place != nullptr; }))
    if (auto ready = ready_for_breakpoints(); !ready) return ready;
  return change_all(&Registry::armed_, armed, operation.retired);
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
  // Where the text cannot be written, handlers are gone all the same.
  const auto self = target::SelfTarget::open();
  if (self) add_those_with_room_now(*self, sites);
  keep_one_of_each(sites);
  if (!self || !commit(*self, sites, operation.retired))
    for (Site* site : sites) publish(*site, operation.retired);
}

Result<void, Error> Registry::set_enabled(std::span<Attachment* const> attachments, bool enabled) {
  Operation operation(*this);
  std::vector<Attachment*> changed;
  std::copy_if(attachments.begin(), attachments.end(), std::back_inserter(changed),
               [&](const Attachment* one) { return one->enabled != enabled; });
  if (changed.empty()) return {};
  if (auto fresh = refresh(); !fresh) return fresh;
  const auto self = target::SelfTarget::open();
  if (!self) return fail(system_error(self.error()));
  std::vector<Site*> sites;
  for (Attachment* attachment : changed) {
    attachment->enabled = enabled;
    if (!attachment->site->gone) sites.push_back(attachment->site);
  }
  keep_one_of_each(sites);
  auto done = prepare(*self, sites);
  const bool was_prepared = done.ok();
  if (done) done = commit(*self, sites, operation.retired);
  if (done) return done;
  for (Attachment* attachment : changed) attachment->enabled = !enabled;
  if (was_prepared) put_back(*self, sites, operation.retired);
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
  blocked_.push_back({{range.begin + bias, range.end + bias}, match->name()});
  return {};
}

std::string Registry::blocked() {
  Operation operation(*this);
  static_cast<void>(refresh());
  auto all = image_.never_probed();
  all.insert(all.end(), blocked_.begin(), blocked_.end());
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  std::string text;
  for (const auto& [range, name] : all)
    text += fmt::format("{:#018x}-{:#018x}\t{}\n", range.begin, range.end, name);
  return text;
}

Placement Registry::placement(const Attachment& attachment) {
  const Operation operation(*this);
  static_cast<void>(refresh());
  const Site& site = *attachment.site;
  if (site.gone) return Placement::gone;
  if (site.in_place == nullptr || !attachment.enabled || !armed_) return Placement::disabled;
  return site.in_place->is_breakpoint() ? Placement::breakpoint : Placement::jump;
}

std::string_view Registry::why_no_jump(const Attachment& attachment) {
  const Operation operation(*this);
  const Site& site = *attachment.site;
  if (site.no_jump) return plan::sentence(*site.no_jump);
  return optimised_ ? "" : "jumps are switched off";
}

std::string Registry::list() {
  Operation operation(*this);
  static_cast<void>(refresh());
  std::string text;
  for (const auto& [address, site] : sites_)
    for (const Attachment* attachment : site->attachments) {
      const bool returns = dynamic_cast<const detail::ReturnState*>(attachment) != nullptr;
      const std::string_view offset = site->name.find("+0x") == site->name.npos ? "+0x0" : "";
      text += fmt::format(
          "{:016x}  {}  {}{}  {} {}{}{}\n", address, returns ? 'r' : 'k', site->name, offset,
          site->object_name, site->gone ? "[GONE]" : "", attachment->enabled ? "" : "[DISABLED]",
          site->in_place != nullptr && !site->in_place->is_breakpoint() ? "[OPTIMIZED]" : "");
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
    span->histogram = Timing::histogram_at(*place.histogram);
    place.span = span;
    return NewSpan{std::move(span), *place.histogram};
  }
  return std::nullopt;
}

uint64_t Registry::count(const detail::CounterState& counter) {
  return stubs_.count(*counter.site->cell) - counter.at_begin;
}

}  // namespace pinprick::library
