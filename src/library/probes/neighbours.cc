#include "library/probes/neighbours.h"

#include <algorithm>

namespace pinprick::library {
namespace {

constexpr auto kNeighbour = plan::Reason::neighbour;

bool has_probes(const Site* site) {
  return !site->attachments.empty();
}

}  // namespace

Result<void, plan::Reason> fit_among_neighbours(SitePlan& planned,
                                                placement::Breakpoints breakpoints,
                                                const Sites& sites) {
  const bool may_be_breakpoint = breakpoints != placement::Breakpoints::none;
  const Address address = planned.address;
  const Site* const known = sites.find(address);
  if (known != nullptr && !known->gone && has_probes(known)) {
    planned.no_jump = known->no_jump;
    if (planned.no_jump && !may_be_breakpoint) return fail(*planned.no_jump);
    return {};
  }
  // Sites after this one do not give way to its jump.
  if (planned.jump)
    for (const Site* other : sites.others_in(planned.jump->touched(), address))
      if (other->address > address && has_probes(other)) planned.no_jump = kNeighbour;
  if (planned.no_jump && !may_be_breakpoint) return fail(*planned.no_jump);
  const Range range = (planned.no_jump ? planned.breakpoint : *planned.jump).touched();
  planned.in_the_way = sites.others_in(range, address);
  for (const Site* other : planned.in_the_way) {
    const bool can_be_breakpoint = other->address < address && other->allows_breakpoint() &&
                                   !other->breakpoint.touched().overlaps(range);
    if (!can_be_breakpoint && has_probes(other)) return fail(kNeighbour);
  }
  return {};
}

std::optional<std::vector<Site*>> neighbours_that_went(const Site& site, const Sites& sites) {
  if (site.gone || !site.jump || site.no_jump != kNeighbour || !has_probes(&site))
    return std::nullopt;
  auto in_the_way = sites.others_in(site.jump->touched(), site.address);
  if (std::any_of(in_the_way.begin(), in_the_way.end(), has_probes)) return std::nullopt;
  return in_the_way;
}

void Demotions::demote(Site& site) {
  before_.emplace_back(&site, site.no_jump);
  site.no_jump = kNeighbour;
}

void Demotions::undo() {
  // In reverse, as a site may have been in the way twice.
  std::for_each(before_.rbegin(), before_.rend(),
                [](const auto& one) { one.first->no_jump = one.second; });
}

void Demotions::add_to(std::vector<Site*>& sites) const {
  for (const auto& [site, former] : before_) sites.push_back(site);
}

}  // namespace pinprick::library
