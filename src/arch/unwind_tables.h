// Unwind tables (DWARF call frame information) for emitted code: from any instruction of it an
// unwinder finds the program's own frame. docs/unwinding.md has the argument.
//
// One entry covers all the stubs of an arena. Its rules are programs, which the unwinder
// interprets: they look for the stub by the address in question, and for what is on the stack
// there. Stubs whose frames are alike share what is said of them, their shape, so that a stub costs
// two bytes and a bit. Nothing is called, and nothing written.
//
// Pure; the bytes are for the addresses given, and no length depends on an address.
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

// Slots of measured calls (emit_slot_code), and where their records name the site. Where they do
// not, a call that is yet to be made is taken for one that is over.
struct SlotFrames {
  static constexpr uint8_t kNoSite = 0xff;
  Range code;
  Address slots = 0;
  uint8_t site_in_record = kNoSite;
};

struct UnwindTable {
  Address begin = 0;  // of the CIE; what follows ends with a 0
  Address fde = 0;
};

// Of slots alone. `personality` 0: none, for an unwinder whose functions are not known. It goes
// through the slot to the caller, and the slot stays in use. libgcc knows the frame that catches by
// its stack pointer, and a slot's frame has the same as its caller's: so the caller is said to be
// one that a signal interrupted, which libgcc counts one lower, at the last byte of its call.
UnwindTable emit_slot_unwind_table(Assembler& code, const SlotFrames& spec, Address personality);

// Of shared routines alone, which may be on the way to slots.
UnwindTable emit_code_unwind_table(Assembler& code, const std::vector<CodeRow>& rows,
                                   const SlotFrames& slots = {});

// What the rules of stubs look at.
struct StubTables {
  static constexpr uint32_t kGroup = 16;           // stubs
  static constexpr uint32_t kNoGroup = INT32_MAX;  // where one begins that is not there
  Address begin = 0;
  uint32_t groups = 0;        // a power of two
  Address group_begins = 0;   // 4 bytes each, from `begin`
  Address shape_numbers = 0;  // 2 bytes for each stub
  Address shapes = 0;
};

// Of an arena that stubs come to while threads unwind: its tables have room for as many groups as
// there may be. A stub is added by writing its shape, where that is new, its shape's number, and
// where its group begins if it is the first one of it. Whoever unwinds from a stub that was added
// before finds the same whatever has been written of the others, as long as the number of those
// that are not there is that of the end (StubShapes::of_end).
UnwindTable emit_stub_unwind_table(Assembler& code, Range stubs, const StubTables& tables);

// Of memory that holds nothing but trampolines, each an indirect jump (encode_indirect_jump):
// behind the pointer to the stub lies the address of the site.
UnwindTable emit_trampoline_unwind_table(Assembler& code, Range chunk);

// What stubs with the same frames share.
class StubShapes {
 public:
  // `begin`: where the first byte emitted for the stub is, which has `room` bytes up to the next.
  // `hidden`: where, from the site, trampolines lie in its place. Empty: its frames cannot be
  // told.
  static std::string shape_of(const StubFrames& frames, Address begin, uint64_t room,
                              std::span<const uint8_t> hidden = {});

  static constexpr size_t kMostBytes = size_t{8} << 16;
  // No stub of so many bytes has a shape that takes more: every row is about a byte at least.
  static constexpr uint64_t most_bytes(uint64_t room) { return 4 * (room + 3) + 7; }

  // To be given to StubArena; of a stub with an empty shape the room is told alone.
  uint16_t add(const std::string& shape, uint64_t room);
  // Where no stub is any more. The first one has the number 0.
  uint16_t of_end();
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::unordered_map<std::string, uint16_t> known_;
};

// Stubs, one behind the other.
struct StubArena {
  Address begin = 0;
  uint64_t size = 0;
  std::vector<uint16_t> shapes;
};

// A jump to a stub that lies apart from its site. A thread stands at its first byte only; around it
// may be instructions that another stub stands in for.
struct Trampoline {
  Address address = 0;
  Address site = 0;
};

struct UnwindSpec {
  SlotFrames slots;                        // without code: there are none
  std::vector<std::vector<CodeRow>> code;  // of shared routines; the last row: where they end
  std::vector<StubArena> arenas;
  std::vector<Trampoline> trampolines;
  const StubShapes* shapes = nullptr;
};

// In memory: this, ranges by their addresses, a header (PT_GNU_EH_FRAME) for each, what each is,
// entries, and what their rules look at.
struct UnwindTablesHeader {
  uint64_t magic = 0;
  uint64_t size = 0;         // of all
  uint64_t range_count = 0;  // a power of two; those that are not needed begin nowhere
  uint64_t ranges = 0;
  uint64_t frames = 0;  // entries, as in .eh_frame
  uint64_t frames_size = 0;
};
inline constexpr uint64_t kUnwindTablesMagic = 0x3245'4d41'5246'4e50;  // "PNFRAME2"

struct CoveredRange {
  uint64_t begin = 0;
  uint64_t size = 0;
};
// Behind the ranges, one for each: a sorted table of a single entry. Its distances have 8 bytes, as
// what it is for may be anywhere. LLVM's libunwind wants such a table: without one it goes through
// all entries, and keeps in a cache what it finds. libgcc and nongnu's libunwind take no distances
// of this size for sorted, and begin to look at `entry`.
struct RangeHeader {
  uint8_t encodings[4] = {};
  uint8_t entry[8] = {};  // its address
  uint8_t count[4] = {};
  uint64_t begin_distance = 0;  // from the header: of the range,
  uint64_t entry_distance = 0;  // and of the entry
};
// Behind the headers, one for each.
enum class RangeKind : uint32_t { stubs = 0, slots = 1, trampoline = 2 };
static_assert(sizeof(CoveredRange) == 16 && sizeof(RangeHeader) == 32);

// One that lies at `at`.
RangeHeader range_header(Address at, Address range_begin, Address entry);

UnwindTablesHeader emit_unwind_tables(Assembler& code, const UnwindSpec& spec);

// A header for one range, with its entry, both for this unwinder alone: as emit_slot_unwind_table
// has them. Answers where the header is.
Address emit_slot_header(Assembler& code, const SlotFrames& spec, Address personality);

}  // namespace pinprick::arch
