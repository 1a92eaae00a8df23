// The lists of handlers that a hit runs at its site. They are made, published and retired as a
// whole.
//
// Publishing is one store. A hit on another thread may read the old list or the new one at any
// time, so the old one is retired, and destroyed after a grace period (reclaimer.h). The caller
// holds the registry's lock. Allocates, and cannot fail otherwise.
#pragma once

#include <memory>
#include <vector>

#include "library/probes/attachment.h"
#include "library/probes/modes.h"
#include "library/probes/site.h"
#include "pinprick/handler.h"
#include "runtime/handlers.h"

namespace pinprick::library {

struct OwnedHandlers : runtime::HandlerList {
  std::vector<Entry> storage;
};
struct OwnedReturns : runtime::ReturnList {
  std::vector<Entry> storage;
};

// What is unpublished but may still be used by hits.
struct Retired {
  std::vector<std::unique_ptr<OwnedHandlers>> handlers;
  std::vector<std::unique_ptr<OwnedReturns>> returns;
  std::vector<std::unique_ptr<Attachment>> attachments;
  bool empty() const { return handlers.empty() && returns.empty() && attachments.empty(); }
};

runtime::Handler untyped(const Handler& handler);

// Makes hits at the site run the handlers that are attached and enabled there now. While all probes
// are disarmed, these are none; a thread may still be in the stub then, or the jump may still be in
// the text because SIGTRAP is blocked.
void publish(Site& site, const Modes& modes, Retired& retired);

}  // namespace pinprick::library
