#include "placement/function_probes.h"

#include <iterator>
#include <utility>

#include "placement/callee.h"

namespace pinprick::placement {
namespace {

// The next `count` probes that will be added.
IndexRange next_probes(const ProbeSet& set, size_t count) {
  return {set.probes.size(), count};
}

}  // namespace

void FunctionProbes::skip(const ProbeRequest& wanted, plan::Reason reason, Address where) {
  image::Match match = matches_[wanted.match];
  if (std::exchange(match.each_instruction, false) || wanted.after_call)
    match.site = wanted.site + match.object->bias();
  set_.skipped.push_back({match, {reason, where}});
}

void FunctionProbes::skip_all(plan::Refusal refusal) {
  for (const image::Match& match : matches_) {
    refusal.where = match.site - match.object->bias();
    set_.skipped.push_back({match, refusal});
  }
}

std::optional<plan::Reason> FunctionProbes::why_not_timed(const ProbeRequest& wanted) const {
  if (kind_ != Kind::latency) return std::nullopt;
  if (!wanted.at_entry) return plan::Reason::not_called;
  const image::Match& match = matches_[wanted.match];
  auto candidate = return_candidate(*match.object, *match.function, code_);
  candidate.entered = entered_;
  return why_not_return_probed(candidate, *callers_);
}

// By address, each once: a function's entry has two addresses if it starts with an endbr64.
std::vector<ProbeRequest> FunctionProbes::wanted(SeenSites& seen) const {
  const image::Object& object = *matches_.front().object;
  const Address entry = plan::entry_site(code_);
  std::vector<ProbeRequest> all;
  for (size_t i = 0; i < matches_.size(); ++i) {
    if (matches_[i].each_instruction) {
      for (Address site : plan::instructions(code_))
        if (seen.is_new(site + object.bias())) all.push_back({site, i, site == entry});
      continue;
    }
    const Address site = matches_[i].site - object.bias();
    const bool at_entry = site == code_.range.begin || site == entry;
    all.push_back({at_entry ? entry : site, i, at_entry});
  }
  if (matches_.size() == 1) return all;
  std::stable_sort(all.begin(), all.end(),
                   [](const ProbeRequest& a, const ProbeRequest& b) { return a.site < b.site; });
  all.erase(
      std::unique(all.begin(), all.end(),
                  [](const ProbeRequest& a, const ProbeRequest& b) { return a.site == b.site; }),
      all.end());
  return all;
}

void FunctionProbes::plan(SeenSites& seen) {
  image::Object& object = *matches_.front().object;
  const image::Function& function = *matches_.front().function;
  if (matches_.front().unresolved) return skip_all({plan::Reason::unresolved_ifunc});
  if (kind_ == Kind::latency)
    if (const auto refusal = why_nothing_return_probed(object)) return skip_all(*refusal);
  // Recording a value or a span takes some stack, which Go's functions do not have where they can
  // be probed.
  if ((kind_ == Kind::value || kind_ == Kind::span) && object.elf().is_go())
    return skip_all({plan::Reason::goroutine});
  const auto code = code_of(object, function);
  if (!code) return skip_all({plan::Reason::unreadable});
  code_ = *code;
  entered_ = how_entered(object, function);

  const Address entry = plan::entry_site(code_);
  std::vector<ProbeRequest> all = wanted(seen);
  std::erase_if(all, [&](const ProbeRequest& one) {
    const auto reason = why_not_timed(one);
    if (reason) skip(one, *reason, one.site);
    return reason.has_value();
  });
  std::vector<Address> sites;
  sites.reserve(all.size());
  for (ProbeRequest& one : all) {
    if (kind_ == Kind::latency) {
      const Address site = return_site(object, code_.bytes, code_.range.begin, entry);
      one.after_call = site != one.site;
      one.site = site;
    }
    sites.push_back(one.site);
  }
  const auto wanted_at = [&](Address site) -> const ProbeRequest& {
    const auto found = std::lower_bound(sites.begin(), sites.end(), site);
    return all[static_cast<size_t>(found - sites.begin())];
  };
  const auto placing = kind_ == Kind::latency ? plan::Placing::at_site : plan::Placing::anywhere;
  auto plan = plan::plan_function(code_, sites, placing);
  for (const auto& [site, refusal] : plan.refused)
    skip(wanted_at(site), refusal.reason, refusal.where);
  const size_t first = set_.patches.size();
  for (const plan::PlannedPatch& planned : plan.patches) {
    SitePatch patch;
    patch.object = &object;
    patch.plan = planned;
    if (planned.depends_on) patch.plan.depends_on = first + *planned.depends_on;
    patch.probes = next_probes(set_, planned.points.size());
    for (uint8_t offset : planned.points) {
      const Address site = planned.patch.site + offset;
      set_.probes.emplace_back(first_ + wanted_at(site).match, set_.patches.size(), offset,
                               stack_use(entered_ == Entered::by_call && site == entry));
    }
    set_.patches.push_back(std::move(patch));
  }
  if (kind_ == Kind::latency && set_.patches.size() == first + 1) end_at_sleds(first);
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
    end.probes = next_probes(set_, 0);
  }
  set_.patches[start].plan.timing = CallTiming::starts_call;
  std::move(ends.begin(), ends.end(), std::back_inserter(set_.patches));
}

}  // namespace pinprick::placement
