#include "library/probes/text_change.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "library/api/error.h"
#include "library/probes/text_access.h"
#include "library/process/own_stack.h"

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

using Encodings = std::vector<const Encoding*>;

// May the thread go on between instructions that these would displace? It would come upon the
// breakpoints of a jump.
bool may_go_on_between(const target::SelfTarget& self, std::span<const Encoding* const> placed) {
  std::vector<Range> between;
  for (const Encoding* encoding : placed) {
    const plan::Patch& patch = encoding->patch;
    if (!patch.boundaries.empty()) between.push_back({patch.site + 1, patch.site + patch.written});
  }
  return !between.empty() && may_go_on_inside(self.memory(), between);
}

std::optional<std::string_view> why_breakpoints(const target::SelfTarget& self,
                                                std::span<const Encoding* const> placed) {
  if (std::any_of(placed.begin(), placed.end(),
                  [](const Encoding* one) { return one->is_breakpoint(); }))
    return "and would take the probe's breakpoint for its own";
  if (may_go_on_between(self, placed))
    return "and the thread may go on between the instructions that the probe would replace";
  return std::nullopt;
}

Result<TextTurn, Error> turn_for(const target::SelfTarget& self,
                                 std::span<const TextChange> changes) {
  return turn_to_write([&] {
    Encodings placed;
    for (const TextChange& change : changes)
      if (change.to != nullptr) placed.push_back(change.to);
    return why_breakpoints(self, placed);
  });
}

bool is_breakpoint_that_goes(const TextChange& change) {
  return change.to == nullptr && change.edit.length == 1;
}

}  // namespace

Result<void, Error> can_write(const target::SelfTarget& self,
                              std::span<const Encoding* const> placed) {
  const auto turn = turn_to_write([&] { return why_breakpoints(self, placed); });
  if (!turn) return fail(turn.error());
  return {};
}

std::vector<size_t> needing_breakpoints(const target::SelfTarget& self,
                                        std::span<const Encoding* const> placed) {
  const bool between = may_go_on_between(self, placed);
  std::vector<size_t> needing;
  for (size_t i = 0; i < placed.size(); ++i)
    if (placed[i]->is_breakpoint() || (between && !placed[i]->patch.boundaries.empty()))
      needing.push_back(i);
  return needing;
}

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
  std::optional<Error> refused;
  return in_pieces(changes, [&](std::span<const TextChange> piece) -> Result<void, Error> {
    // Not between the check and the writing: no thread should start to block SIGTRAP there.
    std::vector<TextChange> there(piece.begin(), piece.end());
    std::erase_if(there, [&](const TextChange& change) { return is_overwritten(self, change); });
    // Without SIGTRAP no jump can be removed safely: jumps stay, and lead to empty lists. But if a
    // jump was to become a breakpoint, that is an error. After a check that has failed, later
    // pieces do not wait for that thread again.
    const auto turn = refused ? fail(*refused) : turn_for(self, there);
    if (!turn) {
      refused = turn.error();
      const bool only_removes =
          std::all_of(piece.begin(), piece.end(),
                      [](const TextChange& change) { return change.to == nullptr; });
      if (!only_removes) return fail(*refused);
      std::erase_if(there, [](const TextChange& one) { return !is_breakpoint_that_goes(one); });
    }
    const patch::Order order = turn ? turn->order : patch::Order::in_steps;
    if (auto written = patch::remove_live(self, edits_of(there), order); !written)
      return fail(system_error(written.error()));
    note_done(there);
    return {};
  });
}

Result<void, Error> put_in(const target::SelfTarget& self, std::span<const TextChange> changes) {
  size_t done = 0;
  auto placed = in_pieces(changes, [&](std::span<const TextChange> piece) -> Result<void, Error> {
    const auto turn = turn_for(self, piece);
    if (!turn) return fail(turn.error());
    if (auto written = patch::place_live(self, edits_of(piece), turn->order); !written)
      return fail(system_error(written.error()));
    note_done(piece);
    done += piece.size();
    return {};
  });
  keep_former_stubs(changes.subspan(done));
  return placed;
}

}  // namespace pinprick::library
