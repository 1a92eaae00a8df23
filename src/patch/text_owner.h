// The owners of a process's text: attached sessions, or libpinprick in the process itself, or
// both. How several sessions share text is in engine/owners/shared_sites.h. This is about the
// program and the sessions, which have no lock in common: each takes what no other has.
//
// Each announces itself in the memory of the process, which both see in whatever user, folder or
// namespace they run. A session maps its file there, and the file says which bytes it takes. The
// library maps a page, which leads to a table of what it takes (layout/own_probes.h).
//
//     library                                session
//       enter the sites into the table         the file says `armed`, with the sites
//       look for files, and their sites:       look at the table:
//         leave the sites out, and refuse,       leave the sites out, and say so,
//         if a session has them                  if the library has them
//       write text                             stop; write text
//
// Both announce first and look afterwards, so at least one of the two sees the other. Suppose that
// the session does not see an entry. Then the entry was not there when the session looked, so the
// library looks later than that, and so after the session's file said `armed`: the library sees the
// session's sites. The same holds the other way round. A look goes through all mappings, one after
// the other; if some come and go meanwhile, that hides none that stays. If each sees the other,
// both leave the site out, and the next one to try succeeds.
//
// docs/owners.md has the rest of the argument: why threads are safe in the code of either one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "image/maps.h"
#include "layout/own_probes.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::patch {

// What the process that has this memory and these mappings says about probes of its own: a copy,
// checked. The process may be changing them meanwhile.
class OwnProbes {
 public:
  OwnProbes() = default;
  static OwnProbes read(const target::Memory& memory, const std::vector<image::Mapping>& maps);

  // Does the process probe itself?
  bool is_there() const { return is_closed_ || !tables_.empty(); }
  // It does, and no session can have probes beside it: it is of another version, or does not share
  // its text.
  bool is_closed() const { return is_closed_; }

  // Those that are in use, or whose stubs threads may still be in, by address.
  const std::vector<layout::OwnSite>& sites() const { return sites_; }
  // Would a window of displaced instructions be in the way of one of them? It must not have bytes
  // that are in use, nor bytes after its first one at which a stub goes on.
  bool needs_any_of(Range window) const;
  // Has the program a probe of its own there now, other than a tracepoint that it has turned on?
  bool has_probe_at(Range bytes) const;
  // Does it say that it has, or changes, any of these bytes?
  bool takes(Range bytes) const;
  // The memory of all code that was emitted for the probes, and libpinprick. Of trampolines, to
  // which no call returns, some may be missing.
  const std::vector<Range>& code() const { return code_; }
  const std::vector<layout::OwnSlots>& slots() const { return slots_; }

  // Text is read without the program's own jumps and breakpoints in three steps:
  //
  //     const uint64_t changes = probes.changes_now(memory);
  //     ... read text ...
  //     probes.read_changes(memory);
  //     probes.put_back(pid, address, text, changes);
  //
  // Returns how many changes of sites the program has counted (layout/own_probes.h).
  uint64_t changes_now(const target::Memory& memory) const;
  // Reads the sites anew if there were changes since they were read.
  void read_changes(const target::Memory& memory);
  // Replaces what the program has written by the original bytes in `bytes`, text read at `address`
  // between changes_now(), which returned `changes`, and read_changes(). `pid` is that of the
  // process. A site that was not in the text all that time is left as it was read: the program may
  // have changed these bytes since it was.
  void put_back(pid_t pid, Address address, std::span<uint8_t> bytes, uint64_t changes) const;

 private:
  template <class F>
  bool any_in_use(Range bytes, F&& f) const;
  bool read_table(const target::Memory& memory, Address address);
  bool read_sites(const target::Memory& memory);

  bool is_closed_ = false;
  std::vector<Address> tables_;  // of each libpinprick in the process
  // By address, and then as the program has entered them.
  std::vector<layout::OwnSite> sites_;
  // When the sites were read; nullopt if they changed all the time.
  std::optional<uint64_t> changes_ = 0;
  std::vector<Range> libraries_;
  std::vector<Range> code_;
  std::vector<layout::OwnSlots> slots_;
};

// Returns the name of the site; empty if it has none, or it cannot be read.
std::string name_of(const target::Memory& memory, Address name);

// The header of the session file that is mapped there, if one is. If it is of another version, only
// `magic`, `version` and `header_size` mean anything.
std::optional<layout::FileHeader> mapped_session(const target::Memory& memory,
                                                 const image::Mapping& mapping);

}  // namespace pinprick::patch
