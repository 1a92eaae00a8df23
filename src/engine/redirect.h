// Brings threads home from stubs, once the text is the program's own again.
//
// A thread that stands at the copy of a displaced instruction goes on at the original just as well;
// one that waits in a system call whose copy it made must, since it may wait there for as long as
// it likes.
#pragma once

#include "engine/shared_sites.h"
#include "layout/session_file.h"
#include "target/memory.h"
#include "target/stop.h"

namespace pinprick::engine {

// The sites are the program's again, or those of others, where home is the copy in the last one's
// stub. Threads elsewhere in a stub stay where they are.
void redirect_threads(target::Stop& stop, const target::Memory& memory,
                      const layout::Session& journal, const OtherSites& others);

}  // namespace pinprick::engine
