#include "library/points/points.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <string_view>
#include <tuple>
#include <utility>

#include "library/api/error.h"
#include "library/points/point_text.h"
#include "library/probes/registry.h"
#include "library/probes/text_access.h"
#include "library/process/loader_state.h"
#include "library/process/own_ledger.h"
#include "runtime/thread.h"

namespace pinprick::library {
namespace {

Address point_address(const pinprick_point* point) {
  return reinterpret_cast<Address>(point);
}

std::string point_name(const pinprick_point& point) {
  const std::string provider = point.names;
  return provider + ":" + (point.names + provider.size() + 1);
}

bool is_same(const pinprick_point_call& a, const pinprick_attachment& b) {
  return a.function == b.function && a.data == b.data;
}

bool is_file(const std::string& path, std::string_view wanted) {
  return path == wanted || path.substr(path.rfind('/') + 1) == wanted;
}

// Spaces that only separate a word from something else say nothing.
std::string without_spaces(std::string_view types) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::string out;
  bool is_after_space = false;
  for (const char c : types) {
    if (c == ' ') {
      is_after_space = true;
      continue;
    }
    if (is_after_space && !out.empty() && is_word(out.back()) && is_word(c)) out += ' ';
    is_after_space = false;
    out += c;
  }
  return out;
}

}  // namespace

Points& Points::get() {
  static auto* const points = new Points;
  return *points;
}

// Points of objects that were unloaded are forgotten, and so are those of an object that was loaded
// again at the same address: its points have no functions yet.
void Points::refresh() {
  if (!objects_.refresh()) return;
  std::vector<Address> known;
  for (const auto& [point, state] : states_) known.push_back(point_address(point));
  std::vector<Address> still_there;
  PointObjects::for_each_loaded(known, [&](Address at) {
    auto* const point = reinterpret_cast<pinprick_point*>(at);
    if (point->calls == states_.at(point).published.get()) still_there.push_back(at);
  });
  std::vector<Calls> gone;
  for (auto one = states_.begin(); one != states_.end();) {
    const bool is_there = std::find(still_there.begin(), still_there.end(),
                                    point_address(one->first)) != still_there.end();
    if (!is_there) gone.push_back(std::move(one->second.published));
    one = is_there ? std::next(one) : states_.erase(one);
  }
  if (!gone.empty()) retire(std::move(gone));
  tell_what_is_there();
}

// No thread is at a site of an object that was unloaded.
void Points::tell_what_is_there() const {
  const auto memory = target::Memory::open(::getpid());
  if (!memory) return;
  std::map<std::pair<Address, Address>, Address> there;
  for (const PointObject& object : objects_.all())
    for (const auto& [address, point] : object.notes.points)
      for (const PointSite& site : point.sites) there.try_emplace({site.nop, site.block}, address);
  SiteStates state_of(*memory);
  OwnLedger::get().settle_points([&](const PointSite& site) {
    const auto point = there.find({site.nop, site.block});
    return point == there.end() ? layout::OwnSite::State::gone
                                : use_of(*memory, point->second, state_of(site));
  });
}

// A site that only others have turned on is theirs.
layout::OwnSite::State Points::use_of(const target::Memory& memory, Address point,
                                      SiteState state) const {
  using Use = layout::OwnSite::State;
  if (state != SiteState::on) return Use::former;
  uint16_t count = 0;
  const bool is_counted =
      memory.read_value(point + offsetof(pinprick_point, semaphore), count) && count != 0;
  const bool is_ours = states_.contains(reinterpret_cast<pinprick_point*>(point));
  return is_ours || !is_counted ? Use::in_use : Use::former;
}

