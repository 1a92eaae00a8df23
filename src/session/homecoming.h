// Brings threads home from stubs, once the text is the program's own again.
//
// A thread that stands at the copy of a displaced instruction goes on at the original just as well;
// one that waits in a system call whose copy it made must, since it may wait there for as long as
// it likes.
#pragma once

#include "layout/session_file.h"
#include "target/memory.h"
#include "target/stop.h"

namespace pinprick::session {

// The text of the sites has been restored. Threads elsewhere in a stub stay where they are.
void bring_home(target::Stop& stop, const target::Memory& memory, const layout::Session& journal);

}  // namespace pinprick::session
