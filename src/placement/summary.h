// How much of an object can be probed, and how: the figures of `list --summary`. Pure, but for the
// lazy loading of the object.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "image/match.h"
#include "placement/island_space.h"
#include "plan/tactic.h"

namespace pinprick::placement {

enum class Sites : uint8_t {
  entries,       // of functions
  instructions,  // each alone
  together,      // every instruction, all of them at once
};

struct Summary {
  size_t sites = 0;
  size_t probeable = 0;
  std::map<plan::Tactic, size_t> by_tactic;
  std::map<plan::Reason, size_t> refused;
};

// `matches` are those of one object, as image::match_patterns() returns them.
Summary summarize(const std::vector<image::Match>& matches, Sites sites, IslandSpace islands);

}  // namespace pinprick::placement
