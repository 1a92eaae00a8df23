// Finds the unwinder of an object whose symbols do not name it, by what its code does. Pure, but
// for the lazy loading of the object.
//
// This is libgcc's unwinder, linked statically and stripped. It is found in steps; if one of them
// fails, it counts as not found (docs/unwinding.md has the argument):
//   - Landing pads go on unwinding by a call of _Unwind_Resume. So that is the function that most
//     landing pads call, among those for which the next step succeeds.
//   - It calls, directly or through one more function, uw_frame_state_for. That one calls
//     _Unwind_Find_FDE with two arguments: a value near a field of its context (the address), and
//     the address of a later field of the context.
//   - Personality routines, which unwind tables name, call _Unwind_SetGR for two registers, and
//     _Unwind_SetIP, which sets that very field.
//
// Other unwinders ask the loader, by dl_iterate_phdr, with a callback that looks for
// PT_GNU_EH_FRAME.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "image/object.h"
#include "layout/runtime_data.h"

namespace pinprick::placement {

struct HiddenUnwinder {
  const image::Function* find_table = nullptr;  // _Unwind_Find_FDE
  // In the process's addresses, with `landing` still 0; nullopt if they were not found.
  std::optional<layout::UnwinderTable> functions;
  std::vector<Range> code;  // with_callees() of the functions that start to unwind
};

std::optional<HiddenUnwinder> find_hidden_unwinder(image::Object& object);

// Returns the ranges, in the process's addresses, of these functions of an unwinder and of the
// functions near them that they call. A thread that holds what the unwinder has learned of a slot
// runs in one of these, or was called by one.
std::vector<Range> with_callees(image::Object& object, const std::set<Address>& functions);

// Does the object have landing pads that an unwinder could enter? A static program that was linked
// without an unwinder has a personality routine that only aborts.
bool may_run_landing_pads(image::Object& object);

// Does the object's code contain the number PT_GNU_EH_FRAME, as code that looks for unwind tables
// does?
bool looks_for_unwind_tables(image::Object& object);

// Returns dl_iterate_phdr of a static program, found by a call with a callback that looks for
// unwind tables; nullptr if there is none.
const image::Function* find_object_list(image::Object& program);

}  // namespace pinprick::placement
