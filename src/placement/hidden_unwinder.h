// The unwinder of an object whose symbols do not name it, known by what its code does.
//
// libgcc's, linked statically and stripped. Each step follows from the one before, and where one of
// them fails the unwinder counts as not found (docs/unwinding.md has the argument):
//   - landing pads go on unwinding by a call of _Unwind_Resume: it is what most of them call, of
//     those that
//   - come, directly or by one function more, to one (uw_frame_state_for) that calls another one,
//     _Unwind_Find_FDE, with something near a field of its context, the address, and the address of
//     what lies behind it in the context;
//   - and personality routines, which unwind tables name, call _Unwind_SetGR for two registers and
//     _Unwind_SetIP, which sets that very field.
//
// Others ask the loader, by dl_iterate_phdr; what they give it to call looks for PT_GNU_EH_FRAME.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "image/object.h"
#include "layout/runtime_data.h"

namespace pinprick::placement {

struct HiddenUnwinder {
  const image::Function* find_table = nullptr;  // _Unwind_Find_FDE
  // In the process's addresses, no landing yet. Empty: they were not found.
  std::optional<layout::UnwinderTable> functions;
  std::vector<Range> code;  // with_callees() of what begins to unwind
};

std::optional<HiddenUnwinder> find_hidden_unwinder(image::Object& object);

// In the process's addresses: these functions of an unwinder, and those beside them that they call.
// Whoever holds what it has learned of a slot runs in one of them, or was called by one.
std::vector<Range> with_callees(image::Object& object, const std::set<Address>& functions);

// Has it landing pads that an unwinder could enter? A static program that was linked without one
// has a personality routine that does nothing but abort.
bool may_run_landing_pads(image::Object& object);

// Does its code know PT_GNU_EH_FRAME, as that of whoever looks for unwind tables does?
bool looks_for_unwind_tables(image::Object& object);

// dl_iterate_phdr of a static program, by a call of it from one that looks for unwind tables.
const image::Function* find_object_list(image::Object& program);

}  // namespace pinprick::placement
