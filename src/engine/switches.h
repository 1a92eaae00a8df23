// Turns placed probes off and on, many in one batch, without taking them out.
//
// In a session that was armed with switches (ArmOptions::has_switches) each probe's part of its
// stub starts with five bytes that are either a nop or a jump over that part (arch::Switch).
// Turning a probe off or on writes these five bytes, and nothing else: the jump in the text stays,
// the probe keeps its position among other owners' probes at the site, and nothing is mapped. Each
// probe of a site has a switch of its own, but for probes that time one call: these have one switch
// in common, which is turned for all of them or for none.
//
// Every thread is safe at each step:
//   1  all threads are stopped
//   2  a switch is one instruction before and after: no thread can be stopped inside it, and a
//      thread at its first byte runs either the whole part or none of it. A thread that the kernel
//      sends to the start of a restartable sequence arrives after the switch
//   3  no switch crosses a page, so a controller that is killed has written each one or has not
//   4  the threads go on. Calls that were entered before are recorded when they return
// The state of a switch in the file is written last: if the controller dies before that, the file
// is outdated, and the next batch that has the probe corrects it.
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "layout/session_file.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "target/remote_target.h"

namespace pinprick::engine {

enum class Switched : uint8_t { off, on };

struct SwitchReport {
  size_t changed = 0;       // probes that were in the other state
  size_t unswitched = 0;    // probes without a switch, or whose stub is not as the file says
  uint64_t stopped_ns = 0;  // how long the target as a whole was stopped
};

// Turns `probes`, numbers of entries of `journal.probes`, off or on. `journal` is what `file` says;
// both are updated. The caller holds the process's turn (ledger/turn.h). Fails if the process
// cannot be stopped or written, or has executed another program; some probes may be switched then.
Result<SwitchReport, ledger::SessionError> switch_probes(const target::RemoteTarget& target,
                                                         ledger::SessionFile& file,
                                                         layout::Session& journal,
                                                         std::span<const uint32_t> probes,
                                                         Switched to);

}  // namespace pinprick::engine
