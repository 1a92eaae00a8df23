#include "library/text_change.h"

#include <algorithm>
#include <array>
#include <vector>

#include "library/error.h"
#include "library/text_access.h"

namespace pinprick::library {
namespace {

patch::LiveEdit edit_of(const Encoding& encoding) {
  const auto written = encoding.written();
  patch::LiveEdit edit;
  edit.site = encoding.patch.site;
  edit.length = static_cast<uint8_t>(written.size());
  std::copy(written.begin(), written.end(), edit.jump.begin());
  std::copy_n(encoding.patch.original.begin(), written.size(), edit.original.begin());
  edit.boundaries = encoding.patch.boundaries;
  return edit;
}

std::vector<patch::LiveEdit> edits_of(std::span<const TextChange> changes) {
  std::vector<patch::LiveEdit> edits;
  for (const TextChange& change : changes) edits.push_back(change.edit);
  return edits;
}

// Have others written there since? What is to be removed is not there, and may come back; and
// the original bytes may be those of a library that is gone.
bool is_overwritten(const target::SelfTarget& self, const TextChange& change) {
  std::array<uint8_t, layout::kMaxSiteLength> there = {};
  const auto bytes = std::span(there).first(change.edit.length);
  return change.to == nullptr && self.memory().read(change.edit.site, bytes) &&
         !std::equal(bytes.begin(), bytes.end(), change.edit.jump.begin());
}

void note_done(std::span<const TextChange> changes) {
  for (const TextChange& change : changes) change.site->in_place = change.to;
}

}  // namespace

TextChange removal(Site& site, Encoding* to) {
  TextChange change = {&site, to, edit_of(*site.in_place)};
  change.edit.to_breakpoint = to != nullptr;
  return change;
}

TextChange placement(Site& site, Encoding& encoding, size_t former_stub) {
  return {&site, &encoding, edit_of(encoding), former_stub};
}

void keep_former_stubs(std::span<const TextChange> changes) {
  for (const TextChange& change : changes) change.to->in_use = change.former_stub;
}

Result<void, Error> take_out(const target::SelfTarget& self, std::span<const TextChange> changes) {
  Result<void, Error> can_remove;
  return in_pieces(changes, [&](std::span<const TextChange> piece) -> Result<void, Error> {
    // Not between the check and the writing: no thread should start to block SIGTRAP there.
    std::vector<TextChange> there(piece.begin(), piece.end());
    std::erase_if(there, [&](const TextChange& change) { return is_overwritten(self, change); });
    // Without SIGTRAP nothing can be removed safely: jumps stay, and lead to empty lists. But if a
    // jump was to become a breakpoint, that is an error. After a check that has failed, later
    // pieces do not wait for that thread again.
    if (can_remove) can_remove = ready_for_breakpoints();
    if (!can_remove) {
      const bool only_removes =
          std::all_of(piece.begin(), piece.end(),
                      [](const TextChange& change) { return change.to == nullptr; });
      return only_removes ? Result<void, Error>() : can_remove;
    }
    if (auto written = patch::remove_live(self, edits_of(there)); !written)
      return fail(system_error(written.error()));
    note_done(there);
    return {};
  });
}

Result<void, Error> put_in(const target::SelfTarget& self, std::span<const TextChange> changes) {
  size_t done = 0;
  auto placed = in_pieces(changes, [&](std::span<const TextChange> piece) -> Result<void, Error> {
    if (auto ready = ready_for_breakpoints(); !ready) return ready;
    if (auto written = patch::place_live(self, edits_of(piece)); !written)
      return fail(system_error(written.error()));
    note_done(piece);
    done += piece.size();
    return {};
  });
  keep_former_stubs(changes.subspan(done));
  return placed;
}

}  // namespace pinprick::library
