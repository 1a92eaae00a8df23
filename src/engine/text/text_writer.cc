#include "engine/text/text_writer.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include "engine/calls/thread_ids.h"
#include "engine/failures.h"
#include "engine/memory/rseq_areas.h"
#include "engine/owners/shared_sites.h"
#include "engine/text/point_sites.h"
#include "engine/text/semaphores.h"
#include "patch/text_owner.h"
#include "runtime/image.h"

namespace pinprick::engine {

using target::AttachCause;

void TextWriter::drop_what_lacks_something() {
  drop_what_needs_hooks(parts_.plan, counting());
  drop_dependents(parts_.plan);
}

// From here on the file must be right: a site holds either its original bytes or the jump.
Result<void, ledger::SessionError> TextWriter::announce(std::vector<patch::Boundary> boundaries,
                                                        std::optional<arch::RseqArea> rseq) {
  boundaries_ = std::move(boundaries);
  rseq_ = rseq;
  drop_what_lacks_something();
  std::erase_if(boundaries_,
                [&](const patch::Boundary& one) { return !parts_.plan.is_armed(one.edit); });
  mark_left_out();
  parts_.journal.header.state = layout::SessionState::armed;
  if (auto tables = noted(parts_.file.write_tables(parts_.journal)); !tables) return tables;
  if (auto header = noted(parts_.file.write_header(parts_.journal.header)); !header) return header;
  const auto is_left = leave_to_program();
  if (!is_left) return fail(is_left.error());
  // From here on the program changes none of these bytes.
  const target::RemoteTarget& target = parts_.target;
  const auto others = std::make_shared<const OtherSites>(
      OtherSites::find(target.pid(), target.memory(), parts_.file.path()));
  const auto changed = patches_of_changed_text(parts_.plan, reader_without_jumps(others, target));
  drop_functions_of(parts_.plan, changed);
  if (changed.empty() && !*is_left) return {};
  drop_what_lacks_something();
  std::erase_if(boundaries_,
                [&](const patch::Boundary& one) { return !parts_.plan.is_armed(one.edit); });
  return note_left_out();
}

// The program looks at the file as we look at its table, and each does so after it has said what it
// takes (patch/text_owner.h).
Result<bool, ledger::SessionError> TextWriter::leave_to_program() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const auto refuse = [&](AttachCause cause) { return fail(refuse_beside(cause).error()); };
  const auto maps = image::read_maps(parts_.target.pid());
  if (!maps) return fail(attach_failure(parts_.target.pid(), AttachCause::exited).error);
  const auto program = patch::OwnProbes::read(parts_.target.memory(), *maps);
  if (!program.is_there()) return false;
  if (program.is_closed()) return refuse(AttachCause::probes_itself);
  if (!parts_.image.probes_itself) return refuse(AttachCause::probes_itself_now);
  ArmingPlan& plan = parts_.plan;
  bool is_any = false;
  for (size_t i = 0; i < plan.set.patches.size(); ++i) {
    if (!plan.is_armed(i)) continue;
    const size_t own = plan.set.patches[i].plan.trampoline ? 2 : 1;
    const auto sites = std::span(parts_.journal.sites).subspan(plan.states[i].site, own);
    const bool is_needed = std::any_of(sites.begin(), sites.end(), [&](const auto& site) {
      return program.needs_any_of(
          {site.address, site.address + std::max<uint64_t>(site.length, site.displaced)});
    });
    is_any = (is_needed && plan.drop(i, plan::Reason::probed_by_program)) || is_any;
  }
  return drop_points_probed_by(program, plan, parts_.journal) || is_any;
}

// The plan may rest on bytes that the program has written, and has taken out since. No text was
// written yet, so the file must not have any restored.
Result<void, ledger::SessionError> TextWriter::refuse_beside(AttachCause cause) {
  parts_.journal.header.state = layout::SessionState::preparing;
  if (auto header = noted(parts_.file.write_header(parts_.journal.header)); !header) return header;
  return attach_failure(parts_.target.pid(), cause);
}

void TextWriter::prepare_edits() {
  edits_ = arming_edits(parts_.plan, parts_.journal);
}

void TextWriter::prepare_stop() {
  foreign_ = patch::foreign_breakpoints(parts_.image, parts_.target.memory(), edits_.edits);
  mappings_.emplace(parts_.target.pid());
  if (reads_) obstacle_ = obstacle_while_running(parts_.target.pid());
}

