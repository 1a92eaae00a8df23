// The calls of mcount and __fentry__ that -pg puts into functions, taken out of a program that we
// start: a user who probes it may not want its own profile, which costs more than the probes.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "image/store/object_store.h"
#include "ledger/session_error.h"
#include "session/launch.h"

namespace pinprick::session {

struct SilencedCalls {
  size_t calls = 0;
  // There are others, in objects whose code the loader has yet to relocate: after
  // Launched::relocate(), call it again.
  bool waits = false;
};

// Makes these calls nops, in all objects that are mapped, but for those where another controller
// has probes. No thread can be in one of them, nor return from one: the program is held before any
// code of these objects has run. The program keeps the nops for as long as it runs.
//
// Fails if the program cannot be read or written, for example as it was killed. Some of the calls
// may be nops by then, which does no harm.
Result<SilencedCalls, ledger::SessionError> silence_profiling_calls(const Launched& program,
                                                                    image::ObjectStore& store);

}  // namespace pinprick::session
