// A budget for what the probes add to their process (docs/budget.md).
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "ledger/turn.h"
#include "session/matching.h"
#include "session/measurement.h"

namespace pinprick::session {

void Measurement::keep_budget() {
  const BudgetKeeper::Change change = budget_->keep(engine_, monotonic_ns());
  if (change.out) listener_->budget_changed(process_, *change.out);
  if (!change.may_come_back.empty()) bring_back(change.may_come_back);
}

void Measurement::bring_back(const std::set<MatchKey>& wanted) {
  const auto stopped_ns = arm_again(wanted);
  const auto back =
      budget_->note_back(engine_, wanted, stopped_ns ? *stopped_ns : 0, monotonic_ns());
  if (back) listener_->budget_changed(process_, *back);
}

// As a batch of its own, like what is loaded. The removed probes stay what they are, with their
// figures. Returns for how long the process was stopped.
Result<uint64_t, MeasurementError> Measurement::arm_again(const std::set<MatchKey>& wanted) {
  const auto turn = ledger::Turn::take(process_.pid);
  if (!turn) return fail(MeasurementError(turn.error()));
  auto subject = look_at(target(), *store_);
  if (!subject) return fail(MeasurementError(subject.error()));
  image::ProcessImage& now = *subject->image;
  retire_gone(now);
  // Each has a file, and mappings of its own in the process, as long as one of its probes is in.
  constexpr size_t kMostBatches = 50;
  if (budget_->batches_brought_back() >= kMostBatches) return 0;
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
  if (matches.empty()) return 0;
  auto set = plan_loaded(now, std::move(matches), *spec_);
  set.may_unwind_elsewhere = false;  // the listener knows
  if (!target().same_image()) return fail(error_of_exit());
  auto batch = arm(std::move(subject->image), std::move(set));
  if (!batch) {
    has_left_over_ = true;
    return fail(batch.error());
  }
  const uint64_t stopped_ns = (*batch)->session.report().stopped_ns;
  if ((*batch)->session.report().armed == 0) {
    engine_.batches().pop_back();
    return stopped_ns;
  }
  forget_unprobed(**batch, {});
  admit_callers();
  return stopped_ns;
}

}  // namespace pinprick::session
