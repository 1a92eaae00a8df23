// The text of one statistic, as kstats (Rizzo, 2020) prints it:
//
//     slot 12  CPU  243  count        1 avg       12 p 0.000097
//     slot 12  CPUS 256  count    19977 avg       12 p 0.006153
//
// A cell that is not empty has a line. The last line of a slot is the sum over all CPUs. `p` is the
// fraction of the values that lie in this slot or below: of this CPU's values, or of all on the
// line of the sum. It is cut off after six digits, so 1.000000 says that no value is above. Pure.
#pragma once

#include <span>
#include <string>

#include "stats/cpu_histogram.h"

namespace pinprick::stats {

// Returns the lines by slot, in a slot by CPU, lowest first; empty if nothing was recorded. `cpus`
// is the number of CPUs, which the lines of the sums show. All histograms have the same number of
// fraction bits (asserted), and no CPU occurs twice. Any cells are printed without overflow: sums
// are added in 128 bits, and an average that no 64-bit value has is printed as the largest one.
std::string kstats_text(std::span<const CpuHistogram> histograms, int cpus);

}  // namespace pinprick::stats
