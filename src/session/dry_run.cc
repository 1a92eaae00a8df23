#include "session/dry_run.h"

#include <utility>

#include "target/hijacked_thread.h"

namespace pinprick::session {

Result<DryRun, MeasurementError> dry_run(pid_t pid, const MeasurementSpec& spec,
                                         image::ObjectStore& store) {
  if (auto able = target::can_be_hijacked(pid); !able)
    return fail(MeasurementError(ledger::SessionError(able.error())));
  auto target = open_target(pid);
  if (!target) return fail(MeasurementError(target.error()));
  auto subject = look_at(*target, store);
  if (!subject) return fail(MeasurementError(subject.error()));
  auto set = plan(*subject, spec);
  if (!set) return fail(set.error());
  DryRun run;
  run.process = {pid, target->command()};
  run.functions = set->spans.empty() ? set->probes.size() : set->spans.size();
  for (const placement::SitePatch& patch : set->patches)
    if (patch.probes.size() != 0) ++run.by_tactic[patch.plan.patch.tactic];
  run.skipped = std::move(set->skipped);
  run.may_unwind_elsewhere = set->may_unwind_elsewhere && run.functions != 0;
  run.image = std::move(subject->image);
  return run;
}

}  // namespace pinprick::session
