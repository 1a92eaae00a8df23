#include "plan/function_plan.h"

#include <algorithm>
#include <optional>

namespace pinprick::plan {
namespace {

using arch::Instruction;
using arch::kJumpLength;
using arch::kShortJumpLength;
using arch::Special;

// Windows grow by adjacent sites up to here; longer ones would only make threads harder to move.
constexpr uint64_t kSharedWindow = 64;

bool in_one_page(Address begin, Address end) {
  return align_down(begin, kPageSize) == align_down(end - 1, kPageSize);
}

bool in_short_reach(Address from, Address to) {
  const auto distance = static_cast<int64_t>(to - from - kShortJumpLength);
  return distance >= INT8_MIN && distance <= INT8_MAX;
}

class Planning {
 public:
  Planning(const FunctionCode& function, Placing placing)
      : function_(function), placing_(placing), limit_(function.range.begin) {}

  FunctionPlan run(std::span<const Address> sites);

 private:
  void place(Address site);
  bool share(Address site);
  bool widen(Address site, uint8_t jump_length);
  void add(Patch patch, Address site);
  void hop(size_t index);
  std::optional<Address> padding_for(Address hop) const;
  std::optional<std::pair<size_t, Address>> room_in_windows(Address hop) const;
  std::optional<size_t> evict_for(Address hop);
  bool is_free(Range range) const;
  void refuse(Address site, Refusal refusal) { plan_.refused.emplace_back(site, refusal); }
  const std::vector<Address>& boundaries();

