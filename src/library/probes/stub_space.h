// The memory for the stubs of our own process, and for their counters.
//
// It is never freed: a thread may be in a stub, or on its way there, for any length of time. A site
// that is probed again uses its old stubs. For one thread at a time.
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

  // Assembles a stub. Returns nullopt if no memory is within reach of the object.
  std::optional<arch::Stub> place(Range object, std::span<const arch::StubAction> actions,
                                  const arch::Displaced& displaced);

  // A trampoline, for a site whose jump has instruction boundaries under it. It jumps to the
  // address in `*stub`, which the caller stores.
  struct Trampoline {
    Address address = 0;
    std::atomic<Address>* stub = nullptr;  // followed by the site's address, for unwinders
  };
  std::optional<Trampoline> trampoline(Range object, Address site,
                                       std::span<const uint8_t> boundaries);

  // Writes all stubs and trampolines made since the last call. Only after that may anything lead
  // there.
  Result<void, SystemError> write(const target::SelfTarget& self);

  // Returns a new counter, as its offset in a per-CPU area; nullopt if there are no more.
  std::optional<uint32_t> new_counter();
  uint64_t count(uint32_t offset) const;

 private:
  struct Arena {
    Range code;
    Range pointers;  // after the code, writable
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
  bool make_areas();
  bool cover_arena(Arena& arena);
  void add_to_tables(Arena& arena, const arch::StubFrames& frames, Address begin, uint64_t room);
  bool map_trampolines(Range chunk);
  runtime::RuntimeSpec areas_spec() const;

  std::optional<arch::RseqArea> rseq_;
  arch::StubShapes shapes_;  // of all arenas
  Address shapes_at_ = 0;    // their copy that unwinders read
  size_t shapes_written_ = 0;
  std::vector<Arena> arenas_;
  target::TrampolineSpace trampolines_;
  std::vector<patch::ByteChange> unwritten_trampolines_;
  // A shared area for threads without rseq, then an area for each CPU.
  Address memory_ = 0;
  uint64_t areas_ = 0;
  uint32_t counters_used_ = 0;
};

}  // namespace pinprick::library
