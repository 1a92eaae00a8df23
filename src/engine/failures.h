// What can fail while a session is armed, as the error that it fails with. Pure.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "base/result.h"
#include "ledger/session_error.h"
#include "target/attach_error.h"

namespace pinprick::engine {

inline Failure<ledger::SessionError> attach_failure(pid_t pid, target::AttachCause cause,
                                                    int error = 0, std::string detail = {}) {
  return fail(ledger::SessionError(target::AttachError{cause, pid, 0, error, std::move(detail)}));
}

// The process's memory cannot be written.
inline Failure<ledger::SessionError> memory_failure(pid_t pid, const SystemError& error) {
  return attach_failure(pid, target::AttachCause::memory_refused, error.number);
}

// What came of a write to the session file.
inline Result<void, ledger::SessionError> noted(const Result<void, ledger::FileError>& written) {
  if (!written) return fail(ledger::SessionError(written.error()));
  return {};
}

}  // namespace pinprick::engine
