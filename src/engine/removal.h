// Takes some of a session's probes out, while its others stay.
//
// A probe is gone when its jump is out of the text. Jumps may hang together: a short one leads to a
// trampoline, which may lie among the instructions that another one displaces, and a pun ends in
// another's first bytes. So text is restored by groups of such sites, and only where no probe of
// the group stays. A probe at a site that has to stay, for such a neighbour, for other probes of
// the session, or because another session shares it, is turned off (switches.h).
//
// Every thread is safe at each step:
//   1  all threads are stopped. A thread at a trampoline is moved on to the stub, and a trampoline
//      that a thread will return to stays (restoring.h)
//   2  the text gets the program's bytes back. Nothing is unmapped, so a thread in a stub runs to
//      its end, and the calls that are timed return through their slots and are recorded
//   3  a thread that waits in a system call which it made from a copy goes on in the text, as it
//      may wait for any length of time
//   4  any other thread in a stub returns to the end of its window, whenever that is. The file says
//      that the site is removed, so no other session's jump is placed over that address as long as
//      this session is there (OtherSites::may_continue_inside); and when it ends, its memory stays
//      until no thread is in it
//   5  a controller that dies before the file is written leaves a session that was taken out in
//      part, as if it had died while it disarmed
//
// The semaphores of an object's SDT points are lowered with its last probe. Hooks stay until the
// session ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/owners/shared_sites.h"
#include "image/process.h"
#include "layout/session_file.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "target/remote_target.h"

namespace pinprick::engine {

struct RemovalReport {
  size_t removed = 0;   // probes
  size_t restored = 0;  // sites whose text is the program's own again
  // Probes that can neither be turned off nor be taken out alone. They stay as they were.
  size_t staying = 0;
  uint64_t stopped_ns = 0;  // the target as a whole
};

// Returns, for each site of the journal, whether its text can be restored when the probes for which
// `removed` has true are gone: no probe that stays needs it, directly or through sites that hang
// together with it. Sites of hooks stay. Pure.
std::vector<bool> sites_without_probes(const layout::Session& journal,
                                       const std::vector<bool>& removed);

// Returns a number for each site of the journal: those with the same number hang together, and
// their text can only be restored together. All points of spans do, as a span is nothing without
// both. Pure.
std::vector<uint32_t> sites_restored_together(const layout::Session& journal);

// Takes `probes` out, numbers of entries of `journal.probes`. `removed` has all that were taken out
// before, and has these afterwards. `image` is that of the target. The caller holds the process's
// turn. Fails if the process cannot be stopped or written, or has executed another program; some
// may be out then.
Result<RemovalReport, ledger::SessionError> remove_probes(
    const target::RemoteTarget& target, const image::ProcessImage& image, ledger::SessionFile& file,
    layout::Session& journal, std::vector<bool>& removed, std::span<const uint32_t> probes);

}  // namespace pinprick::engine
