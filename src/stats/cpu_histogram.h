// What one CPU has recorded of a metric.
#pragma once

#include "stats/histogram.h"

namespace pinprick::stats {

struct CpuHistogram {
  int cpu = 0;  // -1: threads that have to lock
  Histogram histogram;
};

}  // namespace pinprick::stats