// Edits a copy of the list of each point: edit(list, attachment) returns an errno, or 0.
template <class Edit>
Result<Points::Changes, PointError> Points::prepare(std::span<const pinprick_attachment> all,
                                                    Edit&& edit) {
  std::map<pinprick_point*, List> lists;
  for (const pinprick_attachment& one : all) {
    if (one.point == nullptr || one.function == nullptr)
      return fail(PointError{EINVAL,
                             "an attachment has no point or no function; "
                             "make it by PINPRICK_ATTACHMENT"});
    const auto state = states_.find(one.point);
    auto& list =
        lists.try_emplace(one.point, state == states_.end() ? List() : state->second.functions)
            .first->second;
    const int error = edit(list, one);
    if (error == EEXIST)
      return fail(PointError{error, point_name(*one.point) +
                                        ": this function is attached already; give it other data"});
    if (error != 0)
      return fail(PointError{
          error, point_name(*one.point) + ": this function is not attached with this data"});
  }
  Changes changes;
  for (auto& [point, list] : lists) {
    const auto state = states_.find(point);
    const bool was_on = state != states_.end() && state->second.published != nullptr;
    Calls calls;
    if (!list.empty()) {
      calls = std::make_unique<pinprick_point_call[]>(list.size() + 1);
      std::transform(list.begin(), list.end(), calls.get(),
                     [](const Attached& attached) { return attached.call; });
    }
    const bool turns_on = !was_on && !list.empty(), turns_off = was_on && list.empty();
    changes.push_back({point, std::move(list), std::move(calls), turns_on, turns_off});
  }
  return changes;
}

std::vector<PointSite> Points::sites_of(const Changes& changes, bool Change::*which) const {
  std::vector<PointSite> sites;
  for (const Change& change : changes) {
    const PointOfObject* const point =
        change.*which ? objects_.find(point_address(change.point)) : nullptr;
    if (point != nullptr) sites.insert(sites.end(), point->sites.begin(), point->sites.end());
  }
  return sites;
}

Result<void, PointError> Points::check(const target::SelfTarget& self,
                                       std::span<const PointSite> sites) const {
  if (sites.empty()) return {};
  if (auto taken = take_sites(self.memory(), sites); !taken)
    return fail(point_error(taken.error()));
  if (const auto site = foreign_site(self.memory(), sites))
    return fail(PointError{EILSEQ, fmt::format("the code at {:#x} is not a point's; take out the "
                                               "probe or breakpoint there",
                                               *site)});
  if (const auto turn = turn_to_write(no_breakpoints); !turn)
    return fail(point_error(turn.error()));
  return {};
}

// Exchanges the lists of each point with those of the change.
void Points::publish(Changes& changes) {
  for (Change& change : changes) {
    State& state = states_.at(change.point);
    std::swap(state.functions, change.functions);
    std::swap(state.published, change.calls);
    const bool is_on = state.published != nullptr, was_on = change.calls != nullptr;
    __atomic_store_n(&change.point->calls, state.published.get(), __ATOMIC_RELEASE);
    if (is_on != was_on)
      __atomic_fetch_add(&change.point->semaphore, is_on ? uint16_t{1} : uint16_t{0xffff},
                         __ATOMIC_SEQ_CST);
  }
}

void Points::retire(std::vector<Calls> lists) {
  retired_.push_back({runtime::start_grace_period(), std::move(lists)});
  std::erase_if(retired_, [](const Retired& one) {
    return runtime::this_thread().in_point == 0 && runtime::points_have_ended(one.grace_period);
  });
}

// What attached sessions are told follows what the text has become.
class Points::Settling {
 public:
  Settling(const Points& all, const target::SelfTarget& self,
           std::span<pinprick_point* const> points)
      : all_(all), self_(self), points_(points.begin(), points.end()) {}
  Settling(const Settling&) = delete;
  Settling& operator=(const Settling&) = delete;
  ~Settling() {
    SiteStates state_of(self_.memory());
    for (const pinprick_point* point : points_) {
      const PointOfObject* const known = all_.objects_.find(point_address(point));
      if (known == nullptr) continue;
      for (const PointSite& site : known->sites)
        OwnLedger::get().settle_point(
            site, all_.use_of(self_.memory(), point_address(point), state_of(site)));
    }
  }

 private:
  const Points& all_;
  const target::SelfTarget& self_;
  std::vector<pinprick_point*> points_;
};

