// Redirects threads from stubs to the original code, once the text is the program's own again.
//
// A thread at the out-of-line copy of a displaced instruction can go on at the original just as
// well. A thread that waits in a system call that it made from a copy must, since it may wait there
// for any length of time.
#pragma once

#include <vector>

#include "base/address.h"
#include "engine/owners/shared_sites.h"
#include "layout/session_file.h"
#include "target/memory.h"
#include "target/stop.h"

namespace pinprick::engine {

// To be called when the text at the sites is restored. If other sessions still have probes at a
// site, the original instructions are the copies in the last one's stub. Threads elsewhere in a
// stub stay where they are. Returns where in other sessions' stubs threads were sent.
std::vector<Address> redirect_threads(target::Stop& stop, const target::Memory& memory,
                                      const layout::Session& journal, const OtherSites& others);

}  // namespace pinprick::engine
