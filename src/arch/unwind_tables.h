// Unwind tables (DWARF call frame information) for emitted code: with them an unwinder finds the
// program's own frame from any emitted instruction. docs/unwinding.md has the argument.
//
// One entry covers all stubs of an arena. Its rules are DWARF expressions that the unwinder
// evaluates: they look up the stub by the instruction's address, and then what is on the stack
// there. Stubs with equal frames share a description, their shape, so that a stub costs little more
// than two bytes. Nothing is called and nothing is written.
//
// Pure; the bytes are valid at the given addresses only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "arch/assembler.h"
#include "arch/frames.h"
#include "base/address.h"

namespace pinprick::arch {

// Slots of measured calls (emit_slot_code), and the offset of the site's address in their records.
// Without that offset, a call that has not been made yet is taken for one that has returned.
struct SlotFrames {
  static constexpr uint8_t kNoSite = 0xff;
  Range code;
  Address slots = 0;
  uint8_t site_in_record = kNoSite;
};

struct UnwindTable {
  Address begin = 0;  // of the CIE; the table ends with a 0
  Address fde = 0;
};

// Emits a table for slots only. With `personality` 0 there is none, for an unwinder whose functions
// are not known: it unwinds through the slot to the caller, and the slot stays in use. libgcc
// identifies the catching frame by its stack pointer, and a slot's frame has the same one as its
// caller's. So the caller is marked as interrupted by a signal: libgcc then counts it one lower,
// and looks up its address as the last byte of the call.
UnwindTable emit_slot_unwind_table(Assembler& code, const SlotFrames& spec, Address personality);

// Emits a table for shared routines only, which may be on the way to slots.
UnwindTable emit_code_unwind_table(Assembler& code, const std::vector<CodeRow>& rows,
                                   const SlotFrames& slots = {});

// What the rules for stubs read.
struct StubTables {
  static constexpr uint32_t kGroup = 16;           // stubs per group
  static constexpr uint32_t kNoGroup = INT32_MAX;  // start of a group that does not exist
  Address begin = 0;
  uint32_t groups = 0;        // a power of two
  Address group_starts = 0;   // 4 bytes each, relative to `begin`
  Address shape_numbers = 0;  // 2 bytes per stub
  Address shapes = 0;
};

// Emits the table of an arena to which stubs are added while threads unwind: it has room for as
// many groups as there may be. To add a stub, write its shape if it is new, its shape number, and
// the start of its group if it is the first of the group. A thread that unwinds from an earlier
// stub gets the same result at any moment of this, as long as stubs that do not exist have the
// number of the end (StubShapes::of_end).
UnwindTable emit_stub_unwind_table(Assembler& code, Range stubs, const StubTables& tables);

// Emits the table of memory that holds only trampolines, each an indirect jump
// (encode_indirect_jump). The address of the site lies after the pointer to the stub.
UnwindTable emit_trampoline_unwind_table(Assembler& code, Range chunk);

// The descriptions that stubs with equal frames share.
class StubShapes {
 public:
  // Returns the description of a stub's frames. `begin` is the address of the first byte emitted
  // for it; it has `room` bytes up to the next stub. `hidden` are the offsets from the site at
  // which trampolines lie instead. Empty: the frames cannot be described.
  static std::string shape_of(const StubFrames& frames, Address begin, uint64_t room,
                              std::span<const uint8_t> hidden = {});

  static constexpr size_t kMostBytes = size_t{8} << 16;
  // Upper bound on the size of the shape of a stub with `room` bytes: a row covers at least about
  // one byte.
  static constexpr uint64_t most_bytes(uint64_t room) { return 4 * (room + 3) + 7; }

  // Returns the number of a shape, for StubArena. Of a stub with an empty shape only `room` is
  // stored.
  uint16_t add(const std::string& shape, uint64_t room);
  // Returns the number that means: no more stubs. It is 0 if this is called before any add().
  uint16_t of_end();
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::unordered_map<std::string, uint16_t> known_;
};

// Stubs, one after the other.
struct StubArena {
  Address begin = 0;
  uint64_t size = 0;
  std::vector<uint16_t> shapes;
};

// A jump to a stub, at a distance from the site. A thread can only be at its first byte. It may lie
// among instructions that another stub has displaced.
struct Trampoline {
  Address address = 0;
  Address site = 0;
};

struct UnwindSpec {
  SlotFrames slots;                        // empty code: there are none
  std::vector<std::vector<CodeRow>> code;  // of shared routines; the last row is their end
  std::vector<StubArena> arenas;
  std::vector<Trampoline> trampolines;
  const StubShapes* shapes = nullptr;
};

// The layout in memory: this header, the ranges by ascending address, a RangeHeader
// (PT_GNU_EH_FRAME) and a RangeKind for each range, the entries, and what their rules read.
struct UnwindTablesHeader {
  uint64_t magic = 0;
  uint64_t size = 0;         // of everything
  uint64_t range_count = 0;  // a power of two; unused ranges start at no address
  uint64_t ranges = 0;
  uint64_t frames = 0;  // the entries, as in .eh_frame
  uint64_t frames_size = 0;
};
inline constexpr uint64_t kUnwindTablesMagic = 0x3245'4d41'5246'4e50;  // "PNFRAME2"

struct CoveredRange {
  uint64_t begin = 0;
  uint64_t size = 0;
};
// After the ranges, one for each: a sorted table with a single entry. Its distances have 8 bytes,
// since the code may be anywhere. LLVM's libunwind needs such a table: without one it searches all
// entries, and caches what it finds. libgcc and nongnu's libunwind do not accept distances of this
// size as sorted, and search from `entry` on.
struct RangeHeader {
  uint8_t encodings[4] = {};
  uint8_t entry[8] = {};  // address of the entry
  uint8_t count[4] = {};
  uint64_t start_distance = 0;  // from this header to the range
  uint64_t entry_distance = 0;  // from this header to the entry
};
// After the headers, one for each range.
enum class RangeKind : uint32_t { stubs = 0, slots = 1, trampoline = 2 };
static_assert(sizeof(CoveredRange) == 16 && sizeof(RangeHeader) == 32);

// Returns the header that lies at `at`.
RangeHeader range_header(Address at, Address range_begin, Address entry);

UnwindTablesHeader emit_unwind_tables(Assembler& code, const UnwindSpec& spec);

// Emits a header for one range, with its entry, as emit_slot_unwind_table makes it, for one
// unwinder only. Returns the header's address.
Address emit_slot_header(Assembler& code, const SlotFrames& spec, Address personality);

}  // namespace pinprick::arch
