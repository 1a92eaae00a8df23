#include "placement/function_probes.h"

#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "action/at_return.h"
#include "placement/callee.h"

namespace pinprick::placement {
void FunctionProbes::skip(const ProbeRequest& wanted, plan::Reason reason, Address where) {
  image::Match match = matches_[wanted.match];
  if (std::exchange(match.each_instruction, false) || wanted.after_call)
    match.site = wanted.site + match.object->bias();
  set_.skipped.push_back({match, {reason, where}});
}

void FunctionProbes::skip(const image::Match& match, plan::Refusal refusal) {
  refusal.where = match.site - match.object->bias();
  set_.skipped.push_back({match, refusal});
}

// Why the function can have no probe with that action, whatever its code is.
std::optional<plan::Refusal> FunctionProbes::why_none(const action::Action& action) const {
  image::Object& object = *matches_.front().object;
  if (matches_.front().unresolved) return plan::Refusal{plan::Reason::unresolved_ifunc};
  if (action.times_call()) return why_nothing_return_probed(object);
  // Recording a value or a span, a key, and a condition take some stack, which Go's functions do
  // not have where they can be probed.
  const bool only_counts = action.counts() && action.condition.empty() && !action.uses_keys();
  if (!only_counts && object.elf().is_go()) return plan::Refusal{plan::Reason::goroutine};
  return std::nullopt;
}

std::optional<plan::Reason> FunctionProbes::why_not_timed(const ProbeRequest& wanted) const {
  if (!is_timed(wanted)) return std::nullopt;
  if (!wanted.at_entry) return plan::Reason::not_called;
  const image::Match& match = matches_[wanted.match];
  auto candidate = return_candidate(*match.object, *match.function, code_);
  candidate.entered = entered_;
  return why_not_return_probed(candidate, *callers_);
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

  const Address entry = plan::entry_site(code_);
  std::vector<ProbeRequest> all = wanted(seen);
  std::erase_if(all, [&](const ProbeRequest& one) {
    const auto reason = why_not_timed(one);
    if (reason) skip(one, *reason, one.site);
    return reason.has_value();
  });
  leave_out_other_conditions(all);
  leave_out_more_kept(all);
  size_t timed = 0;
  bool computes = false;
  for (ProbeRequest& one : all) {
    if (!is_timed(one)) continue;
    ++timed;
    computes = action_of(one).computes_at_return() || !action_of(one).condition.empty();
    const Address site = return_site(object, code_.bytes, code_.range.begin, entry);
    one.after_call = site != one.site;
    one.site = site;
  }
  const auto by_site = [](const ProbeRequest& a, const ProbeRequest& b) { return a.site < b.site; };
  // Others may be where the timing has moved to.
  if (timed != 0)
    std::stable_sort(all.begin(), all.end(), [&](const ProbeRequest& a, const ProbeRequest& b) {
      return std::pair(a.site, is_timed(a)) < std::pair(b.site, is_timed(b));
    });
  std::vector<Address> sites;
  sites.reserve(all.size());
  for (const ProbeRequest& one : all)
    if (sites.empty() || sites.back() != one.site) sites.push_back(one.site);
  const auto wanted_at = [&](Address site) {
    ProbeRequest key;
    key.site = site;
    const auto [first, end] = std::equal_range(all.begin(), all.end(), key, by_site);
    return std::span<const ProbeRequest>(first, end);
  };
  const auto placing = timed != 0 ? plan::Placing::at_site : plan::Placing::anywhere;
  auto plan = plan::plan_function(code_, sites, placing);
  for (const auto& [site, refusal] : plan.refused)
    for (const ProbeRequest& one : wanted_at(site)) skip(one, refusal.reason, refusal.where);
  const size_t first = set_.patches.size();
  for (const plan::PlannedPatch& planned : plan.patches) {
    SitePatch patch;
    patch.object = &object;
    patch.plan = planned;
    if (planned.depends_on) patch.plan.depends_on = first + *planned.depends_on;
    const size_t first_probe = set_.probes.size();
    for (uint8_t offset : planned.points) {
      const Address site = planned.patch.site + offset;
      for (const ProbeRequest& one : wanted_at(site))
        set_.probes.emplace_back(first_ + one.match, set_.patches.size(), offset,
                                 stack_use(entered_ == Entered::by_call && site == entry));
    }
    patch.probes = {first_probe, set_.probes.size() - first_probe};
    set_.patches.push_back(std::move(patch));
  }
  // The end of a call at a sled does not know whether a condition held at its start, and computes
  // nothing.
  if (timed == 1 && !computes && set_.patches.size() == first + 1) end_at_sleds(first);
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
    skip(one, plan::Reason::other_condition, one.site);
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
      skip(one, plan::Reason::too_many_kept, one.site);
    return is_too_much;
  });
}

// Adds patches at which the calls end that start at that patch, if all returns of the function have
// sleds, and each has room for a jump of its own.
void FunctionProbes::end_at_sleds(size_t start) {
  image::Object& object = *matches_.front().object;
  const image::EntrySite* const site = object.entry_site(*matches_.front().function);
  const SitePlan& entry = set_.patches[start].plan;
  if (site == nullptr || site->returns.empty() || entry.patch.site != plan::entry_site(code_) ||
      entry.trampoline || entry.island || code_.targets->has_unresolved_jump(code_.range.begin))
    return;
  std::vector<SitePatch> ends;
  for (const Address at : site->returns) {
    const auto planned = plan::plan_site(code_, at);
    if (!planned || planned->touched().begin < entry.claimed().end) return;
    SitePatch& end = ends.emplace_back();
    end.object = &object;
    end.plan = SitePlan(*planned);
    end.plan.timing = CallTiming::ends_call;
    end.plan.depends_on = start;
    end.probes = {set_.probes.size(), 0};
  }
  set_.patches[start].plan.timing = CallTiming::starts_call;
  std::move(ends.begin(), ends.end(), std::back_inserter(set_.patches));
}

}  // namespace pinprick::placement
