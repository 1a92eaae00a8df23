// One call into the library: it holds the registry's lock, and nothing that it does hits a probe.
//
// On the stack of the calling thread, which may run a handler; not in a signal handler. Its end may
// wait for handlers (reclaimer.h).
#pragma once

#include <mutex>

#include "library/handler_lists.h"
#include "library/reclaimer.h"
#include "runtime/thread.h"

namespace pinprick::library {

class Operation {
 public:
  Operation(std::mutex& mutex, Reclaimer& reclaimer) : reclaimer_(reclaimer), lock_(mutex) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() { reclaimer_.reclaim(retired, lock_); }

  // What the call takes out of sight. It comes before the other members, so it is destroyed after
  // them: without the lock, and where the destructors of closures, which are the program's code,
  // hit probes as elsewhere.
  Retired retired;

 private:
  const runtime::InLibrary in_library_;
  Reclaimer& reclaimer_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace pinprick::library
