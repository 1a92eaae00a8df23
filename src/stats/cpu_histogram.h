// What one CPU has recorded of a statistic.
#pragma once

#include "stats/histogram.h"

namespace pinprick::stats {

struct CpuHistogram {
  int cpu = -1;  // -1: the area of threads that have to lock
  stats::Histogram histogram;
};

}  // namespace pinprick::stats
