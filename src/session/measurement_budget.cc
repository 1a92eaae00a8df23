// A budget for what the probes add to their process (docs/budget.md).
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "ledger/turn.h"
#include "session/left_over.h"
#include "session/matching.h"
#include "session/measurement.h"

namespace pinprick::session {

void Measurement::keep_budget() {
  const BudgetKeeper::Change change = budget_->keep(engine_, monotonic_ns());
  if (change.back) listener_->budget_changed(process_, *change.back);
  if (change.out) listener_->budget_changed(process_, *change.out);
  if (!change.may_come_back.empty()) bring_back(change.may_come_back);
}

void Measurement::bring_back(const std::set<MatchKey>& wanted) {
  const uint64_t cost_ns = arm_again(wanted);
  const auto back = budget_->note_back(engine_, wanted, cost_ns, monotonic_ns());
  if (back) listener_->budget_changed(process_, *back);
}

// As a batch of its own, like what is loaded. The removed probes stay what they are, with their
// figures. What fails now is tried again after a longer pause. Returns what it has cost the
// process: the time for which it stood still, and that in which one of its threads has mapped
// memory, which is touched for the first time then.
uint64_t Measurement::arm_again(const std::set<MatchKey>& wanted) {
  constexpr uint64_t kMappingNs = 300'000;
  const auto turn = ledger::Turn::take(process_.pid);
  if (!turn) return 0;
  auto subject = look_at(target(), *store_);
  if (!subject) return 0;
  image::ProcessImage& now = *subject->image;
  const uint64_t retired_ns = retire_gone(now);
  // Each has a file, and mappings of its own in the process, as long as one of its probes is in.
  constexpr size_t kMostBatches = 50;
  if (budget_->batches_brought_back() >= kMostBatches) return retired_ns;
  const auto has_wanted = [&](const image::Object& object) {
    return std::any_of(wanted.begin(), wanted.end(), [&](const MatchKey& key) {
      return key.bias == object.bias() && key.path == object.path();
    });
  };
  auto matches = match_loaded(now, spec_->selection, has_wanted);
  std::erase_if(matches, [&](const image::Match& match) {
    return !wanted.contains(
        {match.pattern, match.object->path(), match.object->bias(), match.site});
  });
  if (matches.empty()) return retired_ns;
  if (has_left_over_) static_cast<void>(take_out_left_overs(process_.pid, *store_));
  auto set = plan_loaded(now, std::move(matches), *spec_);
  set.may_unwind_elsewhere = false;  // the listener knows
  if (!target().same_image()) return retired_ns;
  auto batch = arm(std::move(subject->image), std::move(set));
  if (!batch) {
    has_left_over_ = true;
    return retired_ns + kMappingNs;
  }
  const engine::ArmReport& report = (*batch)->session.report();
  const uint64_t cost_ns = retired_ns + report.stopped_ns + kMappingNs;
  if (report.armed == 0) {
    engine_.batches().pop_back();
    return cost_ns;
  }
  forget_unprobed(**batch, {});
  admit_callers();
  return cost_ns;
}

}  // namespace pinprick::session