bool TextWriter::drop_where_threads_are(const std::vector<size_t>& busy) {
  bool is_any = false;
  for (size_t patch : busy) is_any = parts_.plan.drop(patch, plan::Reason::thread_inside) || is_any;
  return is_any;
}

// Patches that others need, of which others are a part, or that are part of others, where the text
// is not as it was when they were planned: of those, all is written or nothing. An edit that stands
// alone finds out when it is written.
bool TextWriter::drop_changed() {
  const auto together = patches_that_hang_together(parts_.plan);
  std::vector<patch::TextEdit> some;
  std::vector<size_t> patch_of;
  for (size_t e = 0; e < edits_.edits.size(); ++e) {
    if (!together[edits_.patch_of[e]]) continue;
    some.push_back(edits_.edits[e]);
    patch_of.push_back(edits_.patch_of[e]);
  }
  const auto held = patch::examine(parts_.target.memory(), some);
  std::vector<size_t> changed;
  for (size_t e = 0; e < some.size(); ++e)
    if (held[e] != patch::EditOutcome::written) changed.push_back(patch_of[e]);
  drop_functions_of(parts_.plan, changed);
  return !changed.empty();
}

Result<void, ledger::SessionError> TextWriter::note_tid_offset(target::Stop& stop) const {
  const pid_t pid = parts_.target.pid();
  const auto offset = find_tid_offset(stop, parts_.target);
  const bool are_found = runtime::thread_pointer_here() != runtime::ThreadPointer::in_memory ||
                         all_have_control_blocks(stop, parts_.target);
  if (!offset || !are_found) {
    if (tid_offset_->use == TidOffset::Use::to_tell) return {};
    return attach_failure(pid, AttachCause::no_thread_ids);
  }
  if (auto written = parts_.target.memory().write_value(tid_offset_->at, *offset); !written)
    return memory_failure(pid, written.error());
  return {};
}

// Everything that can be known before has been: what is left to do while the process stands still
// is to look where its threads are, and to write.
Result<TextStop, ledger::SessionError> TextWriter::try_to_write(Attempt attempt) {
  auto stopped = target::Stop::all_threads(parts_.target.pid());
  if (!stopped) return fail(ledger::SessionError(stopped.error()));
  target::Stop stop = *std::move(stopped);
  if (!parts_.target.same_image())
    return attach_failure(parts_.target.pid(), parts_.target.why_gone());
  if (rseq_ && !all_have_rseq(stop, *rseq_)) {
    let_go(std::move(stop));
    return TextStop::other_rseq;
  }
  if (tid_offset_)
    if (auto done = note_tid_offset(stop); !done) return fail(done.error());
  const auto busy = patch::clear_boundaries(stop, parts_.target.memory(), *mappings_, boundaries_);
  const auto is_in_hook = [&](size_t patch) {
    return parts_.plan.set.patches[patch].hook.has_value();
  };
  if (attempt != Attempt::last && std::any_of(busy.begin(), busy.end(), is_in_hook)) {
    let_go(std::move(stop));
    return TextStop::thread_in_hook;
  }
  const bool is_inside = drop_where_threads_are(busy);
  const bool is_held = drop_changed_points(parts_.plan, parts_.journal, parts_.target.memory());
  if (drop_changed() || is_inside || is_held) {
    drop_what_lacks_something();
    edits_.keep_armed(parts_.plan);
  }
  if (auto written = write(std::move(stop)); !written) return fail(written.error());
  return TextStop::written;
}

Result<void, ledger::SessionError> TextWriter::write(target::Stop stop) {
  if (reads_)
    if (auto noted = allow_reads(stop); !noted) return noted;
  const auto done = apply_edits(stop);
  auto raised = done ? raise_semaphores(parts_.target, parts_.file, parts_.journal, parts_.plan)
                     : Result<void, ledger::SessionError>();
  let_go(std::move(stop));
  if (!done) return memory_failure(parts_.target.pid(), done.error());
  if (auto looked = look_again_at_reads(); !looked) return looked;
  return raised;
}

Range function_at(const placement::SitePatch& patch) {
  const auto& all = patch.object->functions().functions();
  const Address bias = patch.object->bias();
  const auto above = std::upper_bound(
      all.begin(), all.end(), patch.site() - bias,
      [](Address at, const image::Function& function) { return at < function.range.begin; });
  if (above == all.begin()) return {};
  return {std::prev(above)->range.begin + bias, std::prev(above)->limit + bias};
}

