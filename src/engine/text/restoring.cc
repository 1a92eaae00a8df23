#include "engine/text/restoring.h"

#include <algorithm>
#include <utility>

#include "target/procfs.h"

namespace pinprick::engine {

Restoring::Restoring(const target::RemoteTarget& target, const image::ProcessImage& image,
                     const layout::Session& journal, const OtherSites& others, Armed armed,
                     const std::vector<bool>* chosen)
    : target_(target), memory_(target.memory()), mappings_(target.pid()), armed_(armed) {
  using Phase = layout::SiteEntry::Phase;
  std::vector<patch::TextEdit> edits;
  if (chosen == nullptr && !others.empty()) {
    for (const layout::SiteEntry& site : journal.sites)
      if (site.jump != 0 && site.phase != Phase::gone && site.phase != Phase::left_out)
        for (const patch::TextEdit& edit : others.leading_around(memory_, site))
          edits.push_back(edit);
    around_ = Edits(std::exchange(edits, {}));
  }
  if (journal.header.state != layout::SessionState::armed) return;
  left_.reserve(journal.sites.size());
  edits.reserve(journal.sites.size());
  for (const layout::SiteEntry& site : journal.sites) {
    if (!site.is_in_text()) continue;
    if (chosen != nullptr && !(*chosen)[static_cast<size_t>(&site - journal.sites.data())])
      continue;
    const bool is_shared = others.last_at(memory_, head_of(journal, site)) != nullptr;
    // The jump to a trampoline stays as long as another session's probes are reached through it.
    if (is_shared && &head_of(journal, site) != &site) continue;
    const auto edit = others.disarming(memory_, site);
    if (!edit) continue;
    if (site.phase == Phase::unwinder_hook) {
      hooks_.push_back(*edit);
      continue;
    }
    left_.push_back({&site, is_shared});
    edits.push_back(*edit);
  }
  foreign_ = foreign_breakpoints(image, edits);
  probes_ = Edits(std::move(edits));
}

std::vector<Address> Restoring::foreign_breakpoints(
    const image::ProcessImage& image, const std::vector<patch::TextEdit>& probes) const {
  if (hooks_.empty()) return patch::foreign_breakpoints(image, memory_, probes);
  std::vector<patch::TextEdit> all = probes;
  all.insert(all.end(), hooks_.begin(), hooks_.end());
  return patch::foreign_breakpoints(image, memory_, all);
}

// Moves threads off trampolines, and returns which edits must wait. A thread at a trampoline has
// made the short jump to it, but not the long one; it is moved to where the long one leads. A
// thread whose signal handler will return there still needs the trampoline. If the trampoline lies
// in a window, the jump at the start of that window then has to stay, too: otherwise threads would
// execute the trampoline's bytes as the window's instructions.
std::vector<bool> Restoring::in_use(target::Stop& stop, std::span<const patch::TextEdit> edits) {
  std::vector<bool> used(edits.size());
  const auto is_trampoline = [](const Site& site) {
    return site.entry->displaced == 0 && !site.is_shared;
  };
  if (std::none_of(left_.begin(), left_.end(), is_trampoline)) return used;
  const auto held = patch::examine(memory_, edits);
  std::vector<patch::Boundary> trampolines;
  for (size_t i = 0; i < left_.size(); ++i)
    if (is_trampoline(left_[i]) && held[i] == patch::EditOutcome::written)
      trampolines.push_back(
          {left_[i].entry->address, left_[i].entry->target(), static_cast<uint32_t>(i)});
  std::sort(trampolines.begin(), trampolines.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  for (size_t blocked : patch::clear_boundaries(stop, memory_, mappings_, trampolines)) {
    const Address trampoline = left_[blocked].entry->address;
    for (size_t i = 0; i < left_.size(); ++i)
      if (i == blocked || trampoline - left_[i].entry->address < left_[i].entry->displaced)
        used[i] = true;
  }
  return used;
}

Result<void, SystemError> Restoring::restore(target::Stop& stop, DisarmReport& report) {
  const auto used = in_use(stop, probes_.edits);
  std::vector<Site> later;
  std::vector<patch::TextEdit> later_edits;
  if (std::find(used.begin(), used.end(), true) != used.end()) {
    std::vector<patch::TextEdit> now;
    for (size_t i = 0; i < left_.size(); ++i) {
      (used[i] ? later_edits : now).push_back(probes_.edits[i]);
      if (used[i]) later.push_back(left_[i]);
    }
    probes_ = Edits(std::move(now));
  }
  const auto outcomes = apply(stop, probes_, report);
  if (!outcomes) return fail(outcomes.error());
  size_t next = 0;
  for (size_t i = 0; i < left_.size(); ++i) {
    if (used[i]) continue;
    const patch::EditOutcome outcome = (*outcomes)[next++];
    if (outcome == patch::EditOutcome::written || outcome == patch::EditOutcome::already)
      restored_.push_back(left_[i].entry);
  }
  left_ = std::move(later);
  probes_ = Edits(std::move(later_edits));
  return {};
}

Result<void, SystemError> Restoring::lead_around(target::Stop& stop) {
  const auto outcomes = patch::apply(stop, memory_, around_.edits, around_.order, {});
  return outcomes ? Result<void, SystemError>() : fail(outcomes.error());
}

Result<void, SystemError> Restoring::restore_hooks(target::Stop& stop, DisarmReport& report) {
  const Edits all(hooks_);
  const auto outcomes = patch::apply(stop, memory_, all.edits, all.order, foreign_);
  if (!outcomes) return fail(outcomes.error());
  std::vector<patch::TextEdit> left;
  for (size_t i = 0; i < hooks_.size(); ++i)
    if ((*outcomes)[i] == patch::EditOutcome::different) left.push_back(hooks_[i]);
  hooks_ = std::move(left);
  report.foreign += hooks_.size();
  return {};
}

Result<std::vector<patch::EditOutcome>, SystemError> Restoring::apply(target::Stop& stop,
                                                                      const Edits& all,
                                                                      DisarmReport& report) {
  auto outcomes = patch::apply(stop, memory_, all.edits, all.order, foreign_);
  if (outcomes)
    for (size_t i = 0; i < all.edits.size(); ++i) count(all.edits[i], (*outcomes)[i], report);
  return outcomes;
}

// A site that is not as we left it was overwritten, or belongs to an object that was loaded since.
// In the second case its page was never written to, and is still the file's.
void Restoring::count(const patch::TextEdit& edit, patch::EditOutcome outcome,
                      DisarmReport& report) {
  // A hook is no probe.
  const bool is_hook = edit.phase == static_cast<uint8_t>(layout::SiteEntry::Phase::loader_hook);
  switch (outcome) {
    case patch::EditOutcome::written:
      if (!is_hook) ++report.restored;
      return;
    case patch::EditOutcome::unreadable:
      ++report.gone;
      return;
    case patch::EditOutcome::already:
      if (armed_ == Armed::perhaps_partly) return;
      if (target::is_private_copy(target_.pid(), edit.address))
        ++report.foreign;
      else
        ++report.gone;
      return;
    case patch::EditOutcome::different:
      if (!target::is_private_copy(target_.pid(), edit.address)) {
        ++report.gone;
        return;
      }
      ++report.foreign;
      ++report.foreign_held;
      may_lead_to_us_ = true;
      return;
  }
}

}  // namespace pinprick::engine
