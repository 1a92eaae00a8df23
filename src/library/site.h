// What is attached to sites of one's own process: probes, return probes, counters.
//
// Owned by the Registry from place() on; the public objects point here.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "arch/stub.h"
#include "library/stub_space.h"
#include "pinprick/probe.h"
#include "placement/single.h"
#include "runtime/handlers.h"
#include "runtime/spans.h"
#include "stats/histogram.h"

namespace pinprick::library {

struct Site;

// What the stub of a site has to do.
struct Shape {
  bool counts = false;
  bool before = false;    // runs handlers, or follows calls
  bool behind = false;    // handlers behind the first instruction
  bool measures = false;  // follows calls
  bool times = false;     // calls, without a handler
  bool empty() const { return !counts && !before && !behind && !times; }
  bool covers(const Shape& other) const;
  Shape with(const Shape& other) const;
  friend bool operator==(const Shape&, const Shape&) = default;
};

struct Attachment {
  virtual ~Attachment() = default;
  virtual placement::Wanted wanted() const = 0;
  virtual Shape shape() const = 0;

  Site* site = nullptr;
  bool enabled = true;
  int priority = 0;
  bool allow_breakpoint = false;
};

// States of return probes are for good: calls in flight refer to them.
class ReturnStates {
 public:
  runtime::ReturnProbeState* take();
  void give(runtime::ReturnProbeState* state);

 private:
  std::vector<runtime::ReturnProbeState*> free_;
};

}  // namespace pinprick::library

namespace pinprick::detail {

struct ProbeState : library::Attachment {
  placement::Wanted wanted() const override {
    return post ? placement::Wanted::after_first : placement::Wanted::hits;
  }
  library::Shape shape() const override {
    return {.before = static_cast<bool>(pre), .behind = static_cast<bool>(post)};
  }
  Handler pre, post;
  std::atomic<uint64_t> missed{0};
};

struct ReturnState : library::Attachment {
  placement::Wanted wanted() const override { return placement::Wanted::calls; }
  library::Shape shape() const override { return {.before = true, .measures = true}; }
  Handler on_entry, on_return;
  size_t data_size = 0;
  uint32_t max_active = 0;
  // From when it is attached on:
  runtime::ReturnProbeState* shared = nullptr;
  uint64_t generation = 0;
  std::vector<uint32_t> item_links;
  std::vector<std::byte> item_data;
  std::unique_ptr<runtime::ItemPool> items;
};

// Into the site's histogram, which stays with it.
struct LatencyState : library::Attachment {
  placement::Wanted wanted() const override { return placement::Wanted::calls; }
  library::Shape shape() const override { return {.times = true}; }
  stats::Histogram at_begin;
  uint64_t missed_at_begin = 0, unwound_at_begin = 0, abandoned_at_begin = 0;
};

// One end of a span: a probe with a handler of the library's.
struct SpanEndState : ProbeState {
  std::shared_ptr<runtime::Span> span;
};

struct CounterState : library::Attachment {
  placement::Wanted wanted() const override { return placement::Wanted::hits; }
  library::Shape shape() const override { return {.counts = true}; }
  uint64_t at_begin = 0;
};

}  // namespace pinprick::detail

namespace pinprick::library {

// One of the two ways in which a site can be in the text.
struct Form {
  plan::Patch patch;  // site and interior as in the process
  struct Stub {
    Shape shape;
    arch::Stub stub;
  };
  std::vector<Stub> stubs;
  size_t in_use = 0;  // of the stubs
  std::optional<StubSpace::Trampoline> trampoline;

  bool is_breakpoint() const { return patch.written == 1; }
  std::vector<uint8_t> written() const;  // into the text, when in place
  Range touched() const { return patch.touched(); }
};

// An instruction that was probed once. Stays, with its stubs; see StubSpace.
//
// It is a jump where one fits, and a breakpoint otherwise. A jump becomes a breakpoint when a probe
// comes to be between the instructions that it displaces, and a jump again when that one has gone;
// and all do while jumps are switched off (optimise()).
struct Site {
  Address address = 0;
  Range object;
  std::string name, object_name;
  arch::StackUse stack = arch::StackUse::at_entry;
  std::optional<Form> jump;             // none: none fits, ever
  Form breakpoint;                      // of the first instruction
  std::optional<plan::Reason> no_jump;  // why it is not to be the jump

  runtime::HitPoint before{}, behind{};
  std::optional<uint32_t> cell;
  std::optional<uint32_t> histogram;
  std::optional<arch::Metric> metric;  // with the histogram
  Form* in_place = nullptr;            // of the two; null: the text is the program's own
  bool gone = false;

  std::vector<Attachment*> attachments;  // in the order in which they run
  Shape needed() const;                  // by what is attached and enabled
  bool allows_breakpoint() const;        // all that is attached does
  // What it takes of the text, or is to take.
  Range touched() const { return jump && !no_jump ? jump->touched() : breakpoint.touched(); }
};

// Lists that a hit may be using.
struct OwnedHandlers : runtime::HandlerList {
  std::vector<Entry> storage;
};

struct Retired {
  std::vector<std::unique_ptr<OwnedHandlers>> handlers;
  std::vector<std::unique_ptr<runtime::ReturnList>> returns;
  std::vector<std::unique_ptr<Attachment>> attachments;
  bool empty() const { return handlers.empty() && returns.empty() && attachments.empty(); }
};

}  // namespace pinprick::library
