// Writing the text of a stopped target: whole pages, from a list of edits.
//
//     1  every thread is stopped (the Stop proves it)
//     2  the text is read, and each edit's site must hold what the edit expects to replace
//     3  no thread stands, or will return to, inside the bytes of an edit that covers more than one
//        instruction; one that stands there is moved to the relocated copy, one that will return
//        there makes the edit wait for another time
//     4  runs of pages are written, each run with one call, several at a time; first those of one
//        phase, then those of the next
//
// A page of text is copied when it is written for the first time. That is not done beforehand, to
// make 4 shorter: the only way is to write a byte as it was read, and while the program runs it may
// change that byte in between. (/proc/PID/mem has no write that depends on what is there, and what
// copies pages without writing, MADV_POPULATE_WRITE, wants them writable.)
//
// Nobody executes between 1 and 4, what an edit changes lies in one page, and what a page holds
// before and after each phase is a correct program, as the stubs were there before: so is whatever
// is written of a phase when we die. Phases are for edits that need others: a short jump needs the
// long one that it leads to, and a pun the jump that it ends in. Resuming a thread serialises it.
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

TextEdit arming(const layout::SiteEntry& site);
TextEdit disarming(const layout::SiteEntry& site);

enum class EditOutcome : uint8_t {
  written,
  already,    // the site held `after`
  different,  // it held neither: left alone
  unreadable,
};

enum class Order : uint8_t { phases_upward, phases_downward };

// Breakpoints that others keep in the pages of the edits: the kernel, or a debugger. Their owners
// may take them out at any time, the kernel even while the target stands still, and to write back
// what was read a moment before would put them in again, now nobody's: the next thread that comes
// by would die of it. So apply() writes around them. By address.
std::vector<Address> foreign_breakpoints(const image::ProcessImage& image,
                                         const target::Memory& memory,
                                         std::span<const TextEdit> edits);

// Which pages are written, in which order, for which edits: worked out before the process stops.
class WritingOrder {
 public:
  WritingOrder(std::span<const TextEdit> edits, Order order);
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

// Applies what can be applied. outcomes[i] belongs to edits[i]; edits need not be sorted.
// An error means that a write failed; earlier phases, and some other pages, are written.
Result<std::vector<EditOutcome>, SystemError> apply(const target::Stop& stop,
                                                    const target::Memory& memory,
                                                    std::span<const TextEdit> edits,
                                                    const WritingOrder& order,
                                                    std::span<const Address> foreign);

// What apply() would answer now; nothing is written.
std::vector<EditOutcome> examine(const target::Memory& memory, std::span<const TextEdit> edits);

// A place between two instructions that an edit will overwrite, and where execution continues
// instead. Packed, as there may be millions.
#pragma pack(push, 4)
struct Interior {
  Address address = 0;
  Address copy = 0;
  uint32_t edit = 0;  // the caller's number for it
};
#pragma pack(pop)
static_assert(sizeof(Interior) == 20);

// Moves threads out of the way. Answers the edits that must not be applied now, since a stack holds
// an address inside of them (a signal handler's frame, usually) or a thread cannot be moved.
// `interiors` sorted by address.
std::vector<size_t> clear_interiors(target::Stop& stop, const target::Memory& memory,
                                    image::MappingLookup& mappings,
                                    std::span<const Interior> interiors);

// Will the thread return from a signal handler into one of the ranges? By the frames that the
// kernel left on its stack, from its stack pointer up: a saved instruction pointer, and behind the
// flags the segments of user code. Not by any word in the ranges: what stubs leave below the stack
// pointer lies, long after, in the holes of later frames.
bool signal_returns_to(const std::vector<image::Mapping>& maps, const target::Memory& memory,
                       const target::StoppedThread& thread, std::span<const Range> ranges);

// Does any word of the thread's stack in front of `end` lie in the ranges? A return address does;
// so may what was left there by a call that is over.
bool stack_leads_to(const std::vector<image::Mapping>& maps, const target::Memory& memory,
                    const target::StoppedThread& thread, std::span<const Range> ranges,
                    Address end);

}  // namespace pinprick::patch
