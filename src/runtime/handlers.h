// From a hit to the handlers: what stubs lead to, in the same process.
//
// Handlers run in the thread that hit the probe, in its context. A hit while handlers run on this
// thread, or while it is inside the library, runs none: it is counted as missed.
//
// Hot: compiled without vector registers; no lock, no lookup, no system call after a thread's first
// hit. Lists are published with a store and freed after wait_for_handlers().
#pragma once

#include <atomic>
#include <cstdint>

#include "layout/runtime_data.h"
#include "pinprick/registers.h"
#include "runtime/activations.h"

namespace pinprick::runtime {

// A handler without its type. `activation`: of return probes, what they keep of a call. The answer
// matters of entry handlers only: false leaves this call out.
using Call = bool (*)(Registers& registers, void* closure, void* activation) noexcept;

struct Handler {
  Call call = nullptr;
  void* closure = nullptr;
  bool integer_only = false;  // uses no vector registers
};

struct HandlerList {
  struct Entry {
    Handler handler;
    std::atomic<uint64_t>* missed;
  };
  const Entry* entries;
  uint32_t count;
  bool integer_only;  // all of them
  // The one that there is, if it is integer_only: mostly so, and then it is called without what a
  // loop over them has to keep. Else it has no call.
  Handler only;
};

// A return probe. Its memory is never freed, as calls in flight refer to it; the generation tells
// whether it is still the one that they began with.
struct ReturnProbeState {
  std::atomic<uint64_t> generation;
  Handler on_entry;  // may have none
  Handler on_return;
  ItemPool* items;  // null: neither data nor a limit of its own
  std::atomic<uint64_t> missed;
  std::atomic<uint64_t> unwound;
  std::atomic<uint64_t> abandoned;
};

struct ReturnList {
  ReturnProbeState* probes[kMostReturnProbes];
  uint64_t generations[kMostReturnProbes];
  uint32_t count;
  bool integer_only;
};

// What a record of a stub leads to.
struct HitPoint {
  std::atomic<const HandlerList*> handlers;
  std::atomic<const ReturnList*> returns;
};

// Before any hit: how vector state is saved here.
void prepare_vector_state();

}  // namespace pinprick::runtime

extern "C" {
extern const uint8_t pp_hit[], pp_hit_inside[], pp_returned[], pp_landed[];
}
