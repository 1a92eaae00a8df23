// A batch is the set of probes that an owner arms in a process at one time: first in all objects
// that are there, then in those that the process loads. Each batch has a session of its own. For
// the thread that uses the measurement.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "engine/session.h"
#include "image/process.h"
#include "stats/histogram.h"

namespace pinprick::session {

// What all probes of a batch have recorded so far.
struct Recorded {
  std::vector<uint64_t> counters = {};  // of counting probes
  // These two are of all other probes.
  std::vector<stats::Histogram> histograms = {};
  std::vector<ledger::Unrecorded> unrecorded = {};
};

struct Batch {
  std::shared_ptr<image::ProcessImage> image;  // shared with those of forked children
  engine::Session session;
  Recorded last = {};  // at the last report of an interval
};

// The batches of one owner in one process. The first one has the hook in the loader.
using Batches = std::list<Batch>;

// Returns nullptr if what the process loads is not tracked.
engine::LoaderWatch* loader_of(const Batches& batches);
// Returns where the batches have code in the process.
std::vector<Range> code_of(const Batches& batches);
// How many calls were missed for lack of memory for histograms.
uint64_t refused_by(const Batches& batches);
// How many slots to start with next time, if calls found none.
uint64_t slots_to_ask_for(const Batches& batches);
bool have_hits(const Batches& batches);

}  // namespace pinprick::session
