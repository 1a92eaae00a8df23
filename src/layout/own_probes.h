// What a program that probes itself with libpinprick tells about its probes, in its own memory.
//
// One page of shared memory, which others recognise among the mappings, names a table. (If there
// are several libpinpricks in the process, each has a page and a table.) The table is in private
// memory, so that a forked child has a copy of its own, as it has of the text. Both stay as long as
// the process runs its program.
//
//     OwnPage (a page) --> OwnTable | code ranges | sites
//
// The program writes an entry before it counts it, and never moves one. Readers read the counts
// first. A process that writes text first announces what it takes, and then looks at what others
// have taken (patch/text_owner.h).
//
// Of an entry, single bytes change later: `state`, `written` and `ends[1]`. The table counts these
// changes, and new sites, once before and once after each. So a reader that finds the same number
// before and after something knows that no site came into the text or left it in between:
//
//     to place    state = in_use | look at sessions | check the text | written = n | write the text
//     to remove   restore the text | state = former
//
// Of a change that is under way all that time, the text is the program's own: when a site comes, it
// is not written yet, and when it leaves, it is restored already.
//
// The program may write anything here at any time. Readers copy, check and then use. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/address.h"

namespace pinprick::layout {

inline constexpr uint64_t kOwnPageMagic = 0x3146'4c45'5350'5050;   // "PPPSELF1"
inline constexpr uint64_t kOwnTableMagic = 0x3242'4154'4e57'4f50;  // "POWNTAB2"
// The earlier version, in which no other process could have probes in this one.
inline constexpr uint64_t kFormerOwnPageMagic = 0x3046'4c45'5350'5050;  // "PPPSELF0"

struct OwnPage {
  uint64_t magic = kOwnPageMagic;
  uint64_t table = 0;  // 0: the program does not share its text
};

// An instruction that was probed once, or a site of a tracepoint. Its jump or breakpoint replaces
// up to `written` bytes. A thread in its stub goes on at the end of the displaced instructions, at
// any time, even long after the probe was removed.
struct OwnSite {
  enum class State : uint8_t {
    gone = 0,    // its object was unloaded, or it was never used
    former = 1,  // the text is the program's own, but threads may be in the stub
    in_use = 2,  // it is in the text, or will be
  };
  static constexpr size_t kMostWritten = 8;

  uint64_t address = 0;
  uint64_t name = 0;                    // address of its name, which ends with a zero byte; 0: none
  uint64_t object_name = 0;             // the same
  uint8_t original[kMostWritten] = {};  // as planned; the program's own only if `written` is not 0
  uint8_t written = 0;                  // 0: nothing yet, or nothing ever (only `ends` matter)
  uint8_t touched = 0;                  // size of all that it takes, from `address`
  // Where stubs go on, from `address`: where a jump's does, and where a breakpoint's does; 0: there
  // is no such stub.
  uint8_t ends[2] = {};
  State state = State::gone;
  uint8_t unused[3] = {};

  Range range() const { return {address, address + touched}; }
};
static_assert(sizeof(OwnSite) == 40);

// Slots through which measured calls return: `count` entries of layout::Slot.
struct OwnSlots {
  uint64_t address = 0;
  uint64_t code = 0;  // of the first one
  uint64_t count = 0;
};

struct OwnTable {
  uint64_t magic = kOwnTableMagic;
  uint64_t site_count = 0;
  uint64_t code_count = 0;
  uint64_t slots_count = 0;
  uint64_t changes = 0;  // of sites
  // libpinprick itself, which must not be probed.
  uint64_t libpinprick_begin = 0;
  uint64_t libpinprick_end = 0;
  OwnSlots slots[4];
};

inline constexpr uint64_t kMostOwnSites = 1 << 20;
inline constexpr uint64_t kMostOwnCode = 4096;
inline constexpr uint64_t kOwnCodeOffset = kPageSize;
inline constexpr uint64_t kOwnSitesOffset =
    align_up(kOwnCodeOffset + kMostOwnCode * sizeof(Range), kPageSize);
inline constexpr uint64_t kOwnTableSize =
    align_up(kOwnSitesOffset + kMostOwnSites * sizeof(OwnSite), kPageSize);
static_assert(sizeof(OwnTable) <= kPageSize);

}  // namespace pinprick::layout
