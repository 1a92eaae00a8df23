#include "plan/function_plan.h"

#include <algorithm>
#include <optional>

namespace pinprick::plan {
namespace {

using arch::kJumpLength;
using arch::kShortJumpLength;
using arch::Special;

// Windows grow by adjacent sites up to this size; longer ones would only make threads harder to
// move.
constexpr uint64_t kSharedWindow = 64;

bool in_one_page(Address begin, Address end) {
  return align_down(begin, kPageSize) == align_down(end - 1, kPageSize);
}

bool in_short_reach(Address from, Address to) {
  const auto distance = static_cast<int64_t>(to - from - kShortJumpLength);
  return distance >= INT8_MIN && distance <= INT8_MAX;
}

// Returns whether the instruction there is executed, as far as is known: a block starts at or
// before it, and execution falls through from there.
bool is_reached(const FunctionCode& function, std::span<const Address> boundaries, Address at) {
  auto begin = std::lower_bound(boundaries.begin(), boundaries.end(), at);
  while (!starts_block(function, *begin)) {
    if (begin == boundaries.begin()) return false;
    const auto before = instruction_at(function, *--begin);
    if (!before || !before->falls_through()) return false;
  }
  return true;
}

// Returns the nearest window in one function that has room for a trampoline of a short jump at
// `hop`.
template <class IsFree>
std::optional<Patch> window_with_room(const FunctionCode& function,
                                      std::span<const Address> boundaries, Address hop,
                                      IsFree&& is_free) {
  if (function.targets->has_unresolved_jump(function.range.begin)) return std::nullopt;
  std::optional<Patch> best;
  const auto distance = [&](Address at) { return at > hop ? at - hop : hop - at; };
  const auto first =
      std::lower_bound(boundaries.begin(), boundaries.end(), hop > 140 ? hop - 140 : 0);
  for (auto at = first; at != boundaries.end() && *at < hop + 128; ++at) {
    if (best && distance(*at) >= distance(best->site)) continue;
    // Cheap checks come first.
    const Address trampoline = *at + kJumpLength;
    const Address end = trampoline + kJumpLength;
    if (!in_short_reach(hop, trampoline) || !in_one_page(*at, end) || !is_free(Range{*at, end}))
      continue;
    const auto entered = instruction_at(function, *at);
    if (entered && entered->special == Special::landing_pad) continue;
    if (function.targets->any_in(trampoline, end)) continue;
    auto patch = displace(function, *at, end, kJumpLength);
    if (patch && patch->displaced >= 2 * kJumpLength && is_free(patch->touched()) &&
        is_reached(function, boundaries, *at))
      best = *std::move(patch);
  }
  return best;
}

// A thread anywhere in the window would run into the trampoline there.
void keep_threads_out(Patch& window, std::span<const Address> boundaries) {
  window.boundaries.clear();
  const Address end = window.site + window.displaced;
  for (auto boundary = std::upper_bound(boundaries.begin(), boundaries.end(), window.site);
       boundary != boundaries.end() && *boundary < end; ++boundary)
    window.boundaries.push_back(static_cast<uint8_t>(*boundary - window.site));
}

Trampoline trampoline_at(const FunctionCode& function, Address address) {
  Trampoline trampoline;
  trampoline.address = address;
  const auto bytes = function.bytes.subspan(address - function.range.begin);
  std::copy_n(bytes.begin(), kJumpLength, trampoline.original.begin());
  return trampoline;
}

// Ranges that do not overlap, by address, and the patch of each.
class Occupancy {
 public:
  struct Entry {
    Range range;
    size_t patch;
  };

  void add(Range range, size_t patch) {
    // Usually after all others.
    entries_.insert(entries_.begin() + static_cast<ptrdiff_t>(first_after(range.begin)),
                    {range, patch});
  }
  bool overlaps(Range range) const {
    const auto near = within(range);
    return !near.empty();
  }
  // Returns those that overlap the range.
  std::span<const Entry> within(Range range) const {
    const size_t first = first_after(range.begin);
    size_t last = first;
    while (last < entries_.size() && entries_[last].range.begin < range.end) ++last;
    return std::span(entries_).subspan(first, last - first);
  }

 private:
  // Returns the index of the first that ends after the address.
  size_t first_after(Address address) const {
    const auto found =
        std::upper_bound(entries_.begin(), entries_.end(), address,
                         [](Address a, const Entry& entry) { return a < entry.range.end; });
    return static_cast<size_t>(found - entries_.begin());
  }