// The runtime's code lies after its context.
constexpr uint64_t kCodeAfterReads =
    sizeof(layout::RuntimeContext) - offsetof(layout::RuntimeContext, reads);

// The hooks are written in this stop. A thread that stands in a hooked function may be past its
// hook. Many do: they wait there, for other threads or for a device.
Result<void, ledger::SessionError> TextWriter::allow_reads(target::Stop& stop) {
  const ArmingPlan& plan = parts_.plan;
  bool is_watched = plan.set.watches_filters;
  for (size_t i = 0; i < plan.set.patches.size() && is_watched; ++i) {
    if (!plan.is_hook(i, placement::Hook::Kind::filter)) continue;
    const Range function = function_at(plan.set.patches[i]);
    is_watched =
        plan.is_armed(i) && std::none_of(stop.threads().begin(), stop.threads().end(),
                                         [&](const target::StoppedThread& thread) {
                                           return function.contains(thread.instruction_pointer()) &&
                                                  !is_in_harmless_call(thread);
                                         });
  }
  if (obstacle_ != ReadObstacle::none) return {};
  obstacle_ =
      is_watched ? obstacle_in_threads(stop, *reads_ + kCodeAfterReads) : ReadObstacle::unwatched;
  if (obstacle_ != ReadObstacle::none) return {};
  if (auto written = parts_.target.memory().write_value(*reads_, uint64_t{1}); !written)
    return memory_failure(parts_.target.pid(), written.error());
  return {};
}

// What came after the look before the stop, and before the hooks, is seen now. What comes later
// goes through the hooks.
Result<void, ledger::SessionError> TextWriter::look_again_at_reads() {
  if (!reads_ || obstacle_ != ReadObstacle::none) return {};
  obstacle_ = obstacle_while_running(parts_.target.pid());
  if (obstacle_ == ReadObstacle::none) return {};
  if (auto written = parts_.target.memory().write_value(*reads_, uint64_t{0}); !written)
    return memory_failure(parts_.target.pid(), written.error());
  return {};
}

// An edit that cannot be made takes back what was written for the same functions. No thread has
// executed that, as all are stopped.
Result<void, SystemError> TextWriter::apply_edits(const target::Stop& stop) {
  const target::Memory& memory = parts_.target.memory();
  const auto outcomes = patch::apply(stop, memory, edits_.edits, edits_.order, foreign_);
  if (!outcomes) return fail(outcomes.error());
  std::vector<size_t> changed;
  for (size_t e = 0; e < outcomes->size(); ++e)
    if ((*outcomes)[e] != patch::EditOutcome::written) changed.push_back(edits_.patch_of[e]);
  if (changed.empty()) return {};
  drop_functions_of(parts_.plan, changed);
  drop_what_lacks_something();
  const auto back = taking_back(edits_, *outcomes, parts_.plan);
  const patch::WritingOrder order(back, patch::PhaseOrder::downward);
  if (auto undone = patch::apply(stop, memory, back, order, foreign_); !undone)
    return fail(undone.error());
  return {};
}

// What such a site holds is neither ours nor a later owner's. Stubs may be built again for
// all patches, so the phases of those that were left out before are put back first.
bool TextWriter::mark_left_out() {
  for (const auto& [site, phase] : left_out_) parts_.journal.sites[site].phase = phase;
  left_out_.clear();
  const ArmingPlan& plan = parts_.plan;
  for (size_t i = 0; i < plan.set.patches.size(); ++i) {
    if (plan.is_armed(i)) continue;
    const size_t own = plan.set.patches[i].plan.trampoline ? 2 : 1;
    const size_t first = plan.states[i].site;
    for (size_t site = first; site < first + own; ++site) {
      layout::SiteEntry& entry = parts_.journal.sites[site];
      const layout::SiteEntry::Phase phase = entry.phase;  // nothing can refer to a bit field
      left_out_.emplace_back(site, phase);
      entry.phase = layout::SiteEntry::Phase::left_out;
    }
  }
  return !left_out_.empty();
}

Result<void, ledger::SessionError> TextWriter::note_left_out() {
  if (!mark_left_out()) return {};
  return noted(parts_.file.write_tables(parts_.journal));
}

}  // namespace pinprick::engine
