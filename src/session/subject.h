// A process in which probes will be placed: opened, with its objects read as they are without any
// owner's jumps. Nothing in it is changed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "image/process.h"
#include "ledger/session_error.h"
#include "target/remote_target.h"

namespace pinprick::session {

// How far a process is. `at_exec`: it has executed its program just now, and we hold it, with only
// the program and its loader mapped. `before_relocation`: it is held while its loader has yet to
// relocate its objects (Launched).
enum class Progress : uint8_t { runs, at_exec, before_relocation };

struct Subject {
  target::RemoteTarget target;
  std::unique_ptr<image::ProcessImage> image;
};

// Opens the process. Waits for its turn (ledger/turn.h), and fails if that takes too long, or as
// RemoteTarget::open() does.
Result<target::RemoteTarget, ledger::SessionError> open_target(pid_t pid);

// Reads the objects of the process; `store` must outlive the image. Fails if the process ends or
// executes another program meanwhile, or if none of its objects can be read. `held` is null, or the
// maps of a process of which we have held the only thread since they were read.
Result<Subject, ledger::SessionError> look_at(pid_t pid, image::ObjectStore& store);
Result<Subject, ledger::SessionError> look_at(const target::RemoteTarget& target,
                                              image::ObjectStore& store,
                                              Progress progress = Progress::runs,
                                              const std::vector<image::Mapping>* held = nullptr);

}  // namespace pinprick::session
