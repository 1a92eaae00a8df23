// Arming: what is written into the text, all or nothing where patches depend on each other.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/task.h"
#include "session/arming.h"

namespace pinprick::session {

using target::AttachCause;

void Arming::drop(size_t patch, plan::Reason reason) {
  if (!armed_[patch]) return;
  armed_[patch] = false;
  for (size_t i : set_.patches[patch].probes) {
    const probe::Probe& probe = set_.probes[i];
    session_.report_.skipped.push_back(
        {set_.match_of(probe), {reason, set_.patches[patch].plan.patch.site + probe.offset}});
  }
}

// A slot's address must not be on a stack whose unwinder has not been told of slots. Where nothing
// is timed the hooks are for those who unwind from within a stub. And a child that is not marked
// must not count on a CPU.
void Arming::drop_what_needs_hooks() {
  const auto is_needed = [&](size_t i) {
    return is_hook(i, probe::Hook::Kind::vfork) ? rseq_.has_value()
                                                : measures() && serves_unwinding(i);
  };
  for (size_t i = 0; i < set_.patches.size(); ++i)
    if (!armed_[i] && is_needed(i))
      for (size_t j = 0; j < set_.patches.size(); ++j) drop(j, plan::Reason::thread_inside);
}

// What lies in the window of a patch, or ends in its jump, must not be written without that patch.
void Arming::drop_guests() {
  for (size_t i : guests_)
    if (!armed_[*set_.patches[i].host]) drop(i, plan::Reason::thread_inside);
}

// Once: what the pieces know is used up.
Arming::Edits Arming::edits() {
  Edits all;
  all.edits.reserve(set_.patches.size() + with_springboard_.size());
  all.patch_of.reserve(all.edits.capacity());
  size_t interior_count = 0;
  for (const StubPiece& piece : pieces_) interior_count += piece.interiors.size();
  all.interiors.reserve(interior_count);
  const auto add = [&](size_t patch, size_t site) {
    all.edits.push_back(patch::arming(session_.journal_.sites[site]));
    all.patch_of.push_back(static_cast<uint32_t>(patch));
  };
  for (StubPiece& piece : pieces_) {
    const auto interiors = std::exchange(piece.interiors, {});
    auto interior = interiors.begin();
    for (size_t i : piece.patches) {
      for (; interior != interiors.end() && interior->edit == i; ++interior)
        if (armed_[i])
          all.interiors.push_back({interior->address, interior->copy, all.edits.size()});
      if (!armed_[i]) continue;
      add(i, site_[i]);
      if (set_.patches[i].plan.springboard) add(i, site_[i] + 1);
    }
  }
  const auto by_address = [](const auto& a, const auto& b) { return a.address < b.address; };
  if (!std::is_sorted(all.interiors.begin(), all.interiors.end(), by_address))
    std::sort(all.interiors.begin(), all.interiors.end(), by_address);
  return all;
}

// Patches of which others are a part, or that are part of others, where the text is not as it was
// when they were planned: of those, all is written or nothing. An edit that stands alone finds out
// when it is written.
void Arming::drop_changed(const Edits& all) {
  if (with_springboard_.empty() && guests_.empty()) return;
  std::vector<bool> shared(set_.patches.size());
  for (size_t i : with_springboard_) shared[i] = true;
  for (size_t i : guests_) shared[i] = shared[*set_.patches[i].host] = true;
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

void Arming::keep_armed(Edits& all) const {
  all.interiors.clear();
  if (std::find(armed_.begin(), armed_.end(), false) == armed_.end()) return;
  size_t kept = 0;
  for (size_t e = 0; e < all.edits.size(); ++e) {
    if (!armed_[all.patch_of[e]]) continue;
    all.edits[kept] = all.edits[e];
    all.patch_of[kept++] = all.patch_of[e];
  }
  all.edits.resize(kept);
  all.patch_of.resize(kept);
}

Result<void, SessionError> Arming::write_text() {
  check_cancelled();
  const Task::Scope to_the_end(nullptr);
  drop_guests();
  // From here on the file has to be believed: whatever a site holds, it is one of the two.
  journal().header.state = layout::SessionState::armed;
  for (const auto& written :
       {file().write_tables(journal()), file().write_header(journal().header)})
    if (!written) return fail(SessionError(written.error()));

  Edits edits = this->edits();
  const auto foreign = patch::foreign_breakpoints(*session_.image_, target().memory(), edits.edits);
  constexpr int kAttempts = 20;
  for (int attempt = 1;; ++attempt) {
    auto written = try_to_write_text(edits, foreign, attempt == kAttempts);
    if (!written) return fail(written.error());
    if (*written) return note_left_out();
    sleep_ns(1'000'000);
  }
}

// What such a site holds is not ours, nor anybody's who came after us.
Result<void, SessionError> Arming::note_left_out() {
  bool is_any = false;
  for (size_t i = 0; i < set_.patches.size(); ++i) {
    if (armed_[i]) continue;
    is_any = true;
    const size_t own = set_.patches[i].plan.springboard ? 2 : 1;
    for (size_t site = site_[i]; site < site_[i] + own; ++site)
      journal().sites[site].phase = layout::SiteEntry::Phase::left_out;
  }
  if (!is_any) return {};
  if (auto written = file().write_tables(journal()); !written)
    return fail(SessionError(written.error()));
  return {};
}

// False: a thread is in the way of a hook, and nothing was written.
Result<bool, SessionError> Arming::try_to_write_text(Edits& edits, std::span<const Address> foreign,
                                                     bool last_attempt) {
  auto stopped = target::Stop::all_threads(target().pid());
  if (!stopped) return fail(SessionError(stopped.error()));
  target::Stop stop = *std::move(stopped);
  if (!target().same_image())
    return fail(SessionError(attach_error(AttachCause::exec_during_attach)));

  const auto busy = patch::clear_interiors(stop, target().memory(), edits.interiors);
  const auto is_in_hook = [&](size_t edit) {
    return set_.patches[edits.patch_of[edit]].hook != nullptr;
  };
  if (!last_attempt && std::any_of(busy.begin(), busy.end(), is_in_hook)) {
    session_.report_.stopped_ns += std::move(stop).resume();
    return false;
  }
  for (size_t edit : busy) drop(edits.patch_of[edit], plan::Reason::thread_inside);
  drop_changed(edits);
  drop_what_needs_hooks();
  drop_guests();
  keep_armed(edits);
  const auto outcomes =
      patch::apply(stop, target().memory(), edits.edits, patch::Order::phases_upward, foreign);
  session_.report_.stopped_ns += std::move(stop).resume();
  if (!outcomes)
    return fail(SessionError(attach_error(AttachCause::memory_refused, outcomes.error().number)));
  for (size_t e = 0; e < outcomes->size(); ++e)
    if ((*outcomes)[e] != patch::EditOutcome::written)
      drop(edits.patch_of[e], plan::Reason::text_changed);
  return true;
}

}  // namespace pinprick::session
