#include "engine/text_edits.h"

#include <algorithm>
#include <iterator>

#include "engine/shared_sites.h"

namespace pinprick::engine {
namespace {

// Of the patch's site, or of its trampoline, which come after each other.
patch::TextEdit edit_of(const ArmingPlan& plan, const layout::Session& journal, size_t patch,
                        size_t site) {
  const auto shared = plan.shared.find(patch);
  if (shared == plan.shared.end()) return patch::arming(journal.sites[site]);
  // note_jumps() has seen that there is one.
  if (&head_of(journal, journal.sites[site]) == &journal.sites[site])
    return OtherSites::arming(journal.sites[site], shared->second).value();
  patch::TextEdit there_already = patch::arming(journal.sites[site]);
  std::copy(std::begin(there_already.after), std::end(there_already.after), there_already.before);
  return there_already;
}

}  // namespace

ArmingEdits arming_edits(const ArmingPlan& plan, const layout::Session& journal) {
  ArmingEdits all;
  all.edits.reserve(plan.set.patches.size() + plan.with_trampoline.size());
  all.patch_of.reserve(all.edits.capacity());
  const auto add = [&](size_t patch, size_t site) {
    all.edits.push_back(edit_of(plan, journal, patch, site));
    all.patch_of.push_back(static_cast<uint32_t>(patch));
  };
  for (size_t i = 0; i < plan.set.patches.size(); ++i) {
    if (!plan.is_armed(i)) continue;
    const size_t site = plan.states[i].site;
    add(i, site);
    if (plan.set.patches[i].plan.trampoline) add(i, site + 1);
  }
  all.order = patch::WritingOrder(all.edits, patch::Order::phases_upward);
  return all;
}

void ArmingEdits::keep_armed(const ArmingPlan& plan) {
  size_t kept = 0;
  for (size_t e = 0; e < edits.size(); ++e) {
    if (!plan.is_armed(patch_of[e])) continue;
    edits[kept] = edits[e];
    patch_of[kept++] = patch_of[e];
  }
  edits.resize(kept);
  patch_of.resize(kept);
  order = patch::WritingOrder(edits, patch::Order::phases_upward);
}

}  // namespace pinprick::engine
