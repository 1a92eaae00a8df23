#include "placement/function_probes.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "action/at_return.h"
#include "placement/callee.h"

namespace pinprick::placement {

void FunctionProbes::skip(const ProbeRequest& wanted, const plan::Refusal& refusal) {
  image::Match match = matches_[wanted.match];
  if (std::exchange(match.each_instruction, false) || wanted.after_call)
    match.site = wanted.site + match.object->bias();
  set_.skipped.push_back({match, refusal});
}

void FunctionProbes::skip(const image::Match& match, plan::Refusal refusal) {
  refusal.where = match.site - match.object->bias();
  set_.skipped.push_back({match, refusal});
}

// Why the function can have no probe with that action, whatever its code is. Where its calls can
// have no slots, they may be timed by exits.
std::optional<plan::Refusal> FunctionProbes::why_none(const action::Action& action) const {
  image::Object& object = *matches_.front().object;
  if (matches_.front().unresolved) return plan::Refusal{plan::Reason::unresolved_ifunc};
  if (action.times_call()) {
    const auto refusal = why_no_slots(object);
    return refusal && may_have_exits(refusal->reason) ? std::nullopt : refusal;
  }
  // Recording a value or a span, a key, and a condition take some stack, which Go's functions do
  // not have where they can be probed.
  const bool only_counts = action.counts() && action.condition.empty() && !action.uses_keys();
  if (!only_counts && object.elf().is_go()) return plan::Refusal{plan::Reason::goroutine};
  return std::nullopt;
}

// Can calls be timed by exits where they have no slot for this reason?
bool FunctionProbes::may_have_exits(plan::Reason no_slot) const {
  switch (ends_) {
    case Ends::slots:
      return false;
    case Ends::exits:
      return no_slot != plan::Reason::stack_moves;
    case Ends::automatic:
      break;
  }
  return no_slot == plan::Reason::runtime_reads_stack ||
         no_slot == plan::Reason::reads_return_address ||
         no_slot == plan::Reason::unresolved_import;
}

std::optional<plan::Reason> FunctionProbes::why_not_timed(const ProbeRequest& wanted) const {
  if (!is_timed(wanted)) return std::nullopt;
  if (!wanted.at_entry) return plan::Reason::not_called;
  const image::Match& match = matches_[wanted.match];
  auto candidate = return_candidate(*match.object, *match.function, code_);
  candidate.entered = entered_;
  return why_not_called(candidate);
}

// Why calls of the function can have no slot.
std::optional<plan::Refusal> FunctionProbes::why_no_slot_here() const {
  image::Object& object = *matches_.front().object;
  if (const auto refusal = why_no_slots(object)) return refusal;
  if (ends_ == Ends::exits) return std::nullopt;
  auto candidate = return_candidate(object, *matches_.front().function, code_);
  candidate.entered = entered_;
  const auto reason = why_no_slot(candidate, *callers_);
  return reason ? std::optional(plan::Refusal{*reason}) : std::nullopt;
}

// By address. At one address, the timing of calls comes last. A function's entry has two addresses
// if it starts with an endbr64.
std::vector<ProbeRequest> FunctionProbes::wanted(SeenSites& seen) const {
  const image::Object& object = *matches_.front().object;
  const Address entry = plan::entry_site(code_);
  std::vector<ProbeRequest> all;
  for (size_t i = 0; i < matches_.size(); ++i) {
    const uint32_t action = actions_.number_of(matches_[i].pattern, scope_of(matches_[i]));
    if (why_none(actions_.all()[action])) continue;
    if (matches_[i].each_instruction) {
      for (Address site : plan::instructions(code_))
        if (seen.is_new(site + object.bias(), action))
          all.push_back({site, i, action, site == entry});
      continue;
    }
    const Address site = matches_[i].site - object.bias();
    const bool at_entry = site == code_.range.begin || site == entry;
    all.push_back({at_entry ? entry : site, i, action, at_entry});
  }
  if (matches_.size() == 1) return all;
  const auto key = [&](const ProbeRequest& one) {
    return std::tuple(one.site, is_timed(one), one.action);
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const ProbeRequest& a, const ProbeRequest& b) { return key(a) < key(b); });
  all.erase(
      std::unique(all.begin(), all.end(),
                  [&](const ProbeRequest& a, const ProbeRequest& b) { return key(a) == key(b); }),
      all.end());
  return all;
}

