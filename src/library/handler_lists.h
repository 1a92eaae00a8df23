// What a hit sees of the handlers at its site: lists that are made, published, and retired whole.
//
// Publishing is one store. A hit on another thread reads the former list or the new one, at any
// time; so the former one is retired, and destroyed after a grace period (reclaimer.h). The
// registry's lock is held. Allocates; nothing else can go wrong.
#pragma once

#include <memory>
#include <vector>

#include "library/attachment.h"
#include "library/modes.h"
#include "library/site.h"
#include "pinprick/handler.h"
#include "runtime/handlers.h"

namespace pinprick::library {

struct OwnedHandlers : runtime::HandlerList {
  std::vector<Entry> storage;
};

// What hits may still be using.
struct Retired {
  std::vector<std::unique_ptr<OwnedHandlers>> handlers;
  std::vector<std::unique_ptr<runtime::ReturnList>> returns;
  std::vector<std::unique_ptr<Attachment>> attachments;
  bool empty() const { return handlers.empty() && returns.empty() && attachments.empty(); }
};

runtime::Handler untyped(const Handler& handler);

// Makes hits at the site run what is attached and enabled there now. While all probes are disarmed
// that is nothing, though a thread may be in the stub, or the jump may still be in the text as
// SIGTRAP is blocked.
void publish(Site& site, const Modes& modes, Retired& retired);

}  // namespace pinprick::library