  const FunctionCode& function_;
  const Placing placing_;
  Address limit_;  // what lies below is taken by patches
  FunctionPlan plan_;
  struct Hop {
    size_t patch;
    Refusal refusal;  // of the long jump
  };
  std::vector<Hop> hops_;
  std::vector<Range> springboards_;
  std::vector<Address> boundaries_;  // every instruction's first address, and the end
};

// Instructions from the begin on, as far as they can be decoded.
const std::vector<Address>& Planning::boundaries() {
  if (!boundaries_.empty()) return boundaries_;
  Address at = function_.range.begin;
  boundaries_.push_back(at);
  while (at < function_.range.end) {
    const auto instruction = instruction_at(function_, at);
    if (!instruction || instruction->end() > function_.range.end) break;
    at = instruction->end();
    boundaries_.push_back(at);
  }
  return boundaries_;
}

void Planning::add(Patch patch, Address site) {
  PlannedPatch planned;
  planned.points = {static_cast<uint8_t>(site - patch.site)};
  limit_ = patch.touched().end;
  planned.patch = std::move(patch);
  plan_.patches.push_back(std::move(planned));
}

// In the window before: as one of its instructions, or as the next one behind it.
bool Planning::share(Address site) {
  if (plan_.patches.empty() || placing_ == Placing::at_site) return false;
  PlannedPatch& last = plan_.patches.back();
  const Address begin = last.patch.site;
  const Address end = begin + last.patch.displaced;
  if (site > end || site - begin > kSharedWindow) return false;
  if (site == end) {
    const auto instruction = instruction_at(function_, site);
    const bool long_jump = last.patch.written == kJumpLength;
    if (!instruction || !long_jump) return false;
    auto longer = displace(function_, begin, instruction->end(), kJumpLength);
    if (!longer) return false;
    last.patch = *std::move(longer);
    limit_ = last.patch.touched().end;
  }
  const auto offset = static_cast<uint8_t>(site - begin);
  if (last.points.empty() || last.points.back() != offset) last.points.push_back(offset);
  return true;
}

// With a window that begins before the site. Whoever comes to the site has to come through there.
bool Planning::widen(Address site, uint8_t jump_length) {
  if (placing_ == Placing::at_site) return false;
  const auto instruction = instruction_at(function_, site);
  if (!instruction) return false;
  const auto& all = boundaries();
  auto at = std::lower_bound(all.begin(), all.end(), site);
  if (at == all.end() || *at != site) return false;
  constexpr int kMostInstructions = 6;
  for (int i = 0; i < kMostInstructions && at != all.begin(); ++i) {
    --at;
    if (*at < limit_) return false;
    const auto before = instruction_at(function_, *at);
    if (!before || !before->falls_through() || before->is_call() ||
        before->special == Special::endbr64)
      return false;
    if (auto patch = displace(function_, *at, instruction->end(), jump_length)) {
      add(*std::move(patch), site);
      return true;
    }
  }
  return false;
}

void Planning::place(Address site) {
  auto direct = plan_site(function_, site);
  if (direct) site = direct->site;
  // An address inside of an instruction has no part in anybody's window.
  if (!direct && direct.error().reason == Reason::mid_instruction)
    return refuse(site, direct.error());
  if (share(site)) return;
  if (site < limit_) return refuse(site, {Reason::neighbour, site});
  if (direct) return add(*std::move(direct), site);
  const Refusal refusal = direct.error();
  switch (refusal.reason) {
    case Reason::branch_inside:
    case Reason::call_inside:
    case Reason::too_short:
    case Reason::indirect_jumps:
    case Reason::page_edge:
    case Reason::privileged:
    case Reason::inexact:
    case Reason::undecodable:
    case Reason::foreign_breakpoint:
    case Reason::reserved:
      break;
    default:
      return refuse(site, refusal);
  }
  if (site == function_.range.begin) site = entry_site(function_);
  const bool on_boundary = std::binary_search(boundaries().begin(), boundaries().end(), site);
  if (!on_boundary || arch::is_signal_restorer(function_.bytes)) return refuse(site, refusal);
  if (widen(site, kJumpLength)) return;
  if (auto patch = displace(function_, site, site + 1, kShortJumpLength))
    add(*std::move(patch), site);
  else if (!widen(site, kShortJumpLength))
    return refuse(site, refusal);
  hops_.push_back({plan_.patches.size() - 1, refusal});
}

// Nothing planned lies there.
bool Planning::is_free(Range range) const {
  const auto overlaps = [&](const PlannedPatch& planned) {
    return planned.patch.touched().overlaps(range);
  };
  return std::none_of(plan_.patches.begin(), plan_.patches.end(), overlaps) &&
         std::none_of(springboards_.begin(), springboards_.end(),
                      [&](Range taken) { return taken.overlaps(range); });
}

// Padding behind an instruction that never goes on, inside of the function or behind it.
std::optional<Address> Planning::padding_for(Address hop) const {
  const bool opaque = function_.targets->is_opaque(function_.range.begin);
  for (size_t i = 0; i + 1 < boundaries_.size(); ++i) {
    const Address at = boundaries_[i + 1];
    // Among its own code, a nop may be what an unknown jump leads to.
    if (opaque && at < function_.range.end) continue;
    if (at + 2 * kJumpLength < hop && hop - at > 256) continue;
    if (at > hop + 256) break;
    const auto before = instruction_at(function_, boundaries_[i]);
    if (!before || before->falls_through()) continue;
    const Address end = padding_end(function_, at, at + 64);
    for (Address begin = at; begin + kJumpLength <= end; ++begin) {
      const Range range = {begin, begin + kJumpLength};
      const bool reserved = std::any_of(function_.reserved.begin(), function_.reserved.end(),
                                        [&](Range r) { return r.overlaps(range); });
      if (in_short_reach(hop, begin) && in_one_page(range.begin, range.end) && !reserved &&
          !function_.targets->any_in(at, range.end) && is_free(range))
        return begin;
    }
  }
  return std::nullopt;
}

// Where a window's instructions were, behind its own jump.
std::optional<std::pair<size_t, Address>> Planning::room_in_windows(Address hop) const {
  for (size_t i = 0; i < plan_.patches.size(); ++i) {
    const Patch& patch = plan_.patches[i].patch;
    if (patch.written != kJumpLength) continue;
    const Address end = patch.site + patch.displaced;
    for (Address begin = patch.site + kJumpLength; begin + kJumpLength <= end; ++begin) {
      const Range range = {begin, begin + kJumpLength};
      if (in_short_reach(hop, begin) && in_one_page(patch.site, range.end) &&
          std::none_of(springboards_.begin(), springboards_.end(),
                       [&](Range taken) { return taken.overlaps(range); }))
        return std::pair(i, begin);
    }
  }
  return std::nullopt;
}

// A window without probes that makes room for a springboard; the nearest.
std::optional<size_t> Planning::evict_for(Address hop) {
  if (function_.targets->is_opaque(function_.range.begin)) return std::nullopt;
  std::optional<Patch> best;
  const auto distance = [&](Address at) { return at > hop ? at - hop : hop - at; };
  const auto first =
      std::lower_bound(boundaries_.begin(), boundaries_.end(), hop > 140 ? hop - 140 : 0);
  for (auto at = first; at != boundaries_.end() && *at < hop + 128; ++at) {
    if (best && distance(*at) >= distance(best->site)) continue;
    auto patch = displace(function_, *at, *at + 2 * kJumpLength, kJumpLength);
    if (!patch || patch->displaced < 2 * kJumpLength || !is_free(patch->touched())) continue;
    const Address springboard = *at + kJumpLength;
    const auto entered = instruction_at(function_, *at);
    if (entered && entered->special == Special::endbr64) continue;
    if (in_short_reach(hop, springboard) && in_one_page(*at, springboard + kJumpLength))
      best = *std::move(patch);
  }
  if (!best) return std::nullopt;
  PlannedPatch planned;
  planned.patch = *std::move(best);
  plan_.patches.push_back(std::move(planned));
  return plan_.patches.size() - 1;
}

void Planning::hop(size_t index) {
  const Address at = plan_.patches[hops_[index].patch].patch.site;
  std::optional<Address> address = padding_for(at);
  std::optional<size_t> host;
  if (!address) {
    auto room = room_in_windows(at);
    if (!room && evict_for(at)) room = room_in_windows(at);
    if (room) {
      host = room->first;
      address = room->second;
    }
  }
  PlannedPatch& planned = plan_.patches[hops_[index].patch];
  if (!address) return;
  planned.patch.tactic = host ? Tactic::evict : Tactic::hop;
  planned.host = host;
  Springboard springboard;
  springboard.address = *address;
  const auto bytes = function_.bytes.subspan(*address - function_.range.begin);
  std::copy_n(bytes.begin(), kJumpLength, springboard.original.begin());
  planned.springboard = springboard;
  springboards_.push_back({*address, *address + kJumpLength});
  if (!host) return;
  // Whoever stands anywhere in the host's window would run into the springboard.
  Patch& window = plan_.patches[*host].patch;
  window.interior.clear();
  for (Address boundary : boundaries())
    if (boundary > window.site && boundary < window.site + window.displaced)
      window.interior.push_back(static_cast<uint8_t>(boundary - window.site));
}

FunctionPlan Planning::run(std::span<const Address> sites) {
  for (Address site : sites) place(site);
  for (size_t i = 0; i < hops_.size(); ++i) hop(i);

  // Hops that found no springboard go; nobody depends on them.
  std::vector<bool> dropped(plan_.patches.size());
  for (const Hop& hop : hops_) {
    const PlannedPatch& planned = plan_.patches[hop.patch];
    if (planned.springboard) continue;
    dropped[hop.patch] = true;
    for (uint8_t point : planned.points) refuse(planned.patch.site + point, hop.refusal);
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < plan_.patches.size(); ++i)
    if (!dropped[i]) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return plan_.patches[a].patch.site < plan_.patches[b].patch.site;
  });
  std::vector<size_t> place_of(plan_.patches.size());
  for (size_t i = 0; i < order.size(); ++i) place_of[order[i]] = i;
  FunctionPlan sorted;
  sorted.refused = std::move(plan_.refused);
  for (size_t i : order) {
    sorted.patches.push_back(std::move(plan_.patches[i]));
    auto& host = sorted.patches.back().host;
    if (host) host = place_of[*host];
  }
  return sorted;
}

}  // namespace

FunctionPlan plan_function(const FunctionCode& function, std::span<const Address> sites,
                           Placing placing) {
  return Planning(function, placing).run(sites);
}

std::vector<Address> instructions(const FunctionCode& function) {
  std::vector<Address> all;
  bool reached = true;
  for (Address at = entry_site(function); at < function.range.end;) {
    const auto instruction = instruction_at(function, at);
    if (!instruction || instruction->end() > function.range.end) break;
    const bool padding =
        instruction->special == Special::nop || instruction->special == Special::int3;
    reached = reached || !padding || function.targets->contains(at);
    if (reached) all.push_back(at);
    reached = reached && instruction->falls_through();
    at = instruction->end();
  }
  return all;
}

}  // namespace pinprick::plan
