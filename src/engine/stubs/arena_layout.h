// How a session's stubs lie in memory, before any has an address: one arena for each object, pieces
// that threads emit side by side, and the pages that puns lead to.
//
// The size of an arena is known before any stub is emitted, because no size depends on an address.
// The stubs of hooks are the exception, and there are few of them. Memory that stubs do not need is
// never touched.
//
// Pure, except that a cancelled task ends it (base/task.h).
#pragma once

#include <cstdint>
#include <vector>

#include "base/address.h"
#include "base/index_range.h"
#include "engine/plan/arming_modes.h"
#include "engine/plan/arming_plan.h"
#include "engine/stubs/stub_assembler.h"
#include "image/object.h"

namespace pinprick::engine {

// What is not used between stubs is described in pieces of that many bytes.
inline constexpr uint64_t kGap = 4096;

// Where the stubs of one object go: from its start what they share, then stubs.
struct Arena {
  const image::Object* object = nullptr;
  Range reach;  // the object, and kept stubs that its puns lead through
  IndexRange patches;
  Address address = 0;  // 0: not chosen yet
  uint64_t size = 0;
};

// Stubs that one thread emits, one after the other.
struct StubPiece {
  size_t arena = 0;
  IndexRange patches;  // of the arena's
  uint64_t room = 0;   // for them: up to the next piece
};

struct ArenaLayout {
  std::vector<Arena> arenas;
  std::vector<StubPiece> pieces;  // by arena and patch
  std::vector<Range> islands;     // pages that puns lead to, in the target
  uint64_t unwind_room = 0;       // for the unwind tables, at the end of the first arena

  Address unwind_tables() const {
    return arenas.front().address + arenas.front().size - unwind_room;
  }
  // Where an arena's stubs end at the latest.
  Address end_of_stubs(size_t arena) const {
    return arena == 0 ? unwind_tables() : arenas[arena].address + arenas[arena].size;
  }
};

// Without room for unwind tables.
ArenaLayout lay_out_arenas(const ArmingPlan& plan, const StubAssembler& stubs, Children children);

// Pages that puns lead to, as few ranges as they make.
std::vector<Range> pages_of_islands(const ArmingPlan& plan);

}  // namespace pinprick::engine