  std::vector<Entry> entries_;
};

class Planning {
 public:
  Planning(const FunctionCode& function, Placing placing)
      : function_(function), placing_(placing), limit_(function.range.begin) {}

  FunctionPlan run(std::span<const Address> sites);

 private:
  void place(Address site);
  bool share(Address site);
  bool extend_hop(Address site);
  bool widen(Address site, uint8_t jump_length);
  void add(Patch patch, Address site);
  void place_trampolines();
  void hop(size_t index);
  std::optional<Address> padding_for(Address hop);
  std::optional<std::pair<size_t, Address>> room_in_windows(Address hop) const;
  std::optional<size_t> evict_for(Address hop);
  bool is_free(Range range) const {
    return !windows_.overlaps(range) && !trampolines_.overlaps(range);
  }
  void refuse(Address site, Refusal refusal) { plan_.refused.emplace_back(site, refusal); }
  std::span<const Address> boundaries(Address end);
  std::span<const Address> boundaries() { return boundaries(function_.range.end); }
  Address boundary_before(Address site);

  const FunctionCode& function_;
  const Placing placing_;
  Address limit_;  // everything below is taken by patches
  FunctionPlan plan_;
  struct Hop {
    size_t patch;
    Refusal refusal;  // of the long jump
  };
  std::vector<Hop> hops_;
  Occupancy windows_;  // what all patches touch, while trampolines are placed
  Occupancy trampolines_;
  std::vector<Address> boundaries_;
};

// Returns the instruction boundaries up to at least `end`.
std::span<const Address> Planning::boundaries(Address end) {
  if (!function_.boundaries.empty()) return function_.boundaries;
  if (boundaries_.empty()) boundaries_.push_back(function_.range.begin);
  extend_boundaries(function_, end, boundaries_);
  return boundaries_;
}

// Returns the last boundary at or below the site.
Address Planning::boundary_before(Address site) {
  const auto all = boundaries(site);
  const auto above = std::upper_bound(all.begin(), all.end(), site);
  return above == all.begin() ? function_.range.begin : *std::prev(above);
}

void Planning::add(Patch patch, Address site) {
  PlannedPatch planned;
  planned.points = {static_cast<uint8_t>(site - patch.site)};
  limit_ = patch.touched().end;
  planned.patch = std::move(patch);
  plan_.patches.push_back(std::move(planned));
}

// Adds the site to the window before it: as one of its instructions, or as the next one after them.
bool Planning::share(Address site) {
  // In the middle of Go's stack check the flags hold its result.
  if (plan_.patches.empty() || placing_ == Placing::at_site || function_.is_go) return false;
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

// Adds the site to a short jump, as the next instruction after those that it displaces.
bool Planning::extend_hop(Address site) {
  if (plan_.patches.empty() || placing_ == Placing::at_site || function_.is_go) return false;
  PlannedPatch& last = plan_.patches.back();
  const Address begin = last.patch.site;
  const auto instruction = instruction_at(function_, site);
  if (last.patch.written != kShortJumpLength || site != begin + last.patch.displaced ||
      site - begin > kSharedWindow || !instruction)
    return false;
  auto longer = displace(function_, begin, instruction->end(), kShortJumpLength);
  if (!longer) return false;
  last.patch = *std::move(longer);
  last.points.push_back(static_cast<uint8_t>(site - begin));
  limit_ = last.patch.touched().end;
  return true;
}

// Uses a window that starts before the site, and through which every thread reaches it.
bool Planning::widen(Address site, uint8_t jump_length) {
  if (placing_ == Placing::at_site) return false;
  const auto instruction = instruction_at(function_, site);
  if (!instruction) return false;
  const auto all = boundaries(site);
  auto at = std::lower_bound(all.begin(), all.end(), site);
  if (at == all.end() || *at != site) return false;
  constexpr int kMostInstructions = 6;
  for (int i = 0; i < kMostInstructions && at != all.begin(); ++i) {
    --at;
    if (*at < limit_) return false;
    const auto before = instruction_at(function_, *at);
    if (!before || !before->falls_through() || before->is_call() ||
        before->special == Special::landing_pad)
      return false;
    if (auto patch = displace(function_, *at, instruction->end(), jump_length)) {
      add(*std::move(patch), site);
      return true;
    }
  }
  return false;
}

void Planning::place(Address site) {
  auto direct = plan_site(function_, site, boundary_before(site));
  if (direct) site = direct->site;
  // An address inside an instruction cannot be part of a window.
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
  const auto known = boundaries(site);
  const bool on_boundary = std::binary_search(known.begin(), known.end(), site);
  if (!on_boundary || arch::is_signal_restorer(function_.bytes)) return refuse(site, refusal);
  if (widen(site, kJumpLength)) return;
  if (auto patch = displace(function_, site, site + 1, kShortJumpLength)) {
    add(*std::move(patch), site);
  } else if (!widen(site, kShortJumpLength)) {
    if (!extend_hop(site)) refuse(site, refusal);
    return;
  }
  hops_.push_back({plan_.patches.size() - 1, refusal});
}

// Returns padding after an instruction that does not fall through, within the function or after it.
std::optional<Address> Planning::padding_for(Address hop) {
  constexpr uint64_t kNear = 256;
  const bool unresolved = function_.targets->has_unresolved_jump(function_.range.begin);
  const auto all = boundaries(hop + 2 * kNear);
  auto end_of = std::lower_bound(all.begin(), all.end(), hop > kNear ? hop - kNear : 0);
  if (end_of == all.begin()) ++end_of;
  for (; end_of < all.end() && *end_of <= hop + kNear; ++end_of) {
    const Address at = *end_of;
    // Within the function, an unresolved jump may lead to a nop.
    if (unresolved && at < function_.range.end) continue;
    const auto before = instruction_at(function_, *std::prev(end_of));
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

// Returns room among a window's displaced instructions, after its jump: of several windows, in the
// one that was planned first.
std::optional<std::pair<size_t, Address>> Planning::room_in_windows(Address hop) const {
  std::optional<std::pair<size_t, Address>> best;
  const uint64_t reach = 256;
  const Range near = {hop > reach ? hop - reach : 0, hop + reach};
  for (const Occupancy::Entry& entry : windows_.within(near)) {
    const Patch& patch = plan_.patches[entry.patch].patch;
    if (patch.written != kJumpLength || (best && best->first < entry.patch)) continue;
    const Address end = patch.site + patch.displaced;
    for (Address begin = patch.site + kJumpLength; begin + kJumpLength <= end; ++begin) {
      const Range range = {begin, begin + kJumpLength};
      if (in_short_reach(hop, begin) && in_one_page(patch.site, range.end) &&
          !trampolines_.overlaps(range) && !function_.targets->any_in(range.begin, range.end)) {
        best = std::pair(entry.patch, begin);
        break;
      }
    }
  }
  return best;
}

// Adds the nearest window that makes room for a trampoline; it has no probes of its own.
std::optional<size_t> Planning::evict_for(Address hop) {
  auto window = window_with_room(function_, boundaries(hop + 128), hop,
                                 [&](Range range) { return is_free(range); });
  if (!window) return std::nullopt;
  PlannedPatch planned;
  planned.patch = *std::move(window);
  windows_.add(planned.patch.touched(), plan_.patches.size());
  plan_.patches.push_back(std::move(planned));
  return plan_.patches.size() - 1;
}

void Planning::hop(size_t index) {
  const Address at = plan_.patches[hops_[index].patch].patch.site;
  std::optional<Address> address = padding_for(at);
  std::optional<size_t> depends_on;
  if (!address) {
    auto room = room_in_windows(at);
    if (!room && evict_for(at)) room = room_in_windows(at);
    if (room) {
      depends_on = room->first;
      address = room->second;
    }
  }
  PlannedPatch& planned = plan_.patches[hops_[index].patch];
  if (!address) return;
  planned.patch.tactic = depends_on ? Tactic::evict : Tactic::hop;
  planned.depends_on = depends_on;
  planned.trampoline = trampoline_at(function_, *address);
  trampolines_.add({*address, *address + kJumpLength}, hops_[index].patch);
  if (!depends_on) return;
  Patch& window = plan_.patches[*depends_on].patch;
  keep_threads_out(window, boundaries(window.site + window.displaced));
}

void Planning::place_trampolines() {
  if (hops_.empty()) return;
  for (size_t i = 0; i < plan_.patches.size(); ++i)
    windows_.add(plan_.patches[i].patch.touched(), i);
  for (size_t i = 0; i < hops_.size(); ++i) hop(i);
}

FunctionPlan Planning::run(std::span<const Address> sites) {
  for (Address site : sites) place(site);
  place_trampolines();

  // Drops hops that found no trampoline. No patch depends on them.
  std::vector<bool> dropped(plan_.patches.size());
  for (const Hop& hop : hops_) {
    const PlannedPatch& planned = plan_.patches[hop.patch];
    if (planned.trampoline) continue;
    dropped[hop.patch] = true;
    for (uint8_t point : planned.points) refuse(planned.patch.site + point, hop.refusal);
  }
  std::vector<size_t> order;
  for (size_t i = 0; i < plan_.patches.size(); ++i)
    if (!dropped[i]) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return plan_.patches[a].patch.site < plan_.patches[b].patch.site;
  });
  std::vector<size_t> position_of(plan_.patches.size());
  for (size_t i = 0; i < order.size(); ++i) position_of[order[i]] = i;
  FunctionPlan sorted;
  sorted.refused = std::move(plan_.refused);
  for (size_t i : order) {
    sorted.patches.push_back(std::move(plan_.patches[i]));
    auto& depends_on = sorted.patches.back().depends_on;
    if (depends_on) depends_on = position_of[*depends_on];
  }
  return sorted;
}

}  // namespace

FunctionPlan plan_function(const FunctionCode& function, std::span<const Address> sites,
                           Placing placing) {
  return Planning(function, placing).run(sites);
}

std::optional<FarHop> plan_far_hop(const FunctionCode& function, Address site, Address last,
                                   std::span<const FunctionCode> neighbours,
                                   const std::function<bool(Range)>& is_free) {
  if (site == function.range.begin) site = entry_site(function);
  if (!is_boundary(function, site)) return std::nullopt;
  auto jump = displace(function, site, last + 1, kShortJumpLength);
  if (last != site && (!jump || !is_free(jump->touched())))
    jump = displace(function, site, site + 1, kShortJumpLength);
  if (!jump || !is_free(jump->touched())) return std::nullopt;
  const Range near = jump->touched();
  for (const FunctionCode& neighbour : neighbours) {
    const auto all = boundaries(neighbour);
    auto window = window_with_room(
        neighbour, all, site, [&](Range range) { return !range.overlaps(near) && is_free(range); });
    if (!window) continue;
    keep_threads_out(*window, all);
    FarHop far_hop;
    far_hop.hop.points = {0};
    far_hop.hop.patch = *std::move(jump);
    far_hop.hop.patch.tactic = Tactic::evict;
    far_hop.hop.trampoline = trampoline_at(neighbour, window->site + kJumpLength);
    far_hop.window = *std::move(window);
    return far_hop;
  }
  return std::nullopt;
}

// After an instruction that does not fall through may be constants, as assembly and GHC have them.
// Code begins again where something leads, but not at a constant; anywhere, if it is not known
// where jumps lead. Adds to `read` the addresses within the function that its instructions read.
static std::vector<Address> instructions_but(const FunctionCode& function,
                                             std::span<const Address> constants,
                                             std::vector<Address>& read) {
  std::vector<Address> all;
  const bool may_lead_anywhere = function.targets->has_unresolved_jump(function.range.begin);
  bool reached = true, is_constant = false;
  for (Address at = entry_site(function); at < function.range.end;) {
    const bool starts_constant = !reached && std::ranges::binary_search(constants, at);
    const bool leads_here = reached || (function.targets->contains(at) && !starts_constant);
    is_constant = !leads_here && (is_constant || starts_constant);
    if (is_constant || (!leads_here && !may_lead_anywhere)) {
      ++at;
      continue;
    }
    const auto instruction = instruction_at(function, at);
    if (!instruction || instruction->end() > function.range.end) break;
    const bool padding =
        instruction->special == Special::nop || instruction->special == Special::int3;
    reached = leads_here || !padding;
    if (reached) {
      all.push_back(at);
      if (instruction->has_rip_operand && instruction->special != Special::lea &&
          function.range.contains(instruction->memory))
        read.push_back(instruction->memory);
    }
    reached = reached && instruction->falls_through();
    at = instruction->end();
  }
  return all;
}

std::vector<Address> instructions(const FunctionCode& function) {
  std::vector<Address> constants, others;
  auto all = instructions_but(function, {}, constants);
  if (constants.empty()) return all;
  std::ranges::sort(constants);
  return instructions_but(function, constants, others);
}

}  // namespace pinprick::plan
