// What the options of count, latency, hist and top say about how a process is measured.
#pragma once

#include "cli/options.h"
#include "session/planning.h"

namespace pinprick::cli {

session::MeasurementSpec spec_of(const Options& options, session::Selection selection);
// Returns the cost of a hit of each kind of probe on this machine.
session::HitCosts hit_costs();

}  // namespace pinprick::cli
