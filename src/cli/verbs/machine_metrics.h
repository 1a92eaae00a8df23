// All statistics of this machine's processes as metrics for Prometheus (docs/serve.md): those that
// stay in processes, those that programs record about themselves, and the figures of pinpricks that
// measure.
//
// It only reads what this user may see, and stops nothing. If a process ends while it is read, it
// is left out.
#pragma once

#include <string>

namespace pinprick::cli {

// `bits`: histograms have 2^bits buckets for each power of two, or fewer if they were recorded so.
std::string machine_metrics(unsigned bits);

}  // namespace pinprick::cli
