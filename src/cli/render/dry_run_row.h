// A process as --dry-run shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "session/dry_run.h"

namespace pinprick::cli {

// How often the points are hit, as a count has found (--probe-rate).
struct ProbeRate {
  double seconds = 0;
  uint64_t hits = 0;
  double ns_per_hit = 0;  // what a hit of the verb's probes costs here, on the safe side
  std::vector<std::pair<std::string, uint64_t>> most;  // the functions with the most hits

  double hits_per_second() const { return static_cast<double>(hits) / seconds; }
  // Returns the share of one CPU's time that all probes would take.
  double share_of_cpu() const { return hits_per_second() * ns_per_hit / 1e9; }
};

struct DryRunRow {
  const session::DryRun& run;
  std::optional<ProbeRate> rate;
};

}  // namespace pinprick::cli