void FunctionProbes::plan(SeenSites& seen) {
  image::Object& object = *matches_.front().object;
  const image::Function& function = *matches_.front().function;
  bool is_any_possible = false;
  for (const image::Match& match : matches_)
    if (const auto refusal = why_none(actions_.of(match.pattern)))
      skip(match, *refusal);
    else
      is_any_possible = true;
  if (!is_any_possible) return;
  const auto code = code_of(object, function);
  if (!code) {
    for (const image::Match& match : matches_)
      if (!why_none(actions_.of(match.pattern))) skip(match, {plan::Reason::unreadable});
    return;
  }
  code_ = *code;
  entered_ = how_entered(object, function);

  std::vector<ProbeRequest> all = wanted(seen);
  std::erase_if(all, [&](const ProbeRequest& one) {
    const auto reason = why_not_timed(one);
    if (reason) skip(one, {*reason, one.site});
    return reason.has_value();
  });
  leave_out_other_conditions(all);
  leave_out_more_kept(all);
  const bool is_any_timed =
      std::ranges::any_of(all, [&](const ProbeRequest& one) { return is_timed(one); });
  if (is_any_timed)
    place_timed(std::move(all));
  else
    place(all, plan::Placing::anywhere);
}

void FunctionProbes::place_timed(std::vector<ProbeRequest> all) {
  const auto is_timed_one = [&](const ProbeRequest& one) { return is_timed(one); };
  const auto timed = std::ranges::count_if(all, is_timed_one);
  const auto is_any_timed = [&](auto&& has) {
    return std::ranges::any_of(all, [&](const ProbeRequest& one) {
      return is_timed(one) && std::invoke(has, action_of(one));
    });
  };
  // The end of a call at an exit records its time in one metric, and computes nothing.
  const bool needs_slot = timed != 1 || is_any_timed(&action::Action::computes_at_return);
  const auto no_slot = why_no_slot_here();
  if (ends_ == Ends::exits || (no_slot && may_have_exits(no_slot->reason))) {
    const auto no_exits =
        needs_slot ? plan::Reason::needs_slot : place_with_exits(all, CallTiming::only_by_exits);
    if (!no_exits) return;
    leave_out_timed(all, ends_ == Ends::exits ? plan::Refusal{*no_exits} : *no_slot);
    return place(all, plan::Placing::anywhere);
  }
  if (no_slot) {
    leave_out_timed(all, *no_slot);
    return place(all, plan::Placing::anywhere);
  }
  // Sleds are the cheapest sites. If no exit is a jump to another function, exits measure the same
  // time as a slot.
  const bool has_condition =
      is_any_timed([](const action::Action& one) { return !one.condition.empty(); });
  if (ends_ == Ends::automatic && has_sleds() && all.size() == 1 && !needs_slot && !has_condition &&
      !place_with_exits(all, CallTiming::by_exits))
    return;
  image::Object& object = *matches_.front().object;
  const Address entry = plan::entry_site(code_);
  for (ProbeRequest& one : all) {
    if (!is_timed(one)) continue;
    const Address site = return_site(object, code_.bytes, code_.range.begin, entry);
    one.after_call = site != one.site;
    one.site = site;
  }
  // Others may be where the timing has moved to.
  std::ranges::stable_sort(
      all, {}, [&](const ProbeRequest& one) { return std::pair(one.site, is_timed(one)); });
  place(all, plan::Placing::at_site);
}

// Does the function have XRay sleds, in an object through which no exception passes?
bool FunctionProbes::has_sleds() const {
  const image::EntrySite* const site =
      matches_.front().object->entry_site(*matches_.front().function);
  return site != nullptr && site->kind == image::EntryKind::xray && !site->may_be_unwound;
}

void FunctionProbes::leave_out_timed(std::vector<ProbeRequest>& all, const plan::Refusal& why) {
  std::erase_if(all, [&](const ProbeRequest& one) {
    if (!is_timed(one)) return false;
    plan::Refusal refusal = why;
    refusal.where = one.site;
    skip(one, refusal);
    return true;
  });
}

// Places the probes. `all` is by address.
void FunctionProbes::place(std::span<const ProbeRequest> all, plan::Placing placing) {
  std::vector<Address> sites;
  sites.reserve(all.size());
  for (const ProbeRequest& one : all)
    if (sites.empty() || sites.back() != one.site) sites.push_back(one.site);
  const auto plan = plan::plan_function(code_, sites, placing);
  for (const auto& [site, refusal] : plan.refused)
    for (const ProbeRequest& one : requests_at(all, site)) skip(one, refusal);
  add_patches(plan, all);
}

void FunctionProbes::add_patches(const plan::FunctionPlan& plan,
                                 std::span<const ProbeRequest> all) {
  const Address entry = plan::entry_site(code_);
  const size_t first = set_.patches.size();
  for (const plan::PlannedPatch& planned : plan.patches) {
    SitePatch patch;
    patch.object = matches_.front().object;
    patch.plan = planned;
    if (planned.depends_on) patch.plan.depends_on = first + *planned.depends_on;
    const size_t first_probe = set_.probes.size();
    for (uint8_t offset : planned.points) {
      const Address site = planned.patch.site + offset;
      for (const ProbeRequest& one : requests_at(all, site))
        set_.probes.emplace_back(first_ + one.match, set_.patches.size(), offset,
                                 stack_use(entered_ == Entered::by_call && site == entry));
    }
    patch.probes = {first_probe, set_.probes.size() - first_probe};
    set_.patches.push_back(std::move(patch));
  }
}

