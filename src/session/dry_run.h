// Plans the probes of a measurement, and places none of them (--dry-run).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "image/process.h"
#include "image/store/object_store.h"
#include "plan/tactic.h"
#include "session/measurement_error.h"
#include "session/planning.h"
#include "session/report.h"

namespace pinprick::session {

struct DryRun {
  ProcessName process;
  size_t functions = 0;                      // instructions, points or spans, if these are meant
  std::map<plan::Tactic, size_t> by_tactic;  // of all sites, those of hooks left out
  std::vector<placement::Skipped> skipped;
  bool may_unwind_elsewhere = false;           // as MeasurementListener::may_unwind_elsewhere()
  std::unique_ptr<image::ProcessImage> image;  // what is skipped refers to it
};

// Reads the process and its objects, and changes nothing. Fails as Measurement::begin() does, for
// all that can be known without stopping the process.
Result<DryRun, MeasurementError> dry_run(pid_t pid, const MeasurementSpec& spec,
                                         image::ObjectStore& store);

}  // namespace pinprick::session
