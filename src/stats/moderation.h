// Spreads of many things that were each measured a few times. The spread of three runs is mostly
// chance; those of all rows together tell what is usual, and each is moved towards that.
//
// Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004 ("limma"), whose formulas have the same names. Pure.
#pragma once

#include <optional>
#include <span>

#include "stats/comparison.h"

namespace pinprick::stats {

// How far observations of one thing are apart, as a fraction of their mean.
struct RelativeSpread {
  double variance = 0;
  double degrees = 0;   // of freedom
  double per_mean = 0;  // the squared error of a difference of two means is this times `variance`
};

// Returns the spread that both have in common. Returns nullopt if none is known, or if a mean is
// not above 0.
std::optional<RelativeSpread> common_spread(const Estimate& before, const Estimate& after);

// The usual spread. It counts as if `degrees` further observations had shown this variance. There
// are infinitely many degrees if the spreads differ no more than by chance.
struct UsualSpread {
  double variance = 0, degrees = 0;
};

// Spreads of 0 do not count. Without at least three others, nothing is usual: degrees is 0.
UsualSpread usual_spread(std::span<const RelativeSpread> spreads);

// Returns the spread, moved towards the usual one.
RelativeSpread moderated(const RelativeSpread& spread, const UsualSpread& usual);

}  // namespace pinprick::stats
