// A recording as a measurement that `diff` compares.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "compare/run.h"
#include "recording/reader.h"

namespace pinprick::cli {

// Returns nullopt if the file is no recording, or cannot be read. A pipe is taken for none, and is
// not read. The
// recording's calls have rows as `latency` has them; if calls lie in others, the measure `self` has
// the times without those. What has no time has rows as `count` has them.
using RecordedRun = std::optional<Result<compare::Run, recording::ReadError>>;
RecordedRun read_recorded_run(const std::string& path);

}  // namespace pinprick::cli
