// Which probes, for which no jump was possible, the kernel could have by its breakpoints (--trap).
//
// Pure.
#pragma once

#include "placement/probe_set.h"

namespace pinprick::engine {

// Not those of a tracepoint's plain form: the kernel does not turn the point on, and would miss
// hits.
bool may_be_trapped(const placement::Skipped& probe);

}  // namespace pinprick::engine