// Attached sessions stop this thread when they like, change counts and sites, and let it go on.
// They leave a site alone that it is changing. So it looks again after each change.
Result<void, PointError> Points::follow_counts(const target::SelfTarget& self,
                                               std::span<pinprick_point* const> points) const {
  constexpr int kMostChanges = 100;  // sessions that come and go as fast as that are none
  for (int change = 0; change < kMostChanges; ++change) {
    std::vector<PointSite> on, off;
    SiteStates state_of(self.memory());
    for (const pinprick_point* point : points) {
      const PointOfObject* const known = objects_.find(point_address(point));
      if (known == nullptr) continue;
      const bool is_wanted = __atomic_load_n(&point->semaphore, __ATOMIC_SEQ_CST) != 0;
      for (const PointSite& site : known->sites)
        if (state_of(site) == (is_wanted ? SiteState::off : SiteState::on))
          (is_wanted ? on : off).push_back(site);
    }
    if (on.empty() && off.empty()) return {};
    if (auto done = turn_on(self, on); !done) return fail(point_error(done.error()));
    if (auto done = turn_off(self, off); !done) return fail(point_error(done.error()));
  }
  return {};
}

Result<void, PointError> Points::make(Changes changes) {
  const auto on = sites_of(changes, &Change::turns_on);
  const auto self = target::SelfTarget::open();
  if (!self) return fail(point_error(system_error(self.error())));
  std::vector<pinprick_point*> switched;
  for (const Change& change : changes)
    if (change.turns_on || change.turns_off) switched.push_back(change.point);
  const Settling settling(*this, *self, switched);
  if (auto checked = check(*self, on); !checked) return checked;
  std::vector<Calls> former;
  former.reserve(changes.size());
  retired_.reserve(retired_.size() + 1);
  for (const Change& change : changes) states_.try_emplace(change.point);
  // From here on nothing throws.
  publish(changes);
  auto done = follow_counts(*self, switched);
  // What cannot be turned off stays on, with an empty list.
  const bool is_undone = !done && !on.empty();
  if (is_undone) {
    publish(changes);  // exchanges them back
    static_cast<void>(follow_counts(*self, switched));
  }
  for (Change& change : changes) {
    if (change.calls) former.push_back(std::move(change.calls));
    if (!states_.at(change.point).published) states_.erase(change.point);
  }
  if (!former.empty()) retire(std::move(former));
  if (!switched.empty()) Registry::get().forget_text();
  if (is_undone) return done;
  return {};
}

Result<void, PointError> Points::find_sites(std::span<const pinprick_attachment> all) const {
  for (const pinprick_attachment& one : all) {
    const Address point = point_address(one.point);
    const PointOfObject* const known = objects_.find(point);
    if (point == 0 || (known != nullptr && known->sites.size() + known->semaphore_sites != 0))
      continue;
    const std::string name = is_relocated(point) ? point_name(*one.point)
                                                 : fmt::format("the tracepoint at {:#x}", point);
    return fail(PointError{ENOENT, name + ": the point has no place in the code, so the function "
                                          "would never be called"});
  }
  return {};
}

Result<void, PointError> Points::add(std::span<const pinprick_attachment> all) {
  if (auto found = find_sites(all); !found) return found;
  const auto add = [](List& list, const pinprick_attachment& one) {
    for (const Attached& other : list)
      if (is_same(other.call, one)) return EEXIST;
    const auto after = std::find_if(list.begin(), list.end(), [&](const Attached& other) {
      return other.priority < one.priority;
    });
    list.insert(after, {{one.function, one.data}, one.priority});
    return 0;
  };
  auto changes = prepare(all, add);
  if (!changes) return fail(changes.error());
  return make(*std::move(changes));
}

Result<void, PointError> Points::take(std::span<const pinprick_attachment> all) {
  const auto take = [](List& list, const pinprick_attachment& one) {
    return std::erase_if(list, [&](const Attached& other) { return is_same(other.call, one); }) == 0
               ? ENOENT
               : 0;
  };
  auto changes = prepare(all, take);
  if (!changes) return fail(changes.error());
  return make(*std::move(changes));
}

Result<void, PointError> Points::attach(std::span<const pinprick_attachment> all) {
  return Registry::get().exclusively([&] {
    refresh();
    return add(all);
  });
}

Result<void, PointError> Points::detach(std::span<const pinprick_attachment> all) {
  return Registry::get().exclusively([&] {
    refresh();
    return take(all);
  });
}

Result<void, PointError> Points::attach_named(std::span<const pinprick_named_attachment> all) {
  return Registry::get().exclusively([&]() -> Result<void, PointError> {
    refresh();
    const auto found = find_named(all, Among::all);
    if (!found) return fail(found.error());
    return add(*found);
  });
}

