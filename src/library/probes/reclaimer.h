// Keeps what was unpublished until no handler can be using it any more.
//
// Lists of handlers are unpublished first; then a grace period passes (runtime/thread.h); then they
// are destroyed, with the attachments to which they refer. The wait for handlers is without the
// registry's lock, so a handler may call the library. A call from a handler does not wait at all:
// what it retires is destroyed by a later call from elsewhere. Stubs and sites are never reclaimed.
//
// The wait does not end before the handlers that run then do.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "library/probes/attacher.h"
#include "library/probes/attachment.h"
#include "library/probes/handler_lists.h"
#include "runtime/handlers.h"

namespace pinprick::library {

class Reclaimer {
 public:
  // `attacher` must outlive it.
  explicit Reclaimer(Attacher& attacher) : attacher_(attacher) {}

  // To be called at the end of a call that has retired something. `lock` is the registry's, held by
  // the caller; it is released while this waits, and at the end if this has waited. Afterwards
  // `retired` has what may be destroyed, and nothing else; its owner destroys that without the
  // lock.
  void reclaim(Retired& retired, std::unique_lock<std::mutex>& lock);

 private:
  Attacher& attacher_;
  Retired deferred_;
};

}  // namespace pinprick::library
