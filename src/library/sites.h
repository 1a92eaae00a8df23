// All sites of one's own process, by address, and those of before.
//
// A site is never freed: its stubs may be in use. Where other code has come to lie at its address,
// another site takes its place. The registry's lock is held. Nothing can go wrong here.
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
#include "library/site.h"
#include "library/site_plan.h"
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
  // Null: no instruction was probed there.
  Site* find(Address address) const;
  // Those that begin in the range, or so shortly before it that they may reach into it.
  Stretch near(Range range) const {
    const Address from = range.begin - std::min(range.begin, plan::kMaxWindow);
    return {sites_.lower_bound(from), sites_.lower_bound(range.end)};
  }
  // Sites but the one at `site` that take, or are to take, some of the range.
  std::vector<Site*> others_in(Range range, Address site) const;

  // The site that is to be as planned. A known one stays if something is attached to it, or in its
  // place, or if it was planned in the same way.
  Site& take(SitePlan planned, const image::Match& match);

  // Puts into bytes read at an address what was there before we changed it.
  void restore(Address at, std::span<uint8_t> bytes) const;

  // After `objects` were read anew. A library that was unloaded took our jumps along. Another may
  // lie there now, or the same one with its own bytes.
  void forget_what_is_gone(const image::ProcessImage& objects);

 private:
  ByAddress sites_;
  std::vector<std::unique_ptr<Site>> former_sites_;  // their stubs may still be in use
};

}  // namespace pinprick::library
