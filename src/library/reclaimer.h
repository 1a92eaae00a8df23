// What was taken out of sight of hits, until no handler can be using it any more.
//
// Lists of handlers are unpublished first; then a grace period passes (runtime/thread.h); then they
// are destroyed, with the attachments they refer to. Nobody waits for handlers with the registry's
// lock held, so a handler may call the library. From a handler nobody waits at all: what it retires
// is destroyed by a later call from elsewhere. Stubs and sites are never reclaimed.
//
// The registry's lock is held where a function says nothing else. Waiting never ends if a handler
// never does.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "library/attacher.h"
#include "library/attachment.h"
#include "library/handler_lists.h"
#include "runtime/handlers.h"

namespace pinprick::library {

class Reclaimer {
 public:
  // `attacher` outlives it.
  explicit Reclaimer(Attacher& attacher) : attacher_(attacher) {}

  // At the end of a call that has retired something. `lock` is the registry's, held, and is let go
  // while this waits. What may be destroyed is in `retired` afterwards, and nothing else: it is
  // destroyed by whoever owns that, without the lock.
  void reclaim(Retired& retired, std::unique_lock<std::mutex>& lock);

 private:
  Attacher& attacher_;
  Retired deferred_;
};

}  // namespace pinprick::library
