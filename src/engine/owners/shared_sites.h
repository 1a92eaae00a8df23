// Sites at which several sessions have probes.
//
// The text has one jump, to the stub of one session. In front of that stub's out-of-line copies
// there is a link (arch/jump.h) to the stub of the next session, and so on. In the last stub, whose
// link leads nowhere or which has none, the copies run:
//
//     text: jump --> stub of C        --> stub of A        --> stub of B
//                    actions, link        actions, link        actions, [no link,] copies
//
// So each session's actions run once a hit, in its own stub, with its own counters. A session can
// come and go independently of the others; it only has to be in this list. The first session has no
// link unless it times calls: a session that is alone pays nothing.
//
// All members displace the same instructions, chosen by the first one, by a jump of the same
// length. A session is added at the front, by its jump in the text. One that times calls is added
// after all others that do: a call is only timed if it was made from code that was there when the
// session was armed (runtime/callers.h), and the slots of later sessions were not.
//
// **Only the list itself says which sessions are in it.** No file does: the text and the links are
// read, and each session file says which stubs are its own. To add or remove a member is to write
// either the jump in the text or one link, five bytes in a stub, while all threads are stopped. A
// controller that dies before that write has changed nothing, and after it everything. The bytes
// that the text gets when a member leaves follow from that member's link.
//
// If the jump in the text leads to a trampoline, the trampoline's jump leads to the first stub of
// the list. All members have the same two jumps in their files, and the jump in the text is removed
// when the list is empty.
//
// Three measures of probes cannot share a site: puns, jumps to a trampoline in a session's own
// memory, and probes between instructions that another session has displaced already. They are
// refused, with the reason.
//
// The caller holds the process's turn (ledger/turn.h).
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
#include "patch/text_owner.h"
#include "target/memory.h"
#include "target/remote_target.h"

namespace pinprick::engine {

// A site in another session's file.
struct OtherSite {
  layout::SiteEntry entry;
  bool is_shareable = false;  // its jump, or that of its trampoline, leads to its stub
  bool leads_on = false;      // its jump leads to the trampoline that is the next entry of its file
  bool times = false;         // it has probes that time calls
  bool has_inner = false;     // it acts after the first displaced instruction, too
  bool is_in_text = false;    // its jump is in the text
  Range touched() const;
};

// A position in the list of a site.
struct Position {
  Address link = 0;   // the link that is to lead there; 0 if it is the jump in the text
  Address below = 0;  // the next stub in the list; 0 if there is none
};

// The entry whose jump leads to the stub of `site`: `site` itself, or its trampoline's.
const layout::SiteEntry& head_of(const layout::Session& journal, const layout::SiteEntry& site);

// Puts the program's own bytes of the site, as far as they lie there, into `bytes`, text read at
// `address`.
void put_original_back(const layout::SiteEntry& site, Address address, std::span<uint8_t> bytes);

class OtherSites {
 public:
  OtherSites() = default;
  // The sites of the sessions with these journals, in the process with that memory.
  OtherSites(std::span<const layout::Session* const> journals, const target::Memory& memory);
  // The sites of all sessions in the process whose files are readable and trusted, except for the
  // session with the file at `own`; those that it has from processes from which it was forked; and
  // those of the program itself.
  static OtherSites find(pid_t pid, const target::Memory& memory, const std::string& own = {});
  // The same with maps that were read just before.
  static OtherSites find(pid_t pid, const target::Memory& memory,
                         const std::vector<image::Mapping>& maps, const std::string& own = {});

  bool empty() const { return sites_.empty() && left_.empty(); }
  bool has_any_at(Address site) const { return !at(site).empty(); }
  // May a thread in a stub of theirs go on inside the range, not at its start, although no jump of
  // theirs is there any more? A jump over these bytes would break it.
  bool may_continue_inside(Range range) const;
  // Replaces these sessions' jumps by the program's own bytes in `bytes`, text read at `address`.
  void put_back(Address address, std::span<uint8_t> bytes) const;
  // The same for text that may have changed since these were found: also puts back what the sites
  // have replaced whose jumps are there by now.
  void put_all_back(const target::Memory& memory, Address address, std::span<uint8_t> bytes) const;
  // The sites that are in the text and touch any byte of the range. Valid as long as this object.
  std::vector<const OtherSite*> in(Range range) const;

  // What all sites in the text touch, those of the program's own probes included.
  std::vector<Range> taken() const;

  // What the program says about its own probes, which it does not share.
  const patch::OwnProbes& program() const { return program_; }

  // Where a new stub is to enter the list of `other`, which is in the text.
  Position position_for(const target::Memory& memory, const OtherSite& other, bool times) const;
  // The edit that enters the stub of `site` there. Returns nullopt if a jump cannot reach.
  static std::optional<patch::TextEdit> arming(const layout::SiteEntry& site, Position position);
  // The edit that takes the stub of `site` out, wherever it is in the list by now. Returns nullopt
  // if it is out already and others are still in the list.
  std::optional<patch::TextEdit> disarming(const target::Memory& memory,
                                           const layout::SiteEntry& site) const;
  // The edits that lead around the stub of `site` where it is reached from stubs that are in no
  // list any more. A thread may still be in such a stub, before its link.
  std::vector<patch::TextEdit> leading_around(const target::Memory& memory,
                                              const layout::SiteEntry& site) const;
  // Is the stub of `self` in a list at a site of theirs?
  bool share_with(const target::Memory& memory, const layout::SiteEntry& self) const;

  // Do all of the others that have a site at this address displace as many bytes as `site` does?
  bool displace_as_much(const layout::SiteEntry& site) const;

  // Where these sessions' slots are in the process, and all their code and the program's.
  const std::vector<layout::MappingEntry>& slots() const { return slots_; }
  const std::vector<Range>& code() const { return code_; }

  // The last of the others in the list at `self`, whose copies run; nullptr if there is none.
  // `self` is a site of the session that is not among the others.
  const OtherSite* last_at(const target::Memory& memory, const layout::SiteEntry& self) const;

 private:
  using Candidates = std::span<const OtherSite>;
  template <class Take>
  void for_each_near(Range range, const Take& take) const;
  Candidates at(Address address) const;
  struct Member {
    const layout::SiteEntry* entry = nullptr;
    const OtherSite* other = nullptr;  // nullptr for self
  };
  std::vector<Member> list_at(const target::Memory& memory, Address address,
                              const layout::SiteEntry* self) const;

  std::vector<OtherSite> sites_;         // by address
  std::vector<layout::SiteEntry> left_;  // of which only the stub is there, by address
  std::vector<Address> left_windows_;    // their ends, ascending
  std::vector<layout::MappingEntry> slots_;
  std::vector<Range> code_;
  patch::OwnProbes program_;
};

// Puts the sites back in the text that the journal of a process calls gone, and that are in a list
// in one that was forked from it (inherited_journal.h). Returns whether there are any.
bool return_shared_sites(layout::Session& journal, const OtherSites& others,
                         const target::Memory& memory);

// Reads the target's memory, its text as it would be without the others' jumps. The program may
// place and remove probes of its own meanwhile, but must not have placed its first one since
// `others` were found.
image::MemoryReader reader_without_jumps(std::shared_ptr<const OtherSites> others,
                                         const target::RemoteTarget& target);

}  // namespace pinprick::engine
