// A process in which probes will be placed. It is opened, and its objects are read as they are
// without anybody's jumps. Nothing in it is changed.
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/result.h"
#include "image/process.h"
#include "ledger/session_error.h"
#include "target/remote_target.h"

namespace pinprick::session {

struct Subject {
  target::RemoteTarget target;
  std::unique_ptr<image::ProcessImage> image;
};

// Waits for its turn (turn.h).
Result<target::RemoteTarget, ledger::SessionError> open_target(pid_t pid);

// `store` outlives the image. Fails if the process ends or executes another program meanwhile, or
// if none of its objects can be read.
Result<Subject, ledger::SessionError> look_at(pid_t pid, image::ObjectStore& store);
Result<Subject, ledger::SessionError> look_at(const target::RemoteTarget& target,
                                              image::ObjectStore& store);

}  // namespace pinprick::session
