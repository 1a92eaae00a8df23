// Why a process cannot be measured, or not with all probes that were selected.
#pragma once

#include <string>
#include <variant>

#include "ledger/session_error.h"
#include "plan/planner.h"
#include "session/matching.h"

namespace pinprick::session {

// A point of a span cannot be probed.
struct PointRefused {
  std::string span;
  std::string point;
  plan::Refusal refusal;
};

// None of the selected functions or spans can be probed.
struct NothingArmed {
  placement::Kind kind = placement::Kind::count;
};

// The task was cancelled before any probe was armed. Nothing was changed.
struct Interrupted {};

using MeasurementError =
    std::variant<ledger::SessionError, MatchError, PointRefused, NothingArmed, Interrupted>;

// Returns true if arming failed since the process placed its first own probe after it was looked
// at. It succeeds after another look.
bool is_outdated(const MeasurementError& error);
// Returns true if the same may succeed some moments later.
bool is_busy(const MeasurementError& error);

}  // namespace pinprick::session
