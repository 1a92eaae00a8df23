// The unwind tables of a session (arch/unwind_tables.h): what is in them, and how much room they
// may take.
//
// Pure. The room is laid out before anything is emitted; the tables are emitted once all stubs are.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/unwind_tables.h"
#include "engine/plan/arming_plan.h"
#include "engine/stubs/arena_layout.h"
#include "layout/session_file.h"

namespace pinprick::engine {

// What was emitted, as an unwinder has to know it.
struct EmittedFrames {
  std::vector<arch::CodeRow> runtime;                // empty: there is none
  std::vector<std::vector<arch::CodeRow>> routines;  // of each arena
  std::vector<arch::StubArena> stubs;                // of each arena
};

arch::UnwindSpec unwind_spec(const ArmingPlan& plan, const layout::Session& journal,
                             const EmittedFrames& frames, const arch::SlotFrames& slots,
                             const arch::StubShapes& shapes);

struct UnwindRoom {
  uint64_t bytes = 0;
  uint32_t ranges = 0;  // in the tables' header
};

// Room for tables of as many stubs, with as much to say of them as there may be. `slots`: any, if
// there are slots.
UnwindRoom room_for_unwind_tables(const ArmingPlan& plan, const ArenaLayout& layout,
                                  const arch::SlotFrames& slots);

}  // namespace pinprick::engine
