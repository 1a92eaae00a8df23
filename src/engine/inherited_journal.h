// What the journal of a process says about one that was forked from it, and has its memory.
//
// After the fork, each of the two processes unloads its own libraries, and probes are taken out of
// each by itself. So what was undone in the one may still be there in the other: only its text says
// so. A jump that a journal calls gone leads to memory that is unmapped when the session ends.
#pragma once

#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

// Returns the journal as it is in the forked process with that memory: armed, with all sites that
// may hold the session's jump there, and with all semaphores raised that ever were. A semaphore is
// only lowered where its jumps are in the text (semaphores.h).
layout::Session inherited(layout::Session journal, const target::Memory& memory);

}  // namespace pinprick::engine
