// Plans the probes in one function, before those of different functions are put together.
//
// Pure, but for what the object reads; one thread for each object.
#pragma once

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/address.h"
#include "image/match.h"
#include "placement/exits.h"
#include "placement/probe_set.h"
#include "plan/planner.h"

namespace pinprick::placement {

// An instruction that is to have a probe.
struct ProbeRequest {
  Address site = 0;     // in the object's own addresses
  size_t match = 0;     // index into the function's matches
  uint32_t action = 0;  // its number (action::Actions)
  bool at_entry = false;
  bool after_call = false;  // timed from after a call of __fentry__ (return_site())
};

// The instructions that were seen, for functions that are nested: an instruction belongs to the
// first function that has it.
class SeenSites {
 public:
  // To be called once for each function, by address. `next` is the one after it, if any.
  void enter(const image::Match& match, const image::Match* next) {
    const Range range = range_of(match);
    if (range.begin >= end_) seen_.clear();
    const bool inside = range.begin < end_;
    end_ = std::max(end_, range.end);
    counts_ = inside || (next != nullptr && range_of(*next).begin < end_);
  }
  bool is_new(Address address, uint32_t action = 0) {
    return !counts_ || seen_.emplace(address, action).second;
  }

  static Range range_of(const image::Match& match) {
    const Range own = match.function->range;
    return {own.begin + match.object->bias(), own.end + match.object->bias()};
  }

 private:
  std::set<std::pair<Address, uint32_t>> seen_;  // with the action
  Address end_ = 0;
  bool counts_ = false;
};

// Plans the probes in one function.
class FunctionProbes {
 public:
  // `first` is the index of the first of the matches among all. `callers` has looked at the
  // function, if calls are to be timed by slots, and `parts` are those of its object, if they may
  // be timed by exits.
  FunctionProbes(std::span<const image::Match> matches, size_t first,
                 const action::Actions& actions, const CallerUse* callers, Ends ends,
                 const FunctionParts* parts, ProbeSet& set)
      : matches_(matches),
        first_(first),
        actions_(actions),
        callers_(callers),
        ends_(ends),
        parts_(parts),
        set_(set) {}

  void plan(SeenSites& seen);

 private:
  const action::Action& action_of(const ProbeRequest& one) const {
    return actions_.all()[one.action];
  }
  bool is_timed(const ProbeRequest& one) const { return action_of(one).times_call(); }
  std::optional<plan::Refusal> why_none(const action::Action& action) const;
  bool may_have_exits(plan::Reason no_slot) const;
  std::optional<plan::Refusal> why_no_slot_here() const;
  void leave_out_other_conditions(std::vector<ProbeRequest>& all);
  void leave_out_more_kept(std::vector<ProbeRequest>& all);
  std::optional<plan::Reason> why_not_timed(const ProbeRequest& wanted) const;
  void leave_out_timed(std::vector<ProbeRequest>& all, const plan::Refusal& why);
  void skip(const ProbeRequest& wanted, const plan::Refusal& refusal);
  void skip(const image::Match& match, plan::Refusal refusal);
  std::vector<ProbeRequest> wanted(SeenSites& seen) const;
  void place_timed(std::vector<ProbeRequest> all);
  void place(std::span<const ProbeRequest> all, plan::Placing placing);
  std::optional<plan::Reason> place_with_exits(std::span<const ProbeRequest> all,
                                               CallTiming timing);
  void add_patches(const plan::FunctionPlan& plan, std::span<const ProbeRequest> all);
  static std::span<const ProbeRequest> requests_at(std::span<const ProbeRequest> all, Address site);
  bool has_sleds() const;

  std::span<const image::Match> matches_;
  size_t first_;
  const action::Actions& actions_;
  const CallerUse* callers_;
  Ends ends_;
  const FunctionParts* parts_;
  ProbeSet& set_;
  plan::FunctionCode code_;
  Entered entered_ = Entered::by_jump;
};

}  // namespace pinprick::placement
