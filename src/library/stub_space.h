// Where the stubs of one's own process lie, and the cells that they count in.
//
// What is made stays until the process ends: a thread may stand in a stub, or on its way there, for
// as long as it likes. A site that is probed again uses its stub of before. One thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "arch/stub.h"
#include "arch/unwind_tables.h"
#include "base/address.h"
#include "patch/live_edit.h"
#include "runtime/image.h"
#include "target/self_target.h"
#include "target/trampoline_space.h"

namespace pinprick::library {

class StubSpace {
 public:
  StubSpace();

  // Nothing: no memory within reach of the object.
  std::optional<arch::Stub> place(Range object, std::span<const arch::StubAction> actions,
                                  const arch::Displaced& displaced);

  // For a site whose jump has boundaries under it. Leads to `stub`; another one is stored there.
  struct Trampoline {
    Address address = 0;
    std::atomic<Address>* stub = nullptr;  // behind it, for unwinders, the site
  };
  std::optional<Trampoline> trampoline(Range object, Address site,
                                       std::span<const uint8_t> interior);

  // Writes what was placed. Before that, nothing may lead there.
  Result<void, SystemError> write(const target::SelfTarget& self);

  // A new counter's cell; nothing where there are no more.
  std::optional<uint32_t> new_cell();
  uint64_t count(uint32_t cell) const;

 private:
  struct Arena {
    Range code;
    Range pointers;  // behind the code, writable
    Address next = 0;
    Address next_pointer = 0;
    arch::ArenaEntries entries;
    arch::StubTables tables;
    uint32_t stubs = 0;
    Address unwritten_at = 0;
    std::vector<uint8_t> unwritten;
  };
  Arena* arena_for(Range object);
  static std::optional<Address> map_arena(Range object);
  bool make_cells();
  bool cover_arena(Arena& arena);
  void add_to_tables(Arena& arena, const arch::StubFrames& frames, Address begin, uint64_t room);
  bool map_trampolines(Range chunk);
  runtime::RuntimeSpec cells_spec() const;

  std::optional<arch::RseqArea> rseq_;
  arch::StubShapes shapes_;  // of all arenas
  Address shapes_at_ = 0;    // their copy that unwinders read
  size_t shapes_written_ = 0;
  std::vector<Arena> arenas_;
  target::TrampolineSpace trampolines_;
  std::vector<patch::ByteChange> unwritten_trampolines_;
  // Region 0 for threads without rseq, then one for each CPU.
  Address cells_ = 0;
  uint64_t regions_ = 0;
  uint32_t cells_used_ = 0;
};

}  // namespace pinprick::library
