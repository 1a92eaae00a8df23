// From a hit to the handlers, in our own process: what stubs lead to.
//
// Handlers run in the thread that hit the probe, in its context. If a thread hits a probe while
// handlers run on it, or while it is inside the library, no handler runs, and the hit is counted as
// missed.
//
// On the hot path: compiled without vector registers; no lock, no lookup, and no system call after
// a thread's first hit. Lists are published by a store and freed after wait_for_handlers().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "layout/runtime_data.h"
#include "pinprick/miss.h"
#include "pinprick/registers.h"
#include "runtime/activations.h"

namespace pinprick::runtime {

// A handler without its type. `activation` is a return probe's data for the call, or nullptr. The
// result only matters for entry handlers: if it is false, this call is not measured.
using Call = bool (*)(Registers& registers, void* closure, void* activation) noexcept;

struct Handler {
  Call call = nullptr;
  void* closure = nullptr;
  bool integer_only = false;  // uses no vector registers
};

// Hits whose handlers did not run, by why.
struct Misses {
  std::atomic<uint64_t> counts[kMissCauses];
  void add(Miss cause) {
    counts[static_cast<size_t>(cause)].fetch_add(1, std::memory_order_relaxed);
  }
};

struct HandlerList {
  struct Entry {
    Handler handler;
    Misses* missed;  // nullptr: such a hit is counted by another list
  };
  const Entry* entries;
  uint32_t count;
  bool integer_only;  // all of them are
  // If there is only one handler and it is integer_only, as is usual, it is called through this,
  // which is cheaper than a loop. Otherwise `only.call` is nullptr.
  Handler only;
};

// A return probe. Its memory is never freed, as calls in flight refer to it. Its generation tells
// whether it is still the probe that they were entered with.
struct ReturnProbeState {
  std::atomic<uint64_t> generation;
  Handler on_entry;  // its call may be nullptr
  Handler on_return;
  ItemPool* items;  // nullptr if it has neither data nor a limit of its own
  Misses missed;
  std::atomic<uint64_t> unwound;
  std::atomic<uint64_t> abandoned;
};

struct ReturnList {
  struct Entry {
    ReturnProbeState* probe;
    uint64_t generation;
  };
  const Entry* entries;
  uint32_t count;
  bool integer_only;
  MoreParticipants more;  // has room for all of them if they are more than the usual number
};

// What runs at a hit; a stub's HitRecord leads to it.
struct HitPoint {
  std::atomic<const HandlerList*> handlers;
  std::atomic<const ReturnList*> returns;
};

// Finds out how vector state is saved on this machine. To be called before any hit.
void prepare_vector_state();

}  // namespace pinprick::runtime

extern "C" {
extern const uint8_t pp_hit[], pp_hit_inside[], pp_returned[], pp_landed[];
}
