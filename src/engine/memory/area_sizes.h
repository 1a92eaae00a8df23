// How many per-CPU areas a session has, and how many blocks for histograms. Pure, except for the
// functions that ask the machine. Nothing can fail.
#pragma once

#include <cstdint>
#include <string>

#include "layout/session_file.h"

namespace pinprick::engine {

// Returns the number of CPUs that have areas of their own. On a machine with more CPUs than the
// tables hold, all threads lock.
uint32_t usable_cpus();

// The space that there is for a session file, in bytes.
struct SpaceForAreas {
  uint64_t memory = 0;  // of the machine; UINT64_MAX: not known
  uint64_t folder = 0;  // left in the folder of session files; UINT64_MAX: not known
};

SpaceForAreas space_for_areas(const std::string& folder);

// Sets the number of areas besides the first. It is one per CPU, if these take no more than their
// share of the machine's memory, and of the space that is left in the folder. Otherwise it is the
// number that is of use to threads that lock: a machine may have hundreds of CPUs, or say that it
// could have them. Also sets the number of blocks: one for each histogram, and for the CPUs' own
// blocks the rest of that share, at least half of it.
// Returns the logarithm of the number of hashes for that many keys, 0 for as many as usual: fewer
// if keys have histograms. Half of the table stays free, so that the keys find room.
uint32_t key_log2(uint64_t keys, bool has_histograms);

// The same of the table of texts. Of lists, each part and each pair may have an entry.
uint32_t text_log2(uint64_t keys, bool has_histograms, bool has_lists);

// The table of texts that events have read: there may be many.
inline constexpr uint32_t kTextLog2OfEvents = 17;

// Chooses how large the rings of events are: `bytes` each, or more. With 0 as large as usual: they
// take 32 MB together, or less, if there is space.
void choose_ring_size(layout::SessionCounts& counts, uint64_t bytes, uint32_t cpus,
                      const SpaceForAreas& space);

void choose_area_sizes(layout::SessionCounts& counts, uint32_t cpus, const SpaceForAreas& space);

}  // namespace pinprick::engine
