// Arming: what is written into the text, all or nothing where patches depend on each other.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/task.h"
#include "engine/arming.h"

namespace pinprick::engine {

using target::AttachCause;

void Arming::drop(size_t patch, plan::Reason reason) {
  if (!armed_[patch]) return;
  armed_[patch] = false;
  is_less_armed_ = true;
  for (size_t i : set_.patches[patch].probes) {
    const placement::Probe& probe = set_.probes[i];
    session_.report_.skipped.push_back(
        {set_.match_of(probe), {reason, set_.patches[patch].plan.patch.site + probe.offset}});
  }
}

// A slot's address must not be on a stack whose unwinder has not been told of slots. Where nothing
// is timed the hooks are for those who unwind from within a stub. And a child that is not marked
// must not count on a CPU.
void Arming::drop_what_needs_hooks() {
  const auto is_needed = [&](size_t i) {
    return is_hook(i, placement::Hook::Kind::vfork) ? rseq_.has_value()
                                                    : times() && serves_unwinding(i);
  };
  for (size_t i = 0; i < set_.patches.size(); ++i)
    if (!armed_[i] && is_needed(i))
      for (size_t j = 0; j < set_.patches.size(); ++j) drop(j, plan::Reason::thread_inside);
}

// What lies in the window of a patch, or ends in its jump, must not be written without that patch.
void Arming::drop_dependents() {
  for (size_t i : dependents_)
    if (!armed_[*set_.patches[i].plan.depends_on]) drop(i, plan::Reason::thread_inside);
}

// Of the patch's site, or of its trampoline, which come after each other.
patch::TextEdit Arming::edit_of(size_t patch, size_t site) const {
  const auto& journal = session_.journal_;
  const auto shared = shared_.find(patch);
  if (shared == shared_.end()) return patch::arming(journal.sites[site]);
  // write_jumps() has seen that there is one.
  if (&head_of(journal, journal.sites[site]) == &journal.sites[site])
    return OtherSites::arming(journal.sites[site], shared->second).value();
  patch::TextEdit there_already = patch::arming(journal.sites[site]);
  std::copy(std::begin(there_already.after), std::end(there_already.after), there_already.before);
  return there_already;
}

Arming::Edits Arming::edits() const {
  Edits all;
  all.edits.reserve(set_.patches.size() + with_trampoline_.size());
  all.patch_of.reserve(all.edits.capacity());
  const auto add = [&](size_t patch, const patch::TextEdit& edit) {
    all.edits.push_back(edit);
    all.patch_of.push_back(static_cast<uint32_t>(patch));
  };
  for (size_t i = 0; i < set_.patches.size(); ++i) {
    if (!armed_[i]) continue;
    add(i, edit_of(i, site_[i]));
    if (set_.patches[i].plan.trampoline) add(i, edit_of(i, site_[i] + 1));
  }
  all.order = patch::WritingOrder(all.edits, patch::Order::phases_upward);
  return all;
}

// Patches of which others are a part, or that are part of others, where the text is not as it was
// when they were planned: of those, all is written or nothing. An edit that stands alone finds out
// when it is written.
void Arming::drop_changed(const Edits& all) {
  if (with_trampoline_.empty() && dependents_.empty()) return;
  std::vector<bool> shared(set_.patches.size());
  for (size_t i : with_trampoline_) shared[i] = true;
  for (size_t i : dependents_) shared[i] = shared[*set_.patches[i].plan.depends_on] = true;
  std::vector<patch::TextEdit> some;
  std::vector<size_t> patch_of;
  for (size_t e = 0; e < all.edits.size(); ++e) {
    if (!shared[all.patch_of[e]]) continue;
    some.push_back(all.edits[e]);
    patch_of.push_back(all.patch_of[e]);
  }
  const auto held = patch::examine(target().memory(), some);
  for (size_t e = 0; e < some.size(); ++e)
    if (held[e] != patch::EditOutcome::written) drop(patch_of[e], plan::Reason::text_changed);
}

// After a drop: what is to be written no longer has those.
void Arming::keep_armed(Edits& all) const {
  size_t kept = 0;
  for (size_t e = 0; e < all.edits.size(); ++e) {
    if (!armed_[all.patch_of[e]]) continue;
    all.edits[kept] = all.edits[e];
    all.patch_of[kept++] = all.patch_of[e];
  }
  all.edits.resize(kept);
  all.patch_of.resize(kept);
  all.order = patch::WritingOrder(all.edits, patch::Order::phases_upward);
}

// From here on the file has to be believed: whatever a site holds, it is one of the two.
Result<void, ledger::SessionError> Arming::announce_text() {
  drop_what_needs_hooks();
  drop_dependents();
  std::erase_if(interiors_, [&](const patch::Interior& one) { return !armed_[one.edit]; });
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
    if (armed_[i]) continue;
    is_any = true;
    const size_t own = set_.patches[i].plan.trampoline ? 2 : 1;
    for (size_t site = site_[i]; site < site_[i] + own; ++site)
      journal().sites[site].phase = layout::SiteEntry::Phase::left_out;
  }
  if (!is_any) return {};
  if (auto written = file().write_tables(journal()); !written)
    return fail(ledger::SessionError(written.error()));
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
  if (rseq_ && !all_have_rseq(stop)) {
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
  is_less_armed_ = false;
  for (size_t patch : busy) drop(patch, plan::Reason::thread_inside);
  drop_changed(edits);
  if (is_less_armed_) {
    drop_what_needs_hooks();
    drop_dependents();
    keep_armed(edits);
  }
  const auto outcomes = patch::apply(stop, target().memory(), edits.edits, edits.order, foreign);
  let_go();
  if (!outcomes)
    return fail(
        ledger::SessionError(attach_error(AttachCause::memory_refused, outcomes.error().number)));
  for (size_t e = 0; e < outcomes->size(); ++e)
    if ((*outcomes)[e] != patch::EditOutcome::written)
      drop(edits.patch_of[e], plan::Reason::text_changed);
  return TextStop::written;
}

}  // namespace pinprick::engine
