#include "placement/last_resort.h"

#include <algorithm>

#include "placement/probe_set.h"
#include "plan/pun.h"

namespace pinprick::placement {
namespace {

// The functions around a site, except for those that share bytes with its own.
std::vector<plan::FunctionCode> neighbours_of(image::Object& object,
                                              const image::Function& function, Address site) {
  constexpr int kMost = 16;  // to either side
  const auto& all = object.functions().functions();
  const auto own = static_cast<size_t>(&function - all.data());
  std::vector<plan::FunctionCode> neighbours;
  const auto add = [&](const image::Function& other) {
    if (other.range.overlaps(function.range) || other.range.end + plan::kFarHop < site ||
        other.range.begin > site + plan::kFarHop)
      return;
    if (const auto code = code_of(object, other)) neighbours.push_back(*code);
  };
  for (size_t i = 1; i <= kMost; ++i) {
    if (i <= own) add(all[own - i]);
    if (own + i < all.size()) add(all[own + i]);
  }
  return neighbours;
}

// Can a hop help where a jump was refused for this reason?
bool may_have_hop(plan::Reason reason) {
  switch (reason) {
    case plan::Reason::branch_inside:
    case plan::Reason::call_inside:
    case plan::Reason::too_short:
    case plan::Reason::page_edge:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Taken::add(Range range, uint32_t long_jump) {
  const Claim claim = {static_cast<uint32_t>(range.size()), long_jump};
  if (ascending_.empty() || ascending_.back().first < range.begin)
    ascending_.emplace_back(range.begin, claim);
  else if (ascending_.back().first == range.begin)
    ascending_.back().second.merge(claim);
  else
    others_[range.begin].merge(claim);
}

bool Taken::is_free(Range range) const {
  const auto is_of_others = [&](Range other) { return other.overlaps(range); };
  if (heeds_others_ && std::any_of(of_others_.begin(), of_others_.end(), is_of_others))
    return false;
  const auto ends_before = [&](const auto& entry) {
    return entry.first + entry.second.size <= range.begin;
  };
  const auto above = std::lower_bound(ascending_.begin(), ascending_.end(), range.end,
                                      [](const auto& entry, Address a) { return entry.first < a; });
  const auto other = others_.lower_bound(range.end);
  return (above == ascending_.begin() || ends_before(*std::prev(above))) &&
         (other == others_.begin() || ends_before(*std::prev(other)));
}

std::optional<size_t> Taken::long_jump_at(Address site) const {
  const auto there = std::lower_bound(ascending_.begin(), ascending_.end(), site,
                                      [](const auto& entry, Address a) { return entry.first < a; });
  if (there != ascending_.end() && there->first == site && there->second.long_jump != kNone)
    return there->second.long_jump;
  const auto other = others_.find(site);
  if (other == others_.end() || other->second.long_jump == kNone) return std::nullopt;
  return other->second.long_jump;
}

bool may_have_last_resort(plan::Reason reason) {
  return may_have_hop(reason) || reason == plan::Reason::indirect_jumps;
}

namespace {

std::optional<LastResort> find_hop(image::Object& object, const image::Function& function,
                                   const plan::FunctionCode& code, Address site, Address last,
                                   Taken& taken) {
  const auto neighbours = neighbours_of(object, function, site);
  auto hop = plan::plan_far_hop(code, site, last, neighbours,
                                [&](Range range) { return taken.is_free(range); });
  if (!hop) return std::nullopt;
  taken.add(hop->hop.patch.touched());
  taken.add(hop->window.touched());
  plan::PlannedPatch window;
  window.patch = std::move(hop->window);
  return LastResort{std::move(hop->hop), std::move(window), {}};
}

std::optional<LastResort> find_pun(image::Object& object, const plan::FunctionCode& code,
                                   Address site, Taken& taken, IslandSpace& islands) {
  auto pun = plan::plan_pun(
      code, site, object.code_from(site), [&](Range range) { return taken.is_free(range); },
      [&](const plan::Candidates& wanted) { return islands.take(wanted, object.bias(), site); });
  if (!pun) return std::nullopt;
  taken.add(pun->claimed());
  return LastResort{*std::move(pun), {}, {}};
}

// Is an instruction known to be executed?
enum class Reached : uint8_t { perhaps, surely };

// A patch for the instruction at `site`, which may be in another function than `function`.
std::optional<plan::Patch> window_at(image::Object& object, const image::Function& function,
                                     Address site, Reached reached, const Taken& taken) {
  const auto displaced = [&](const plan::FunctionCode& code) -> std::optional<plan::Patch> {
    if (reached == Reached::perhaps && !plan::starts_block(code, site)) return std::nullopt;
    // It must stay a landing pad, as indirect jumps may lead there.
    const auto first = plan::instruction_at(code, site);
    if (first && first->special == arch::Special::landing_pad) return std::nullopt;
    auto patch = plan::plan_site(code, site);
    return patch && taken.is_free(patch->touched()) ? std::optional(*std::move(patch))
                                                    : std::nullopt;
  };
  const auto own = code_of(object, function);
  if (own && function.range.contains(site)) return displaced(*own);
  for (const plan::FunctionCode& other : neighbours_of(object, function, site))
    if (other.range.contains(site)) return displaced(other);
  return std::nullopt;
}

std::optional<LastResort> find_evicting_pun(image::Object& object, const image::Function& function,
                                            const plan::FunctionCode& code, Address site,
                                            Taken& taken, IslandSpace& islands) {
  const auto instruction = plan::instruction_at(code, site);
  if (!instruction) return std::nullopt;
  LastResort eviction;
  eviction.needed.emplace();
  const Address next = instruction->end();
  eviction.there = taken.long_jump_at(next);
  if (!eviction.there) {
    const auto reached = instruction->falls_through() ? Reached::surely : Reached::perhaps;
    auto window = window_at(object, function, next, reached, taken);
    if (!window) return std::nullopt;
    eviction.needed->patch = *std::move(window);
  }
  auto planned = plan::plan_evicting_pun(
      code, site, [&](Range range) { return taken.is_free(range); },
      [&](const plan::Candidates& wanted) { return islands.take(wanted, object.bias(), site); },
      [&](Address island) { islands.give_back(island, object.bias()); });
  if (!planned) return std::nullopt;
  eviction.patch = std::move(planned->pun);
  eviction.needed->island = planned->island;
  taken.add(eviction.patch.claimed());
  if (!eviction.there) taken.add(eviction.needed->claimed());
  return eviction;
}

}  // namespace

std::optional<LastResort> find_last_resort(image::Object& object, const image::Function& function,
                                           Address site, plan::Reason reason, Address last,
                                           Taken& taken, IslandSpace& islands) {
  if (!may_have_last_resort(reason)) return std::nullopt;
  const auto code = code_of(object, function);
  if (!code) return std::nullopt;
  if (may_have_hop(reason))
    if (auto hop = find_hop(object, function, *code, site, last, taken)) return hop;
  if (site == function.range.begin) site = plan::entry_site(*code);
  if (auto pun = find_pun(object, *code, site, taken, islands)) return pun;
  return find_evicting_pun(object, function, *code, site, taken, islands);
}

}  // namespace pinprick::placement
