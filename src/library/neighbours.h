// Sites so close to each other that they want the same bytes of text, and who gives way.
//
// A probe between the instructions that another one's jump displaces makes that one a breakpoint,
// if all that is attached there allows it, and is refused otherwise. A probe whose jump would cover
// another one is a breakpoint itself. When the neighbour goes, what is left becomes a jump again
// (Batch::add_those_with_room_now).
//
// Pure: reads the sites, and changes nothing but `no_jump` of those that give way. The registry's
// lock is held. The error is the reason why there is no room.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "library/site.h"
#include "library/site_plan.h"
#include "library/sites.h"
#include "placement/single.h"
#include "plan/tactic.h"

namespace pinprick::library {

// Makes a breakpoint of the planned site where neighbours need it, and says who has to give way to
// it.
Result<void, plan::Reason> fit_among_neighbours(SitePlan& planned,
                                                placement::Breakpoints breakpoints,
                                                const Sites& sites);

// If `site` is a breakpoint only because of neighbours to which nothing is attached any more:
// these. They may still be in the text. Nothing: it is what it is for other reasons.
std::optional<std::vector<Site*>> neighbours_that_went(const Site& site, const Sites& sites);

// Sites that are to become breakpoints for the sake of others.
class Demotions {
 public:
  void demote(Site& site);
  // They become again what they were.
  void undo();
  // A site may be there more than once.
  void add_to(std::vector<Site*>& sites) const;

 private:
  std::vector<std::pair<Site*, std::optional<plan::Reason>>> before_;
};

}  // namespace pinprick::library
