// All sites of our own process, by address, and former ones.
//
// A site is never freed, as its stubs may be in use. If other code is loaded at its address,
// another site takes its place. The caller holds the registry's lock. Nothing here can fail.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/address.h"
#include "image/match.h"
#include "image/process.h"
#include "library/probes/site.h"
#include "library/probes/site_plan.h"
#include "plan/planner.h"

namespace pinprick::library {

class Sites {
 public:
  using ByAddress = std::map<Address, std::unique_ptr<Site>>;
  // Not std::ranges::subrange, which clang 14 refuses.
  struct Stretch {
    ByAddress::const_iterator first, last;
    ByAddress::const_iterator begin() const { return first; }
    ByAddress::const_iterator end() const { return last; }
  };

  const ByAddress& all() const { return sites_; }
  // Returns nullptr if no instruction was probed there.
  Site* find(Address address) const;
  // The sites in the range, or so shortly before it that they may reach into it.
  Stretch near(Range range) const {
    const Address from = range.begin - std::min(range.begin, plan::kMaxWindow);
    return {sites_.lower_bound(from), sites_.lower_bound(range.end)};
  }
  // The sites, except for the one at `site`, that take or are to take some of the range.
  std::vector<Site*> others_in(Range range, Address site) const;

  // Returns the site for a plan. A known site is kept if it has attachments, if it is in the text,
  // or if its plan was the same; otherwise there is a new one.
  Site& take(SitePlan planned, const image::Match& match);

  // Replaces our changes in bytes that were read at an address by the original bytes.
  void restore(Address at, std::span<uint8_t> bytes) const;

  // To be called when `objects` were reloaded: marks the sites of unloaded libraries as gone, with
  // their jumps, and returns them. Another library may be there now, or the same one with its own
  // bytes.
  std::vector<Site*> forget_what_is_gone(const image::ProcessImage& objects);

 private:
  ByAddress sites_;
  std::vector<std::unique_ptr<Site>> former_sites_;  // whose stubs may still be in use
};

}  // namespace pinprick::library
