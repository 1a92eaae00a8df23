// How many per-CPU areas a session has, and how many blocks for histograms. Pure, but
// for what asks the machine; nothing can fail.
#pragma once

#include <cstdint>
#include <string>

#include "layout/session_file.h"

namespace pinprick::engine {

// CPUs with areas of their own. On a machine with more than the tables hold, all threads lock.
uint32_t usable_cpus();

// What there is for a session file, in bytes.
struct SpaceForAreas {
  uint64_t memory = 0;  // of the machine; UINT64_MAX: not known
  uint64_t folder = 0;  // left in the folder of session files; UINT64_MAX: not known
};

SpaceForAreas space_for_areas(const std::string& folder);

// Areas besides the first: one per CPU, if that takes no more than its share of the
// machine's memory, and of what is left in the folder; or as many as are of use to threads that
// lock. A machine may have hundreds of CPUs, or say that it could. And blocks for histograms: one
// for each, and for CPUs' own what is left of that share, or half of it at least.
void choose_area_sizes(layout::SessionCounts& counts, uint32_t cpus, const SpaceForAreas& space);

}  // namespace pinprick::engine
