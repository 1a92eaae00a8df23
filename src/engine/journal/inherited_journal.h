// What the journal of a process says about one that was forked from it, and has its memory.
//
// After the fork, each of the two processes unloads its own libraries, and probes are taken out of
// each by itself. So what was undone in the one may still be there in the other: only its text says
// so. A jump that a journal calls gone leads to memory that is unmapped when the session ends.
#pragma once

#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

inline bool has_left(const layout::SiteEntry& site) {
  using Phase = layout::SiteEntry::Phase;
  return site.phase == Phase::gone || site.phase == Phase::removed;
}

// Returns the journal as it is in the forked process with that memory: armed, with all sites that
// hold the session's jump there, with its slots, and with all semaphores raised that ever were. A
// semaphore is only lowered where its jumps are in the text (semaphores.h). Sites that hold another
// owner's jump, which leads on to this session's, are found by return_shared_sites()
// (shared_sites.h).
layout::Session inherited(layout::Session journal, const target::Memory& memory);

}  // namespace pinprick::engine
