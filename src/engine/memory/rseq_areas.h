// How the threads of a target have their rseq areas, and whether stubs can count by them.
//
// For arming: the hijacked thread's area says where stubs look, and once all threads are stopped
// all of them are looked at. Reads the kernel's view of a stopped thread; what cannot be read is
// taken for not registered.
#pragma once

#include <sys/types.h>

#include <optional>

#include "arch/registers.h"
#include "arch/stub.h"
#include "target/stop.h"

namespace pinprick::engine {

// How a thread has its rseq area, if as all threads may have it: at that distance from the thread
// pointer, and as children that share it can be marked. Nothing: not like that, or not registered.
std::optional<arch::RseqArea> rseq_of(pid_t tid, const arch::Registers& registers);

// Has each thread its area where stubs would look for it? A thread that has not registered one yet
// has zeros there, and locks.
bool all_have_rseq(target::Stop& stop, arch::RseqArea area);

}  // namespace pinprick::engine
