// What one session is to arm, as data: the probe set, what has become of each of its patches, and
// which patches depend on each other.
//
// One thread at a time fills and changes it, while it holds the process's turn. While stubs are
// built, each thread reads the data of the patches of its own piece. One thread at a time takes
// over the finished pieces, and drops patches (stub_building.h). Nothing here touches the process,
// and nothing can fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/address.h"
#include "engine/owners/shared_sites.h"
#include "layout/session_file.h"
#include "placement/probe_set.h"
#include "plan/tactic.h"

namespace pinprick::engine {

// There may be millions.
struct PatchState {
  static constexpr uint32_t kMostSites = INT32_MAX;  // more than there is memory for
  uint32_t site : 31 = 0;     // the index of its SiteEntry; that of its trampoline, where it has
                              // one, is the next
  uint32_t is_armed : 1 = 0;  // 0: dropped, or not yet
};
static_assert(sizeof(PatchState) == 4);

// What few patches have is kept apart, by the patch's number.
struct ArmingPlan {
  explicit ArmingPlan(placement::ProbeSet planned, layout::Gap gaps = layout::Gap::none);

  placement::ProbeSet set;
  // Which gaps are recorded, for a set with one probe that times calls, or with one span.
  layout::Gap gap = layout::Gap::none;
  std::vector<PatchState> states;                 // of set.patches
  std::vector<placement::Skipped> left_out;       // probes that were dropped, and why
  std::map<size_t, Position> shared;              // at sites that other sessions have, too
  std::map<size_t, plan::Reason> in_the_way;      // cannot be where others' are
  std::vector<uint32_t> with_trampoline;          // ascending, as the next two
  std::vector<uint32_t> dependents;               // rely on another one
  std::vector<uint32_t> ends;                     // have an end of calls
  std::vector<uint32_t> puns;                     // lead to memory of our own
  std::map<size_t, std::vector<uint8_t>> hidden;  // trampolines in its window, from its site
  bool times_by_exits = false;                    // some calls are timed in this way

  bool times() const { return times_; }
  bool only_times() const { return times_ && !does_more_; }
  // Does the patch time calls, or end them?
  bool times_at(size_t patch) const;
  bool has_spans() const { return !set.spans.empty(); }
  // How many words a thread's entry has room for: starts of spans, and of the gap; and the time
  // that calls account for.
  uint64_t thread_words() const {
    return set.spans.size() + (gap == layout::Gap::thread ? 1 : 0) +
           (set.actions.tell_self_times() ? 1 : 0);
  }
  // Times calls, records values or events, counts by keys, or has spans.
  bool needs_runtime() const { return needs_runtime_; }
  bool uses_keys() const { return uses_keys_; }
  bool records_events() const { return records_events_; }
  // May calls keep arguments for their return?
  bool keeps_values() const { return keeps_values_; }
  // Returns where a probe records (layout::Session::cells_of_probes). Known once note_cells() was
  // called.
  uint32_t cell_of(size_t probe) const {
    return cells_.empty() ? static_cast<uint32_t>(probe) : cells_[probe];
  }
  // By probe; empty if each has the cell of its own number.
  const std::vector<uint32_t>& cells() const { return cells_; }
  uint64_t counters() const { return counters_; }
  // Of probes. Those of spans follow, and then that of the gap.
  uint64_t histograms() const { return histograms_; }

  bool is_hook(size_t patch, placement::Hook::Kind kind) const;
  bool serves_unwinding(size_t patch) const;
  bool has_hook(placement::Hook::Kind kind) const;
  layout::SiteEntry::Link kind_of_link(size_t patch) const;
  // Returns where the stub's link leads at first, or 0 if nowhere yet; nullopt if it has no link.
  std::optional<Address> link_of(size_t patch) const;

  // Has calls timed by slots if one of their ends cannot be placed, or if the set has gaps. Calls
  // that can have no slot are not timed then. Must be called once it is known what is in the way.
  void choose_slots_or_exits();
  // Notes which patch depends on which. Must be called once the set of patches is final.
  void note_dependencies();
  // Gives each probe its cell. Must be called once the order of the probes is final.
  void note_cells();
  void arm_all();
  bool is_armed(size_t patch) const { return states[patch].is_armed != 0; }
  // Leaves the patch out, and notes the reason for its probes. Does nothing and returns false if it
  // was left out before.
  bool drop(size_t patch, plan::Reason reason);
  // Leaves out a hook that is not needed, without a reason.
  void leave_out(size_t patch) { states[patch].is_armed = 0; }

 private:
  bool times_ = false, does_more_ = false, needs_runtime_ = false, uses_keys_ = false,
       records_events_ = false, keeps_values_ = false;
  std::vector<uint32_t> cells_;
  uint64_t counters_ = 0, histograms_ = 0;
};

}  // namespace pinprick::engine
