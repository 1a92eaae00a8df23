// A recording as a measurement that `diff` compares.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "compare/run.h"
#include "recording/reader.h"

namespace pinprick::cli {

// Returns nullopt if the file is no recording, or cannot be read. A pipe is not read, and counts as
// no recording. Calls have rows as those of `latency`; if some lie in others, the measure `self`
// has their times without those. Points that have no times have rows as those of `count`.
using RecordedRun = std::optional<Result<compare::Run, recording::ReadError>>;
RecordedRun read_recorded_run(const std::string& path);

}  // namespace pinprick::cli