Result<void, PointError> Points::detach_named(std::span<const pinprick_named_attachment> all) {
  return Registry::get().exclusively([&]() -> Result<void, PointError> {
    refresh();
    const auto found = find_named(all, Among::attached);
    if (!found) return fail(found.error());
    return take(*found);
  });
}

Result<std::vector<pinprick_attachment>, PointError> Points::find_named(
    std::span<const pinprick_named_attachment> all, Among among) const {
  std::vector<pinprick_attachment> found;
  for (const pinprick_named_attachment& one : all) {
    if (one.provider == nullptr || one.name == nullptr || one.types == nullptr ||
        one.function == nullptr)
      return fail(PointError{EINVAL,
                             "an attachment has no name, types or function; "
                             "make it by PINPRICK_NAMED_ATTACHMENT"});
    const size_t before = found.size();
    std::string other_types;
    for (const PointObject& object : objects_.all()) {
      if (one.object != nullptr && !is_file(object.path, one.object)) continue;
      for (const auto& [address, point] : object.notes.points) {
        if (point.provider != one.provider || point.name != one.name) continue;
        if (without_spaces(point.types) != without_spaces(one.types)) {
          other_types = point.types;
          continue;
        }
        const pinprick_attachment attachment = {reinterpret_cast<pinprick_point*>(address),
                                                one.function, one.data, one.priority};
        if (among == Among::all || has(attachment)) found.push_back(attachment);
      }
    }
    if (found.size() != before) continue;
    const std::string label = fmt::format("{}:{}", one.provider, one.name);
    if (!other_types.empty())
      return fail(PointError{
          ENOENT, fmt::format("{} has the types ({}), not ({})", label, other_types, one.types)});
    return fail(PointError{ENOENT, among == Among::attached
                                       ? label + ": this function is not attached with this data"
                                       : label + ": no object has this point now"});
  }
  return found;
}

bool Points::has(const pinprick_attachment& one) const {
  const auto state = states_.find(one.point);
  return state != states_.end() &&
         std::any_of(state->second.functions.begin(), state->second.functions.end(),
                     [&](const Attached& other) { return is_same(other.call, one); });
}

Result<void, PointError> Points::synchronize() {
  if (runtime::this_thread().in_point != 0)
    return fail(PointError{EDEADLK,
                           "a function of a point would wait for itself; call this from "
                           "elsewhere"});
  const auto self = target::SelfTarget::open();
  if (!self) return fail(point_error(system_error(self.error())));
  runtime::wait_for_points(runtime::start_grace_period());
  Registry::get().exclusively([&] {
    std::erase_if(retired_,
                  [](const Retired& one) { return runtime::points_have_ended(one.grace_period); });
  });
  return {};
}

Result<std::vector<PointDescription>, PointError> Points::list() {
  return Registry::get().exclusively([&]() -> Result<std::vector<PointDescription>, PointError> {
    refresh();
    const auto memory = target::Memory::open(::getpid());
    if (!memory) return fail(point_error(system_error(memory.error())));
    SiteStates state_of(*memory);
    std::vector<PointDescription> all;
    for (const PointObject& object : objects_.all())
      for (const auto& [address, point] : object.notes.points) {
        const auto state = states_.find(reinterpret_cast<pinprick_point*>(address));
        const auto is_foreign = [&](const PointSite& site) {
          return state_of(site) == SiteState::foreign;
        };
        PointDescription one = {object.path, point.provider, point.name, point.types, address};
        one.sites = static_cast<uint32_t>(point.sites.size());
        one.foreign_sites = static_cast<uint32_t>(
            std::count_if(point.sites.begin(), point.sites.end(), is_foreign));
        one.semaphore_sites = point.semaphore_sites;
        if (state != states_.end())
          one.functions = static_cast<uint32_t>(state->second.functions.size());
        all.push_back(std::move(one));
      }
    std::sort(all.begin(), all.end(), [](const PointDescription& a, const PointDescription& b) {
      return std::tie(a.object, a.provider, a.name, a.point) <
             std::tie(b.object, b.provider, b.name, b.point);
    });
    return all;
  });
}

}  // namespace pinprick::library
