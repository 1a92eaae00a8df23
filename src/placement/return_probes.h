// What must not be return-probed, by name and by what it is (docs/latency.md).
//
// A call is measured by calling: the function runs as if called by pinprick's slot, and returns
// there. Functions that come back twice, on another stack, or not by `ret`, or that ask who called
// them, cannot be measured that way.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/address.h"
#include "image/object.h"
#include "plan/tactic.h"

namespace pinprick::placement {

struct ReturnCandidate {
  std::span<const std::string_view> names;  // all its symbols; empty in stripped objects
  std::span<const uint8_t> code;            // of the function alone
  bool is_called = false;                   // not jumped to from the middle of another function
  bool is_program_entry = false;            // e_entry of its object
  bool is_in_unwinder = false;              // of a library that is nothing else
  image::Object* object = nullptr;          // that it belongs to
  Address begin = 0;                        // of the code, in the object's own addresses
};

// Nothing of the object can be: its runtime, if not the function itself, minds return addresses.
std::optional<plan::Refusal> why_nothing_return_probed(image::Object& object);

std::optional<plan::Reason> why_not_return_probed(const ReturnCandidate& function);

// Where calls of the function whose entry is probed at `entry` are timed from: there, or behind a
// call of __fentry__ that it begins with (-mfentry), which looks at the caller. It finds it in its
// place, and the stack is then as it was.
Address return_site(image::Object& object, std::span<const uint8_t> code, Address begin,
                    Address entry);

}  // namespace pinprick::placement
