// The timed calls and spans of a process that are in flight, with their names: those of all owners
// whose session files can be read, and those that the program times itself by libpinprick.
//
// Reads only: no turn is taken, nothing is stopped or written. engine/calls/calls_in_flight.h says
// which calls are found.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "image/store/object_store.h"
#include "ledger/session_error.h"
#include "session/code_names.h"

namespace pinprick::session {

// The function that a probe times, or a span.
struct TimedFunction {
  std::string object;
  std::string function;  // with its offset, if it has one; of a span, as the user wrote it
  Address address = 0;   // in the object's file
  std::string file;      // the path of the object
};

struct TimedCall {
  TimedFunction function;
  std::string statistic;  // that it will be recorded in; empty: none that was left on purpose
  bool is_span = false;
  uint64_t age_ns = 0;
  pid_t thread = 0;                // 0: not known
  std::string thread_name;         // empty: not known
  std::optional<CodeName> caller;  // of a call
};

struct TimedCalls {
  bool is_timed = false;         // the process has something that times calls or spans
  std::vector<TimedCall> calls;  // the oldest first
  std::vector<ledger::FileError> unreadable;
};

// The calls to return. The names of the callers of other calls are not looked up.
struct WantedCalls {
  uint64_t least_age_ns = 0;
  std::function<bool(const TimedFunction&)> is_wanted;  // empty: all are
  bool with_callers = true;
  // Once for each owner. Otherwise a call that several time is returned once, with its first start.
  bool for_each_owner = false;
};

// Fails if the process's memory cannot be read.
Result<TimedCalls, SystemError> timed_calls(pid_t pid, image::ObjectStore& store,
                                            const WantedCalls& wanted);

}  // namespace pinprick::session
