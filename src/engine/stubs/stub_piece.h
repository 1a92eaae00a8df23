// Assembles the stubs of one piece (arena_layout.h), writes them into the target, and describes
// them.
//
// Each piece has one thread, which may be any. A piece changes only the journal's entries of its
// own patches, and reads nothing that another piece writes. No thread of the target comes to a stub
// before a jump leads there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "arch/stub.h"
#include "base/address.h"
#include "engine/plan/arming_plan.h"
#include "engine/stubs/arena_layout.h"
#include "engine/stubs/stub_assembler.h"
#include "layout/session_file.h"
#include "patch/text_edit.h"
#include "target/memory.h"

namespace pinprick::engine {

// The result for one piece.
struct EmittedPiece {
  Range stubs;         // in the target
  uint64_t bytes = 0;  // what they take
  int refused = 0;     // the error, if they could not be written
  // For each patch: the shape of its stub, and the bytes that the stub takes with its alignment; 0
  // if it has no stub.
  std::vector<uint16_t> shape_of;
  std::vector<uint32_t> room_of;
  std::vector<std::string> shapes;  // that its stubs have, each once
  std::vector<patch::Boundary> boundaries;
};

class PieceEmitter {
 public:
  struct Parts {
    const ArmingPlan& plan;
    const StubAssembler& stubs;
    layout::Session& journal;
    std::span<Address> stubs_of_puns;  // of the plan's puns; set for those of the piece
    const target::Memory& memory;
  };
  PieceEmitter(const Parts& parts, const StubPiece& piece, const arch::ArenaEntries& entries,
               Address begin)
      : parts_(parts), piece_(piece), entries_(entries), code_(begin) {
    emitted_.stubs = {begin, begin};
  }

  // Once.
  EmittedPiece emit() &&;

 private:
  void emit_stub(size_t patch);
  std::optional<arch::Stub> assemble(size_t patch);
  void note_stub(size_t patch, const arch::Stub& stub);
  void note_shape(size_t patch, const arch::Stub& stub, Address at);
  void keep_boundaries(size_t patch, const arch::Stub& stub);
  void take_shapes();

  const Parts parts_;
  const StubPiece& piece_;
  const arch::ArenaEntries& entries_;
  arch::Assembler code_;
  StubActions actions_;
  std::unordered_map<std::string, uint16_t> shapes_;
  EmittedPiece emitted_;
};

}  // namespace pinprick::engine
