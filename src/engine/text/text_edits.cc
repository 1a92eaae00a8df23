#include "engine/text/text_edits.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/owners/shared_sites.h"
#include "engine/plan/dependence.h"

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
  all.order = patch::WritingOrder(all.edits, patch::PhaseOrder::upward);
  return all;
}

std::vector<patch::TextEdit> taking_back(const ArmingEdits& all,
                                         std::span<const patch::EditOutcome> outcomes,
                                         const ArmingPlan& plan) {
  std::vector<patch::TextEdit> edits;
  for (size_t e = 0; e < all.edits.size(); ++e) {
    if (outcomes[e] != patch::EditOutcome::written || plan.is_armed(all.patch_of[e])) continue;
    edits.push_back(all.edits[e]);
    std::swap(edits.back().before, edits.back().after);
  }
  return edits;
}

std::vector<size_t> patches_of_changed_text(const ArmingPlan& plan,
                                            const image::MemoryReader& reader) {
  constexpr size_t kReadAtOnce = 16 << 10;
  std::vector<size_t> changed;
  std::vector<uint8_t> text;
  Address begin = 0;  // of `text`
  // The patches of an object follow each other by address.
  const auto read = [&](Range bytes) -> std::span<const uint8_t> {
    if (!Range{begin, begin + text.size()}.contains(bytes)) {
      begin = bytes.begin;
      text.resize(std::max(kReadAtOnce, bytes.size()));
      if (!reader(begin, text)) {  // near the end of the mapping
        text.resize(bytes.size());
        if (!reader(begin, text)) text.clear();
      }
    }
    if (text.size() < bytes.size()) return {};
    return std::span(text).subspan(bytes.begin - begin, bytes.size());
  };
  const auto is_as_planned = [&](image::Object& object, Range code) {
    const auto planned = object.code_at(code);
    const auto there = read({code.begin + object.bias(), code.end + object.bias()});
    return std::equal(planned.begin(), planned.end(), there.begin(), there.end());
  };
  const placement::SitePatch* former = nullptr;
  Range last;  // what it was planned from
  bool is_last_as_planned = true;
  for (size_t i = 0; i < plan.set.patches.size(); ++i) {
    if (!plan.is_armed(i)) continue;
    const placement::SitePatch& patch = plan.set.patches[i];
    // Many patches may be planned from one function.
    const Range code = planned_from(plan, patch);
    if (former == nullptr || former->object != patch.object || code != last)
      is_last_as_planned = is_as_planned(*patch.object, code);
    former = &patch;
    last = code;
    if (!is_last_as_planned) changed.push_back(i);
  }
  return changed;
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
  order = patch::WritingOrder(edits, patch::PhaseOrder::upward);
}

}  // namespace pinprick::engine
