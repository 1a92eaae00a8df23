// What can be attached to sites of our own process: probes, return probes, counters, and timers of
// calls and spans.
//
// The registry owns an attachment from place() on; the public objects point to it. It is changed
// with the registry's lock held, except for its counters of missed hits, which hits increment. It
// is destroyed when no handler can be using it (reclaimer.h), without the lock, as the closures of
// its handlers are the program's code.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "library/probes/share.h"
#include "library/probes/stub_features.h"
#include "pinprick/probe.h"
#include "placement/single.h"
#include "runtime/handlers.h"
#include "runtime/spans.h"
#include "stats/histogram.h"

namespace pinprick::library {

struct Site;

struct Attachment {
  virtual ~Attachment() = default;
  virtual placement::ProbeNeeds needs() const = 0;
  virtual StubFeatures features() const = 0;

  Site* site = nullptr;
  bool enabled = true;
  int priority = 0;
  bool allow_breakpoint = false;
};

}  // namespace pinprick::library

namespace pinprick::detail {

// Counts the hits of its site. The site's stub counts all of them, missed ones included.
struct CountingState : library::Attachment {
  placement::ProbeNeeds needs() const override { return placement::ProbeNeeds::hits; }
  library::StubFeatures features() const override { return {.counts = true}; }
  library::Share<uint64_t> hits;
};

struct CounterState : CountingState {};

struct ProbeState : CountingState {
  placement::ProbeNeeds needs() const override {
    return post ? placement::ProbeNeeds::after_first : placement::ProbeNeeds::hits;
  }
  library::StubFeatures features() const override {
    return {
        .counts = count_hits, .before = static_cast<bool>(pre), .after = static_cast<bool>(post)};
  }
  Handler pre, post;
  bool count_hits = false;
  runtime::Misses missed{};
};

struct ReturnState : library::Attachment {
  placement::ProbeNeeds needs() const override { return placement::ProbeNeeds::calls; }
  library::StubFeatures features() const override { return {.before = true, .measures = true}; }
  Handler on_entry, on_return;
  size_t data_size = 0;
  uint32_t max_active = 0;
  // Set when it is attached:
  runtime::ReturnProbeState* shared = nullptr;
  uint64_t generation = 0;
  std::vector<uint32_t> item_links;
  std::vector<std::byte> item_data;
  std::unique_ptr<runtime::ItemPool> items;
};

// Times calls into the site's histogram, which stays with the site.
struct LatencyState : library::Attachment {
  placement::ProbeNeeds needs() const override { return placement::ProbeNeeds::calls; }
  library::StubFeatures features() const override { return {.times = true}; }
  library::Share<library::Timings> timings;
};

// One end of a span: a probe with a handler of the library. It counts itself what becomes of hits.
struct SpanEndState : ProbeState {
  library::StubFeatures features() const override { return {.before = true}; }
  std::shared_ptr<runtime::Span> span;
};

}  // namespace pinprick::detail
