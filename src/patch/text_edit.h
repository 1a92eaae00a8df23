// Writes the text of a stopped target: whole pages, from a list of edits. For the thread of ours
// that made the Stop.
//
//     1  every thread is stopped (the Stop proves it)
//     2  the text is read, and each edit's site must hold the bytes that the edit replaces
//     3  no thread is, or will return, inside the bytes of an edit that covers more than one
//        instruction: a thread that is there is moved to the out-of-line copy, and an edit to which
//        a thread will return waits for another time
//     4  runs of pages are written, each run with one call, several in parallel; all runs of one
//        phase before those of the next
//
// The kernel copies a page of text when it is first written. That is not forced beforehand to make
// step 4 shorter: the only way would be to write a byte back as it was read, and the running
// program may change that byte in between. (/proc/PID/mem has no conditional write, and
// MADV_POPULATE_WRITE, which copies pages without changing them, requires them to be writable.)
//
// If we die at any point, the target is a correct program. No thread executes between 1 and 4, each
// edit lies within one page, and each page is correct before and after each phase, as the stubs are
// in place already; so any part of a phase may be written. Phases are for edits that depend on
// others: a short jump needs the long one that it leads to, and a pun the jump that it ends in.
// Resuming a thread serialises its processor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "image/maps.h"
#include "image/process.h"
#include "layout/session_file.h"
#include "target/memory.h"
#include "target/stop.h"

namespace pinprick::patch {

struct TextEdit {
  Address address = 0;
  uint8_t length = 0;
  uint8_t phase = 0;
  uint8_t before[layout::kMaxSiteLength] = {};
  uint8_t after[layout::kMaxSiteLength] = {};
};

// The edit that writes a site's jump, and the one that puts the old bytes back.
TextEdit arming(const layout::SiteEntry& site);
TextEdit disarming(const layout::SiteEntry& site);

enum class EditOutcome : uint8_t {
  written,
  already,    // the site held `after`
  different,  // it held neither: left alone
  unreadable,
};

enum class PhaseOrder : uint8_t { upward, downward };

// Breakpoints of the kernel or of a debugger in the pages of the edits, by address. Their owners
// may remove them at any time, the kernel even while the target is stopped. Writing back a page
// that was read before that would restore such a breakpoint without an owner, and kill the next
// thread that hits it. So apply() writes around them.
std::vector<Address> foreign_breakpoints(const image::ProcessImage& image,
                                         const target::Memory& memory,
                                         std::span<const TextEdit> edits);

// Which pages are written, in which order, for which edits. Prepared before the process stops.
class WritingOrder {
 public:
  WritingOrder(std::span<const TextEdit> edits, PhaseOrder order);
  WritingOrder(WritingOrder&&) = default;
  WritingOrder& operator=(WritingOrder&&) = default;

  struct Run {
    Range pages;
    std::span<const uint32_t> edits;  // by address
  };
  const std::vector<std::vector<Run>>& steps() const { return steps_; }

 private:
  std::vector<std::vector<uint32_t>> edits_;  // of each step
  std::vector<std::vector<Run>> steps_;
};

// Applies the edits that can be applied. Returns an outcome for each edit, in the order of `edits`,
// which need not be sorted. Fails if a write fails: then earlier phases, and some pages of that
// one, are written.
Result<std::vector<EditOutcome>, SystemError> apply(const target::Stop& stop,
                                                    const target::Memory& memory,
                                                    std::span<const TextEdit> edits,
                                                    const WritingOrder& order,
                                                    std::span<const Address> foreign);

// Returns what apply() would return now, without writing.
std::vector<EditOutcome> examine(const target::Memory& memory, std::span<const TextEdit> edits);

// An instruction boundary that an edit will overwrite, and where execution continues instead.
// Packed, as there may be millions.
#pragma pack(push, 4)
struct Boundary {
  Address address = 0;
  Address copy = 0;
  uint32_t edit = 0;  // the caller's number for it
};
#pragma pack(pop)
static_assert(sizeof(Boundary) == 20);

// Moves threads from these boundaries to the copies. Returns the edits that must not be applied
// now, since a stack holds an address inside them (usually in a signal handler's frame) or a thread
// cannot be moved. `boundaries` must be sorted by address.
std::vector<size_t> clear_boundaries(target::Stop& stop, const target::Memory& memory,
                                     image::MappingLookup& mappings,
                                     std::span<const Boundary> boundaries);

}  // namespace pinprick::patch
