#include "library/probes/registry.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "library/api/error.h"
#include "library/api/no_jump.h"
#include "library/probes/handler_lists.h"
#include "library/probes/text_access.h"
#include "library/process/loader_state.h"
#include "library/process/own_ledger.h"
#include "library/process/unwinding.h"
#include "placement/caller_use.h"
#include "runtime/thread.h"

namespace pinprick::library {
namespace {

// What attached sessions are told follows what a change has become (own_ledger.h).
struct Settling {
  std::vector<Site*> removed;
  ~Settling() { OwnLedger::get().settle(removed); }
};

// Is it in the text only because it could not be taken out?
bool is_left_over(const Site* site) {
  return site->in_place != nullptr && site->attachments.empty();
}

template <class T>
void keep_one_of_each(std::vector<T*>& all) {
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace

// Held while the registry is made, and by a thread that forks.
static constinit std::mutex making;
static constinit std::atomic<Registry*> made = nullptr;

Registry& Registry::get() {
  if (Registry* const known = made.load(std::memory_order_acquire); known != nullptr) return *known;
  const runtime::InLibrary in_library;
  const std::lock_guard lock(making);
  if (made.load(std::memory_order_relaxed) == nullptr)
    made.store(new Registry, std::memory_order_release);
  return *made.load(std::memory_order_relaxed);
}

Registry::Registry()
    : image_([this](Address at, std::span<uint8_t> bytes) { sites_.restore(at, bytes); }) {
  runtime::note_process();
  runtime::prepare_vector_state();
}

void Registry::before_fork() {
  making.lock();
  if (made == nullptr) return;
  ++runtime::this_thread().in_library;
  made.load()->mutex_.lock();
}

void Registry::after_fork() {
  if (made != nullptr) {
    made.load()->mutex_.unlock();
    --runtime::this_thread().in_library;
  }
  making.unlock();
}

void Registry::after_fork_in_child() {
  if (made != nullptr) {
    runtime::forget_other_threads();
    made.load()->image_.forget();  // what is known of the text is the parent's
  }
  after_fork();
}

// As early as possible: a program's own handlers, which may take its locks, then come before ours,
// and a thread that uses the library takes those locks before ours, too.
__attribute__((constructor)) static void watch_forks() {
  ::pthread_atfork(&Registry::before_fork, &Registry::after_fork, &Registry::after_fork_in_child);
}

Result<void, Error> Registry::refresh() {
  const bool is_first = image_.objects().objects.empty();
  const auto anew = image_.refresh();
  if (!anew) return fail(system_error(anew.error()));
  if (*anew) {
    blacklist_.forget_objects();
    OwnLedger::get().settle(sites_.forget_what_is_gone(image_.objects()));
  }
  if (is_first) know_program(*image_.objects().objects.front());
  return {};
}

Result<Site*, Error> Registry::site_for(const Request& request, placement::CallerUse& callers,
                                        std::vector<Site*>& in_the_way) {
  const auto match = image_.find(request.where);
  if (!match) return fail(match.error());
  const std::string name = request.where.name() != nullptr ? *request.where.name() : match->name();
  if (match->object->elf().has_text_relocations() && !is_relocated(match->site))
    return fail(error_of(Cause::refused, name,
                         "its library is being loaded, and changes its code meanwhile"));
  const std::string_view why = blacklist_.why_never_probed(*match);
  if (!why.empty()) return fail(error_of(Cause::blacklisted, name, why));
  const Attachment& attachment = *request.attachment;
  const auto breakpoints = attachment.allow_breakpoint ? placement::Breakpoints::where_no_jump_fits
                                                       : placement::Breakpoints::none;
  auto planned = plan_site(*match, attachment.needs(), breakpoints, callers);
  if (!planned) return fail(refused(name, planned.error()));
  if (auto fits = fit_among_neighbours(*planned, breakpoints, sites_); !fits)
    return fail(refused(name, fits.error()));
  in_the_way = planned->in_the_way;
  return &sites_.take(*std::move(planned), *match);
}

Batch Registry::batch(const target::SelfTarget& self, Operation& operation) {
  return {{sites_, image_, stubs_, histograms_, modes_}, self, operation.retired};
}

// If a session came or went meanwhile, or the text has changed since it was read, the plan has to
// be made again.
static constexpr int kAttempts = 5;

Result<std::vector<Attachment*>, Error> Registry::place(std::vector<Request> requests) {
  Operation operation(mutex_, reclaimer_);
  take_out_left_over(operation);
  LeftOut none;
  for (int attempt = 1;; ++attempt) {
    auto placed = try_to_place(requests, none, operation);
    if (placed || !image_.is_forgotten() || attempt == kAttempts) return placed;
  }
}

Result<std::vector<Result<Attachment*, Error>>, Error> Registry::place_possible(
    std::vector<Request> requests) {
  if (requests.empty()) return std::vector<Result<Attachment*, Error>>();
  Operation operation(mutex_, reclaimer_);
  take_out_left_over(operation);
  LeftOut left_out;
  left_out.errors.resize(requests.size());
  for (int attempt = 1;;) {
    left_out.grew_late = false;
    const auto placed = try_to_place(requests, left_out, operation);
    if (placed) {
      std::vector<Result<Attachment*, Error>> all;
      auto next = placed->begin();
      for (const auto& error : left_out.errors)
        all.push_back(error ? Result<Attachment*, Error>(fail(*error)) : *next++);
      return all;
    }
    if (image_.is_forgotten() && attempt < kAttempts) {
      ++attempt;
      left_out.errors.assign(requests.size(), std::nullopt);
    } else if (!left_out.grew_late) {
      return fail(placed.error());
    }
  }
}

Result<std::vector<Attachment*>, Error> Registry::try_to_place(std::vector<Request>& requests,
                                                               LeftOut& left_out,
                                                               Operation& operation) {
  Settling settling;
  if (!can_tell_unwinders())
    return fail(error_of(Cause::refused,
                         requests.empty() ? std::string() : text_of(requests.front().where),
                         "this program is linked statically altogether, and exceptions could not "
                         "pass through probes; link it to the C library dynamically"));
  if (auto clear = may_have_probes(); !clear) return fail(clear.error());
  if (auto fresh = refresh(); !fresh) return fail(fresh.error());
  const auto self = target::SelfTarget::open();
  if (!self) return fail(system_error(self.error()));
  std::vector<Site*> sites;
  std::vector<Attachment*> attachments;
  placement::CallerUse callers(image_.objects());
  Demotions demotions;
  const bool may_leave_out = !left_out.errors.empty();
  const auto is_left_out = [&](size_t i) {
    return may_leave_out && left_out.errors[i].has_value();
  };
  const auto undo = [&](Error error) {
    demotions.undo();
    for (Attachment* attachment : attachments) {
      Attacher::detach(*attachment);
      attacher_.give_back(*attachment);
    }
    return fail(std::move(error));
  };
  for (size_t i = 0; i < requests.size(); ++i) {
    if (is_left_out(i)) continue;
    std::vector<Site*> in_the_way;
    auto site = site_for(requests[i], callers, in_the_way);
    Attachment* const attachment = requests[i].attachment.get();
    const auto attached = site ? attacher_.attach(*attachment, **site) : fail(site.error());
    if (!attached) {
      if (!may_leave_out) return undo(attached.error());
      left_out.errors[i] = attached.error();
      continue;
    }
    for (Site* other : in_the_way) demotions.demote(*other);
    attachments.push_back(attachment);
    sites.push_back(*site);
  }
  demotions.add_to(sites);
  keep_one_of_each(sites);
  settling.removed = sites;  // some of them may have to give way
  Batch batch = this->batch(*self, operation);
  SiteErrors refused;
  if (auto ready = batch.prepare(sites, may_leave_out ? &refused : nullptr); !ready) {
    for (const auto& [site, error] : refused)
      for (size_t i = 0; i < requests.size(); ++i) {
        if (is_left_out(i)) continue;
        // One that has to give way is refused for the sake of those to which it gives way.
        const Site& own = *requests[i].attachment->site;
        if (&own != site && !own.touched().overlaps(site->widest())) continue;
        left_out.errors[i] = error;
        left_out.grew_late = true;
      }
    return undo(ready.error());
  }
  if (auto done = batch.commit(sites); !done) {
    demotions.undo();
    for (size_t i = 0; i < requests.size(); ++i) {
      if (is_left_out(i)) continue;
      Attacher::detach(*requests[i].attachment);
      operation.retired.attachments.push_back(std::move(requests[i].attachment));
    }
    batch.put_back(sites);
    note_left_over(sites);
    return fail(done.error());
  }
  for (size_t i = 0; i < requests.size(); ++i)
    if (!is_left_out(i)) static_cast<void>(requests[i].attachment.release());
  return attachments;
}

Result<void, Error> Registry::change_all(bool Modes::*what, bool wanted, Operation& operation) {
  if (modes_.*what == wanted) return {};
  Settling settling;
  if (auto fresh = refresh(); !fresh) return fresh;
  const auto self = target::SelfTarget::open();
  if (!self) return fail(system_error(self.error()));
  std::vector<Site*> sites;
  for (const auto& [address, site] : sites_.all())
    if (!site->gone) sites.push_back(site.get());
  settling.removed = sites;
  modes_.*what = wanted;
  Batch batch = this->batch(*self, operation);
  auto done = batch.prepare(sites);
  const bool was_prepared = done.ok();
  if (done) done = batch.commit(sites);
  if (done) return done;
  modes_.*what = !wanted;
  if (was_prepared) batch.put_back(sites);
  return done;
}

Result<void, Error> Registry::optimise(bool wanted) {
  Operation operation(mutex_, reclaimer_);
  return change_all(&Modes::optimised, wanted, operation);
}

// If a thread starts to block SIGTRAP between two pieces of disarming, jumps stay in place, as when
// a probe is disabled; they run no handlers.
Result<void, Error> Registry::set_armed(bool armed) {
  Operation operation(mutex_, reclaimer_);
  if (!armed && std::any_of(sites_.all().begin(), sites_.all().end(),
                            [](const auto& one) { return one.second->in_place != nullptr; }))
    if (const auto turn = turn_to_write(no_breakpoints); !turn) return fail(turn.error());
  return change_all(&Modes::armed, armed, operation);
}

void Registry::remove(std::span<Attachment* const> attachments) {
  Operation operation(mutex_, reclaimer_);
  static_cast<void>(refresh());
  std::vector<Site*> sites;
  for (Attachment* attachment : attachments) {
    sites.push_back(attachment->site);
    Attacher::detach(*attachment);
    operation.retired.attachments.emplace_back(attachment);
  }
  take_out(std::move(sites), operation);
  take_out_left_over(operation);
}

void Registry::take_out(std::vector<Site*> sites, Operation& operation) {
  Settling settling;
  // Even if the text cannot be written, the handlers are removed.
  const auto self = target::SelfTarget::open();
  if (self) batch(*self, operation).add_those_with_room_now(sites);
  keep_one_of_each(sites);
  settling.removed = sites;
  if (!self || !batch(*self, operation).commit(sites))
    for (Site* site : sites) publish(*site, modes_, operation.retired);
  note_left_over(sites);
}

void Registry::note_left_over(std::span<Site* const> sites) {
  std::copy_if(sites.begin(), sites.end(), std::back_inserter(left_over_), &is_left_over);
  keep_one_of_each(left_over_);
}

void Registry::take_out_left_over(Operation& operation) {
  // Without a wait, which the caller will have if it needs one.
  if (left_over_.empty() || !could_write_now() || !refresh()) return;
  std::vector<Site*> sites = std::exchange(left_over_, {});
  std::erase_if(sites, [](const Site* site) { return !is_left_over(site); });
  if (!sites.empty()) take_out(std::move(sites), operation);
}

Result<void, Error> Registry::set_enabled(std::span<Attachment* const> attachments, bool enabled) {
  Operation operation(mutex_, reclaimer_);
  std::vector<Attachment*> changed;
  std::copy_if(attachments.begin(), attachments.end(), std::back_inserter(changed),
               [&](const Attachment* one) { return one->enabled != enabled; });
  if (changed.empty()) return {};
  const Settling settling;
  if (auto fresh = refresh(); !fresh) return fresh;
  const auto self = target::SelfTarget::open();
  if (!self) return fail(system_error(self.error()));
  std::vector<Site*> sites;
  // Hits count from before the lists are published, until after they are unpublished. A thread that
  // is between its count and its list at that moment may run a handler uncounted, or be counted
  // without one; each count and each list is right by itself.
  std::vector<Attacher::Counts> at_start;
  for (Attachment* attachment : changed) {
    if (enabled) at_start.push_back(attacher_.counts_of(*attachment));
    attachment->enabled = enabled;
    if (!attachment->site->gone) sites.push_back(attachment->site);
  }
  keep_one_of_each(sites);
  Batch batch = this->batch(*self, operation);
  auto done = batch.prepare(sites);
  const bool was_prepared = done.ok();
  if (done) done = batch.commit(sites);
  if (done) {
    for (size_t i = 0; i < changed.size(); ++i) {
      if (enabled)
        Attacher::start(*changed[i], at_start[i]);
      else
        Attacher::stop(*changed[i], attacher_.counts_of(*changed[i]));
    }
    return done;
  }
  for (Attachment* attachment : changed) attachment->enabled = !enabled;
  if (was_prepared) batch.put_back(sites);
  return done;
}

Result<std::vector<Where>, Error> Registry::find(std::string_view pattern) {
  Operation operation(mutex_, reclaimer_);
  if (auto fresh = refresh(); !fresh) return fail(fresh.error());
  const auto matches = image_.matching(pattern);
  if (!matches) return fail(matches.error());
  std::vector<Where> found;
  for (const image::Match& match : *matches)
    found.emplace_back(reinterpret_cast<const void*>(match.site));
  return found;
}

Result<void, Error> Registry::block(const Where& function) {
  Operation operation(mutex_, reclaimer_);
  if (auto fresh = refresh(); !fresh) return fresh;
  const auto match = image_.find(function);
  if (!match) return fail(match.error());
  blacklist_.block(*match);
  return {};
}

std::string Registry::blocked() {
  Operation operation(mutex_, reclaimer_);
  static_cast<void>(refresh());
  return blacklist_.text();
}

Placement Registry::placement(const Attachment& attachment) {
  const Operation operation(mutex_, reclaimer_);
  static_cast<void>(refresh());
  const Site& site = *attachment.site;
  if (site.gone) return Placement::gone;
  if (site.in_place == nullptr || !attachment.enabled || !modes_.armed) return Placement::disabled;
  return site.in_place->is_breakpoint() ? Placement::breakpoint : Placement::jump;
}

NoJump Registry::why_no_jump(const Attachment& attachment) {
  const Operation operation(mutex_, reclaimer_);
  const Site& site = *attachment.site;
  if (site.no_jump) return no_jump_of(*site.no_jump);
  return modes_.optimised ? NoJump::none : NoJump::switched_off;
}

std::string Registry::list() {
  Operation operation(mutex_, reclaimer_);
  static_cast<void>(refresh());
  std::string text;
  for (const auto& [address, site] : sites_.all())
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

std::optional<NewSpan> Registry::new_span() {
  const Operation operation(mutex_, reclaimer_);
  return spans_.add();
}

// The lock keeps shares from being started and stopped meanwhile. This waits for no handlers, as a
// whole Operation may.
uint64_t Registry::hits(const detail::CountingState& counting) {
  const runtime::InLibrary in_library;
  const std::lock_guard lock(mutex_);
  return counting.hits.of(attacher_.counts_of(counting).hits);
}

Timings Registry::timings(const detail::LatencyState& latency) {
  const runtime::InLibrary in_library;
  const std::lock_guard lock(mutex_);
  return latency.timings.of(attacher_.counts_of(latency).timings);
}

}  // namespace pinprick::library
