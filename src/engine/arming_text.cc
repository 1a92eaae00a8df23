// Arming: what is written into the text, all or nothing where patches depend on each other.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/task.h"
#include "engine/arming.h"

namespace pinprick::engine {

using target::AttachCause;

// Of the patch's site, or of its trampoline, which come after each other.
patch::TextEdit Arming::edit_of(size_t patch, size_t site) const {
  const auto& journal = session_.journal_;
  const auto shared = plan_.shared.find(patch);
  if (shared == plan_.shared.end()) return patch::arming(journal.sites[site]);
  // write_jumps() has seen that there is one.
  if (&head_of(journal, journal.sites[site]) == &journal.sites[site])
    return OtherSites::arming(journal.sites[site], shared->second).value();
  patch::TextEdit there_already = patch::arming(journal.sites[site]);
  std::copy(std::begin(there_already.after), std::end(there_already.after), there_already.before);
  return there_already;
}

Arming::Edits Arming::edits() const {
  Edits all;
  all.edits.reserve(set_.patches.size() + plan_.with_trampoline.size());
  all.patch_of.reserve(all.edits.capacity());
  const auto add = [&](size_t patch, const patch::TextEdit& edit) {
    all.edits.push_back(edit);
    all.patch_of.push_back(static_cast<uint32_t>(patch));
  };
  for (size_t i = 0; i < set_.patches.size(); ++i) {
    if (!plan_.is_armed(i)) continue;
    add(i, edit_of(i, site_of(i)));
    if (set_.patches[i].plan.trampoline) add(i, edit_of(i, site_of(i) + 1));
  }
  all.order = patch::WritingOrder(all.edits, patch::Order::phases_upward);
  return all;
}

// Patches of which others are a part, or that are part of others, where the text is not as it was
// when they were planned: of those, all is written or nothing. An edit that stands alone finds out
// when it is written.
bool Arming::drop_changed(const Edits& all) {
  const auto together = patches_that_hang_together(plan_);
  if (together.empty()) return false;
  std::vector<patch::TextEdit> some;
  std::vector<size_t> patch_of;
  for (size_t e = 0; e < all.edits.size(); ++e) {
    if (!together[all.patch_of[e]]) continue;
    some.push_back(all.edits[e]);
    patch_of.push_back(all.patch_of[e]);
  }
  const auto held = patch::examine(target().memory(), some);
  bool is_any = false;
  for (size_t e = 0; e < some.size(); ++e)
    if (held[e] != patch::EditOutcome::written)
      is_any = plan_.drop(patch_of[e], plan::Reason::text_changed) || is_any;
  return is_any;
}

// After a drop: what is to be written no longer has those.
void Arming::keep_armed(Edits& all) const {
  size_t kept = 0;
  for (size_t e = 0; e < all.edits.size(); ++e) {
    if (!plan_.is_armed(all.patch_of[e])) continue;
    all.edits[kept] = all.edits[e];
    all.patch_of[kept++] = all.patch_of[e];
  }
  all.edits.resize(kept);
  all.patch_of.resize(kept);
  all.order = patch::WritingOrder(all.edits, patch::Order::phases_upward);
}

// From here on the file has to be believed: whatever a site holds, it is one of the two.
Result<void, ledger::SessionError> Arming::announce_text() {
  drop_what_needs_hooks(plan_, counting());
  drop_dependents(plan_);
  std::erase_if(interiors_, [&](const patch::Interior& one) { return !plan_.is_armed(one.edit); });
  journal().header.state = layout::SessionState::armed;
  for (const auto& written :
       {file().write_tables(journal()), file().write_header(journal().header)})
    if (!written) return fail(ledger::SessionError(written.error()));
  return {};
}

Result<void, ledger::SessionError> Arming::write_text() {
  check_cancelled();
  const Task::Scope to_the_end(nullptr);
  if (auto announced = announce_text(); !announced) return announced;
  Edits edits = this->edits();
  const auto foreign = patch::foreign_breakpoints(*session_.image_, target().memory(), edits.edits);
  image::MappingLookup mappings(target().pid());
  constexpr int kAttempts = 20;
  for (int attempt = 1;; ++attempt) {
    auto outcome = try_to_write_text(edits, mappings, foreign, attempt == kAttempts);
    if (!outcome) return fail(outcome.error());
    switch (*outcome) {
      case TextStop::written:
        return note_left_out();
      case TextStop::thread_in_hook:
        sleep_ns(1'000'000);
        break;
      case TextStop::other_rseq:
        if (auto built = build_locked(); !built) return built;
        edits = this->edits();
        break;
    }
  }
}

// Stubs that lock, in place of those that rely on a restartable sequence: nobody has come to one
// yet, as no jump leads there.
Result<void, ledger::SessionError> Arming::build_locked() {
  rseq_.reset();
  note_rseq();
  forget_stubs();
  if (auto written = write_stubs(); !written) return written;
  return announce_text();
}

// What such a site holds is not ours, nor anybody's who came after us.
Result<void, ledger::SessionError> Arming::note_left_out() {
  bool is_any = false;
  for (size_t i = 0; i < set_.patches.size(); ++i) {
    if (plan_.is_armed(i)) continue;
    is_any = true;
    const size_t own = set_.patches[i].plan.trampoline ? 2 : 1;
    for (size_t site = site_of(i); site < site_of(i) + own; ++site)
      journal().sites[site].phase = layout::SiteEntry::Phase::left_out;
  }
  if (!is_any) return {};
  if (auto written = file().write_tables(journal()); !written)
    return fail(ledger::SessionError(written.error()));
  return {};
}

Result<void, ledger::SessionError> Arming::note_tid_offset(target::Stop& stop) {
  const auto offset = find_tid_offset(stop, target());
  if (!offset) return fail(ledger::SessionError(attach_error(AttachCause::no_thread_ids)));
  const Address at = session_.runtime_->context() + offsetof(layout::RuntimeContext, tid_offset);
  if (auto written = target().memory().write_value(at, *offset); !written)
    return fail(
        ledger::SessionError(attach_error(AttachCause::memory_refused, written.error().number)));
  return {};
}

// Everything that can be known before has been: what is left to do while the process stands still
// is to look where its threads are, and to write.
Result<Arming::TextStop, ledger::SessionError> Arming::try_to_write_text(
    Edits& edits, image::MappingLookup& mappings, std::span<const Address> foreign,
    bool last_attempt) {
  auto stopped = target::Stop::all_threads(target().pid());
  if (!stopped) return fail(ledger::SessionError(stopped.error()));
  target::Stop stop = *std::move(stopped);
  const auto let_go = [&] { session_.report_.stopped_ns += std::move(stop).resume(); };
  if (!target().same_image())
    return fail(ledger::SessionError(attach_error(AttachCause::exec_during_attach)));
  if (rseq_ && !all_have_rseq(stop, *rseq_)) {
    let_go();
    return TextStop::other_rseq;
  }
  if (has_spans())
    if (auto noted = note_tid_offset(stop); !noted) return fail(noted.error());
  const auto busy = patch::clear_interiors(stop, target().memory(), mappings, interiors_);
  const auto is_in_hook = [&](size_t patch) { return set_.patches[patch].hook.has_value(); };
  if (!last_attempt && std::any_of(busy.begin(), busy.end(), is_in_hook)) {
    let_go();
    return TextStop::thread_in_hook;
  }
  bool is_less_armed = false;
  for (size_t patch : busy)
    is_less_armed = plan_.drop(patch, plan::Reason::thread_inside) || is_less_armed;
  is_less_armed = drop_changed(edits) || is_less_armed;
  if (is_less_armed) {
    drop_what_needs_hooks(plan_, counting());
    drop_dependents(plan_);
    keep_armed(edits);
  }
  const auto outcomes = patch::apply(stop, target().memory(), edits.edits, edits.order, foreign);
  let_go();
  if (!outcomes)
    return fail(
        ledger::SessionError(attach_error(AttachCause::memory_refused, outcomes.error().number)));
  for (size_t e = 0; e < outcomes->size(); ++e)
    if ((*outcomes)[e] != patch::EditOutcome::written)
      plan_.drop(edits.patch_of[e], plan::Reason::text_changed);
  return TextStop::written;
}

}  // namespace pinprick::engine
