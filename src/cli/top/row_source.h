// Where the rows of `top` come from: probes that it has armed itself (measurement_rows.h), or
// other histograms that are recorded while it runs. One thread uses it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "session/report.h"

namespace pinprick::cli::top {

class RowSource {
 public:
  using TakeReport = std::function<void(const session::Report&)>;

  virtual ~RowSource() = default;

  // Descriptors that become readable when something happens that look_after() deals with.
  virtual std::vector<int> descriptors() const = 0;
  // Does what the source needs now and then. Returns the nanoseconds until the next call.
  virtual uint64_t look_after() = 0;

  // Hands over what was recorded since the last call, or since the start: a report for each
  // process, with a row for each function, also without a call. A process that has ended has one
  // last report. The reports are valid during the call of `take`.
  virtual void read(const TakeReport& take) = 0;

  // The processes that have ended so far.
  virtual std::vector<pid_t> ended() const = 0;
  virtual bool all_ended() const = 0;

  // May look_after() not be called for a long time, as pinprick will be suspended? Returns false if
  // that would harm a process at this moment.
  virtual bool can_be_left_alone() = 0;
};

}  // namespace pinprick::cli::top
