// Semaphores of SDT points: 16-bit counts in the target of the tools that want a point's hits.
// While one is 0, the program may skip the point. A session raises the semaphores of its points by
// one, and lowers them by one, as the kernel does for uprobes with a reference counter.
//
// The target's threads are stopped meanwhile, and the caller holds the process's turn, so neither
// the program nor another owner changes a semaphore at the same time. The kernel may, for its own
// uprobes: it adds in a way that is not atomic, so one of two simultaneous changes can be lost.
// Nothing in user space can prevent that.
//
// The journal has each change before it is made, with the value that the semaphore had. If the
// controller dies in between, the value tells whether the change was made. Another owner notes that
// in the dead one's file before it changes the value itself. If the program, the kernel, or an
// owner that may not write that file has changed it instead, a semaphore is rather left raised than
// lowered twice.
#pragma once

#include <vector>

#include "base/index_range.h"
#include "base/result.h"
#include "engine/plan/arming_plan.h"
#include "layout/session_file.h"
#include "ledger/session_error.h"
#include "ledger/session_file.h"
#include "target/remote_target.h"

namespace pinprick::engine {

// Returns an entry for each semaphore of the probes of these patches. They are of one object, which
// has the number `object` in the journal. Each address is there once.
std::vector<layout::SemaphoreEntry> semaphores_of(const placement::ProbeSet& set,
                                                  const IndexRange& patches, size_t object);

// Raises the semaphores of the plan's armed probes, after their jumps were written. Fails if the
// file or the process cannot be written; lower_semaphores() then undoes what was done.
Result<void, ledger::SessionError> raise_semaphores(const target::RemoteTarget& target,
                                                    ledger::SessionFile& file,
                                                    layout::Session& journal,
                                                    const ArmingPlan& plan);

// Lowers what the journal has as raised, before the jumps are taken out. A semaphore whose object
// is not there any more is left alone. Does nothing if all were lowered before. Fails if the file
// cannot be written, or the process; a later call can go on from there. With `leaving`, lowers only
// those of the objects for which it has true, by number.
Result<void, ledger::SessionError> lower_semaphores(const target::RemoteTarget& target,
                                                    ledger::SessionFile& file,
                                                    layout::Session& journal,
                                                    const std::vector<bool>* leaving = nullptr);

}  // namespace pinprick::engine
