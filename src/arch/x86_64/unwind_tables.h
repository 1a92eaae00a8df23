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

#include "arch/x86_64/emit.h"
#include "arch/x86_64/frames.h"
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

// Of slots alone. `personality` 0: none.
UnwindTable emit_slot_unwind_table(Assembler& code, const SlotFrames& spec, Address personality);

// What stubs with the same frames share.
class StubShapes {
 public:
  // `begin`: where the first byte emitted for the stub is, which has `room` bytes up to the next.
  // `hidden`: where, from the site, springboards lie in its place. Empty: its frames cannot be
  // told.
  static std::string shape_of(const StubFrames& frames, Address begin, uint64_t room,
                              std::span<const uint8_t> hidden = {});

  // To be given to StubArena; of a stub with an empty shape the room is told alone.
  uint16_t add(const std::string& shape, uint64_t room);
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
struct Springboard {
  Address address = 0;
  Address site = 0;
};

struct UnwindSpec {
  SlotFrames slots;                        // without code: there are none
  std::vector<std::vector<CodeRow>> code;  // of shared routines; the last row: where they end
  std::vector<StubArena> arenas;
  std::vector<Springboard> springboards;
  const StubShapes* shapes = nullptr;
};

// In memory: this, ranges by their addresses, a header (PT_GNU_EH_FRAME) for each, entries, and
// what their rules look at.
struct UnwindTablesHeader {
  uint64_t magic = 0;
  uint64_t size = 0;         // of all
  uint64_t range_count = 0;  // a power of two; those that are not needed begin nowhere
  uint64_t ranges = 0;
  uint64_t frames = 0;  // entries, as in .eh_frame
  uint64_t frames_size = 0;
};
inline constexpr uint64_t kUnwindTablesMagic = 0x3145'4d41'5246'4e50;  // "PNFRAME1"

struct CoveredRange {
  uint64_t begin = 0;
  uint64_t size = 0;
};
// Behind the ranges, one for each.
struct RangeHeader {
  uint8_t encodings[4] = {};
  uint8_t entry[8] = {};  // its address
  enum class What : uint32_t { stubs = 0, slots = 1, springboard = 2 } what = What::stubs;
};
static_assert(sizeof(CoveredRange) == 16 && sizeof(RangeHeader) == 16);

UnwindTablesHeader emit_unwind_tables(Assembler& code, const UnwindSpec& spec);

}  // namespace pinprick::arch
