// Sites that several sessions have probes at.
//
// The text has one jump, to the stub of one of them. That stub has a link in front of the copies of
// the program's instructions (arch/jump.h), which leads to the stub of the next, and so on; where
// the last one's link leads nowhere, or it has none, its copies run:
//
//     text:    jump --> stub of C: actions, link --> stub of A: actions, link --> stub of B:
//     actions
//                                                                                       [no link]
//                                                                                       copies
//
// So each session's actions run once a hit, in its own stub, with its own cells; a session can come
// and go whatever the others do, and needs nothing of them but to stand in this list. Who comes
// first has no link if its calls are not timed: one that is alone pays for nothing.
//
// All members displace the same instructions, as the first one has chosen them, by a jump of the
// same length. A session is added at the front, by its jump in the text; one that times calls comes
// after all others that do: a call is only timed if it was made from code that was there when the
// session was armed (runtime/callers.h), and the slots of later ones were not.
//
// **The list itself says who is in it.** No file does: text and links are read, and each session
// file says which stub is whose. To add or remove one is to write either the jump in the text or
// one link, five bytes in a stub, while all threads stand still. A controller that dies before
// that has changed nothing, and after it all. What would stand in the text if a member left
// is worked out from its link.
//
// Where the jump in the text leads to a trampoline, it is that one's jump that leads to the first
// stub of the list: whoever shares it has the same jumps in its file, and the one in front goes
// when the list is empty.
//
// What cannot be shared are puns, jumps to trampolines of somebody's own, and probes between the
// instructions of a window that somebody has displaced already: they are left out, with the reason.
//
// Whoever uses this holds the process's turn (turn.h).
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "image/process.h"
#include "layout/session_file.h"
#include "patch/text_edit.h"
#include "target/memory.h"

namespace pinprick::engine {

// A site in another session's file.
struct OtherSite {
  layout::SiteEntry entry;
  bool is_shareable = false;  // its jump leads to its stub; of a trampoline: that one's
  bool leads_on = false;      // to the trampoline that is the next one in its file
  bool times = false;         // calls
  bool has_inner = false;     // probes behind the first displaced instruction
  bool is_in_text = false;    // its jump is
  Range touched() const;
};

// Where a session's stub comes into the list of a site.
struct Place {
  Address link = 0;   // that leads there; 0: the jump in the text does
  Address below = 0;  // the next stub in the list; 0: none
};

// The one whose jump leads to the stub of the site: itself, or its trampoline.
const layout::SiteEntry& head_of(const layout::Session& journal, const layout::SiteEntry& site);

class OtherSites {
 public:
  OtherSites() = default;
  // Of the sessions with these journals, in the process with that memory.
  OtherSites(std::span<const layout::Session* const> journals, const target::Memory& memory);
  // Those of all sessions in the process whose files can be read and are believed, but for the one
  // with the file at `own`.
  static OtherSites find(pid_t pid, const target::Memory& memory, const std::string& own = {});

  bool empty() const { return sites_.empty(); }
  bool has_any_at(Address site) const { return !at(site).empty(); }
  // Puts the program's own bytes into what was read of its text at `address`.
  void put_back(Address address, std::span<uint8_t> bytes) const;
  // What touches any byte of the range and is in the text. As long as this lives.
  std::vector<const OtherSite*> in(Range range) const;

  // All that is.
  std::vector<Range> taken() const;

  // Where a stub for the site of `other`, which is in the text, is to be led in.
  Place place_for(const target::Memory& memory, const OtherSite& other, bool times) const;
  // The edits that lead the stub of `site` in there. Returns nullopt if something is out of reach.
  static std::optional<patch::TextEdit> arming(const layout::SiteEntry& site, Place place);
  // The edit that takes it out, wherever it is by now. Returns nullopt if it is out, and others are
  // still there.
  std::optional<patch::TextEdit> disarming(const target::Memory& memory,
                                           const layout::SiteEntry& site) const;
  // Is the stub of `self` in a list with some of theirs?
  bool share_with(const target::Memory& memory, const layout::SiteEntry& self) const;

  // Where their slots are in the process, and all their code.
  const std::vector<layout::MappingEntry>& slots() const { return slots_; }
  const std::vector<Range>& code() const { return code_; }

  // The last one in the site's list, whose copies run; nullptr if there is nobody in it.
  // `self`: of the session that is not among the others.
  const OtherSite* last_at(const target::Memory& memory, const layout::SiteEntry& self) const;

 private:
  using Candidates = std::span<const OtherSite>;
  Candidates at(Address address) const;
  struct Member {
    const layout::SiteEntry* entry = nullptr;
    const OtherSite* other = nullptr;  // nullptr: it is self
  };
  std::vector<Member> list_at(const target::Memory& memory, Address address,
                              const layout::SiteEntry* self) const;

  std::vector<OtherSite> sites_;  // by address
  std::vector<layout::MappingEntry> slots_;
  std::vector<Range> code_;
};

// The target's text as it is without anybody's jumps, and the rest of its memory as it is.
image::MemoryReader reader_without_jumps(std::shared_ptr<const OtherSites> others,
                                         image::MemoryReader reader);

}  // namespace pinprick::engine
