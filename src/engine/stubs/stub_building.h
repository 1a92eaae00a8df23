// Builds all stubs of a session, and writes them into the target: pieces by several threads side by
// side, and what there is to say of them taken over in their order.
//
// For arming, with the process's turn held, once memory is mapped and the heads of arenas are
// known. No thread reaches a stub before a jump leads there, so all can be built once more. Fails
// if the memory cannot be written. Patches whose stub cannot be built are dropped from the plan.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "arch/stub.h"
#include "arch/unwind_tables.h"
#include "base/address.h"
#include "base/result.h"
#include "engine/plan/arming_plan.h"
#include "engine/stubs/arena_layout.h"
#include "engine/stubs/stub_assembler.h"
#include "engine/stubs/stub_piece.h"
#include "layout/session_file.h"
#include "patch/text_edit.h"
#include "target/memory.h"

namespace pinprick::engine {

// What an arena begins with, as it is in the target.
struct ArenaHead {
  arch::ArenaEntries entries;
  Address stubs = 0;  // the first one begins there
};

struct BuiltStubs {
  std::vector<patch::Boundary> boundaries;  // by address; their `edit` is the patch
  std::vector<Address> stubs_of_puns;       // of the plan's puns
  std::vector<arch::StubArena> arenas;
  arch::StubShapes shapes;
  uint64_t bytes = 0;
};

class StubBuilding {
 public:
  struct Parts {
    ArmingPlan& plan;
    const ArenaLayout& layout;
    const StubAssembler& stubs;
    layout::Session& journal;
    const target::Memory& memory;
  };
  StubBuilding(const Parts& parts, const std::vector<ArenaHead>& heads)
      : parts_(parts), heads_(heads) {}

  // Once.
  Result<BuiltStubs, SystemError> build() &&;

 private:
  std::vector<Address> starts_of_pieces() const;
  void emit_all(const std::vector<Address>& starts);
  void take_over(const StubPiece& piece, EmittedPiece emitted);
  void add_stub(arch::StubArena& arena, const std::string& shape, uint64_t room);
  void fill_gap(arch::StubArena& arena, Address to);

  const Parts parts_;
  const std::vector<ArenaHead>& heads_;
  BuiltStubs built_;
  int refused_ = 0;  // the error of the first piece that could not be written
};

}  // namespace pinprick::engine