// Places the probes, and an end of calls at each exit of the function. Returns why not, and places
// nothing then. A function whose calls may have slots must not jump to others.
std::optional<plan::Reason> FunctionProbes::place_with_exits(std::span<const ProbeRequest> all,
                                                             CallTiming timing) {
  image::Object& object = *matches_.front().object;
  const auto exits = find_exits(object, *matches_.front().function, code_, *parts_);
  if (!exits || (exits->has_tail_jumps && timing == CallTiming::by_exits))
    return plan::Reason::exits_unknown;
  const Address entry = plan::entry_site(code_);
  std::vector<plan::FunctionPlan> plans;
  for (const FunctionPiece& piece : exits->pieces) {
    std::vector<Address> sites = piece.exits;
    if (plans.empty())
      for (const ProbeRequest& one : all) sites.push_back(one.site);
    std::ranges::sort(sites);
    sites.erase(std::unique(sites.begin(), sites.end()), sites.end());
    auto& plan =
        plans.emplace_back(plan::plan_function(piece.code, sites, plan::Placing::anywhere));
    for (const auto& [site, refusal] : plan.refused)
      if (site == entry || std::ranges::binary_search(piece.exits, site))
        return plan::Reason::exits_without_room;
  }
  const size_t first = set_.patches.size();
  for (const auto& [site, refusal] : plans.front().refused)
    for (const ProbeRequest& one : requests_at(all, site)) skip(one, refusal);
  for (const plan::FunctionPlan& plan : plans)
    add_patches(plan, &plan == &plans.front() ? all : std::span<const ProbeRequest>());
  size_t start = first;
  while (set_.patches[start].plan.patch.site != entry) ++start;
  set_.patches[start].plan.timing = timing;
  size_t patch = first;
  for (size_t i = 0; i < plans.size(); ++i)
    for (const plan::PlannedPatch& planned : plans[i].patches) {
      for (const uint8_t offset : planned.points)
        if (std::ranges::binary_search(exits->pieces[i].exits, planned.patch.site + offset)) {
          set_.patches[patch].plan.start = start;
          set_.patches[patch].plan.end_offset = offset;
        }
      ++patch;
    }
  return std::nullopt;
}

// Returns those of `all` at the site.
std::span<const ProbeRequest> FunctionProbes::requests_at(std::span<const ProbeRequest> all,
                                                          Address site) {
  ProbeRequest key;
  key.site = site;
  const auto [first, end] = std::equal_range(
      all.begin(), all.end(), key,
      [](const ProbeRequest& a, const ProbeRequest& b) { return a.site < b.site; });
  return {first, end};
}

// One measurement of a call serves all that time it. So it has one condition at the entry, if any:
// that of the first. If others say something else of the entry, they can do so at the return,
// unless the first one cannot, too.
void FunctionProbes::leave_out_other_conditions(std::vector<ProbeRequest>& all) {
  std::optional<select::Expression> first;
  bool is_first_at_entry = false;
  std::erase_if(all, [&](const ProbeRequest& one) {
    if (!is_timed(one)) return false;
    const action::Action& action = action_of(one);
    const auto condition = action::when_computed(action).at_entry;
    const bool is_at_entry = !action.at_return && !condition.empty();
    if (!first) {
      first = condition;
      is_first_at_entry = is_at_entry;
    }
    if (condition == *first || (!is_at_entry && !is_first_at_entry)) return false;
    skip(one, {plan::Reason::other_condition, one.site});
    return true;
  });
}

// All that time a call keep its arguments together.
void FunctionProbes::leave_out_more_kept(std::vector<ProbeRequest>& all) {
  const auto condition_of = [&](const ProbeRequest& one) {
    return action::when_computed(action_of(one)).at_entry;
  };
  const auto timed = [&](const ProbeRequest& one) { return is_timed(one); };
  const auto first = std::find_if(all.begin(), all.end(), timed);
  const bool is_same = std::all_of(first, all.end(), [&](const ProbeRequest& one) {
    return !is_timed(one) || condition_of(one) == condition_of(*first);
  });
  const auto entry = is_same ? action::Entry::decides : action::Entry::does_not_decide;
  std::vector<select::Expression> kept;
  std::erase_if(all, [&](const ProbeRequest& one) {
    auto with_this = kept;
    action::add_kept(action_of(one), entry, with_this);
    const bool is_too_much = with_this.size() > action::kMostKept;
    if (!is_too_much)
      kept = std::move(with_this);
    else
      skip(one, {plan::Reason::too_many_kept, one.site});
    return is_too_much;
  });
}

}  // namespace pinprick::placement
