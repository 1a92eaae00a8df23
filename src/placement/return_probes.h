// Which functions must not be return-probed, by their names and by what they do (docs/latency.md).
// Pure, but for the lazy loading of objects.
//
// A call is measured by calling: the function runs as if called by pinprick's slot, and returns
// there. Functions that return twice, on another stack, or not by `ret`, or that look at their
// return address, cannot be measured that way.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/address.h"
#include "image/object.h"
#include "placement/callee.h"
#include "plan/tactic.h"

namespace pinprick::placement {

class CallerUse;

struct ReturnCandidate {
  std::span<const std::string_view> names;  // all its symbols; empty in stripped objects
  std::span<const uint8_t> code;            // of the function alone
  Entered entered = Entered::by_jump;
  bool is_program_entry = false;    // e_entry of its object
  bool is_in_unwinder = false;      // its object is an unwinder library
  image::Object* object = nullptr;  // to which it belongs
  const image::Function* function = nullptr;

  Address begin() const { return function->range.begin; }  // in the object's own addresses
};

// Returns why no call of the object's functions can have a slot, or nullopt. The reason is a
// runtime that reads or moves the stack.
std::optional<plan::Refusal> why_no_slots(image::Object& object);

// Returns why calls of this function can be timed neither by slots nor by exits, or nullopt if they
// may be.
std::optional<plan::Reason> why_not_called(const ReturnCandidate& function);

// Returns why calls of this function can have no slot, or nullopt if they can. `callers` has looked
// at the function.
std::optional<plan::Reason> why_no_slot(const ReturnCandidate& function, const CallerUse& callers);

// Returns the site from which calls of the function with that entry are timed: the entry, or the
// instruction after a call of __fentry__ with which the function starts (-mfentry). __fentry__
// reads its caller's return address, which is then still on the stack, and leaves the stack as it
// was.
Address return_site(image::Object& object, std::span<const uint8_t> code, Address begin,
                    Address entry);

}  // namespace pinprick::placement
