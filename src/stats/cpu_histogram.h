// What one CPU has recorded of a statistic.
#pragma once

#include <utility>
#include <vector>

#include "stats/histogram.h"

namespace pinprick::stats {

struct CpuHistogram {
  int cpu = -1;  // -1: the area of threads that have to lock
  stats::Histogram histogram;
};

// Returns the sum over all CPUs. It takes them: a thousand of these are a second's work of a
// viewer, of which copies would be the most.
inline Histogram total_of(std::vector<CpuHistogram> by_cpu, unsigned bits) {
  Histogram total(bits);
  for (CpuHistogram& one : by_cpu)
    if (total.cells().empty())
      total = std::move(one.histogram);
    else
      total.merge(one.histogram);
  return total;
}

}  // namespace pinprick::stats
