// What must not be return-probed, by name and by what it is (docs/latency.md).
//
// A call is measured by calling: the function runs as if called by pinprick's slot, and returns
// there. Functions that come back twice, on another stack, or not by `ret`, or that ask who called
// them, cannot be measured that way.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "plan/tactic.h"

namespace pinprick::probe {

struct ReturnCandidate {
  std::span<const std::string_view> names;  // all its symbols; empty in stripped objects
  std::span<const uint8_t> code;            // of the function alone
  bool is_called = false;                   // not jumped to from the middle of another function
  bool is_program_entry = false;            // e_entry of its object
  bool is_in_unwinder = false;              // of a library that is nothing else
};

std::optional<plan::Reason> why_not_return_probed(const ReturnCandidate& function);

}  // namespace pinprick::probe
