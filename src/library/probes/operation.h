// One call into the library: it holds the registry's lock, and hits of the calling thread are
// counted as missed meanwhile. It starts no thread: handlers would run there, and wait for the
// lock.
//
// On the stack of the calling thread, which may be running a handler, but no signal handler. Its
// destructor may wait for handlers (reclaimer.h).
#pragma once

#include <mutex>

#include "base/parallel.h"
#include "library/probes/handler_lists.h"
#include "library/probes/reclaimer.h"
#include "runtime/thread.h"

namespace pinprick::library {

class Operation {
 public:
  Operation(std::mutex& mutex, Reclaimer& reclaimer) : reclaimer_(reclaimer), lock_(mutex) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  ~Operation() { reclaimer_.reclaim(retired, lock_); }

  // What the call has unpublished. Declared before the other members, so that it is destroyed after
  // them: without the lock, and so that the destructors of closures, which are the program's code,
  // hit probes as usual.
  Retired retired;

 private:
  const runtime::InLibrary in_library_;
  const OneThread one_thread_;
  Reclaimer& reclaimer_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace pinprick::library
