// Resolves conflicts between sites that are so close to each other that they need the same bytes of
// text.
//
// If a new probe is between instructions that another site's jump displaces, that site becomes a
// breakpoint, if everything attached there allows it; otherwise the new probe is refused. If a new
// probe's jump would cover another probe, the new one becomes a breakpoint. When the neighbour is
// removed, the remaining probe becomes a jump again (Batch::add_those_with_room_now).
//
// Pure: it reads the sites, and changes only `no_jump` of sites that give way. The caller holds the
// registry's lock. The error is the reason why there is no room.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "library/probes/site.h"
#include "library/probes/site_plan.h"
#include "library/probes/sites.h"
#include "placement/single.h"
#include "plan/tactic.h"

namespace pinprick::library {

// Makes the planned site a breakpoint if its neighbours require that, and sets which sites have to
// give way to it.
Result<void, plan::Reason> fit_among_neighbours(SitePlan& planned,
                                                placement::Breakpoints breakpoints,
                                                const Sites& sites);

// If `site` is a breakpoint only because of neighbours to which nothing is attached any more,
// returns these neighbours, which may still be in the text. Otherwise returns nullopt.
std::optional<std::vector<Site*>> neighbours_that_went(const Site& site, const Sites& sites);

// Sites that become breakpoints because of others.
class Demotions {
 public:
  void demote(Site& site);
  // Restores the sites' `no_jump`.
  void undo();
  // May add a site more than once.
  void add_to(std::vector<Site*>& sites) const;

 private:
  std::vector<std::pair<Site*, std::optional<plan::Reason>>> before_;
};

}  // namespace pinprick::library
