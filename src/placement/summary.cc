#include "placement/summary.h"

#include <algorithm>

#include "base/parallel.h"
#include "placement/last_resort.h"
#include "placement/probe_set.h"
#include "plan/function_plan.h"

namespace pinprick::placement {
namespace {

// The figures of some functions, and what is left to do once all functions are planned.
struct Piece {
  Summary summary;
  std::vector<plan::PlannedPatch> patches;  // for sites that are planned together
  struct Refused {
    const image::Match* match;
    Address site;
    plan::Reason reason;
  };
  std::vector<Refused> refused;
};

void add(Summary& summary, const Summary& other) {
  summary.sites += other.sites;
  summary.probeable += other.probeable;
  for (const auto& [tactic, count] : other.by_tactic) summary.by_tactic[tactic] += count;
  for (const auto& [reason, count] : other.refused) summary.refused[reason] += count;
}

void add(Piece& piece, const image::Match& match, plan::FunctionPlan plan) {
  for (plan::PlannedPatch& patch : plan.patches) {
    piece.summary.probeable += patch.points.size();
    piece.summary.by_tactic[patch.patch.tactic] += patch.points.size();
    piece.patches.push_back(std::move(patch));
  }
  for (const auto& [site, refusal] : plan.refused)
    piece.refused.push_back({&match, site, refusal.reason});
}

// Looks for last resorts for the refused sites, and counts them.
void find_last_resorts(Piece& piece, Taken& taken, IslandSpace& islands) {
  Summary& summary = piece.summary;
  Range displaced;  // by the last patch that was placed
  plan::Tactic tactic = plan::Tactic::evict;
  const auto last_after = [&](const Piece::Refused& first) {
    Address last = first.site;
    for (const Piece::Refused* next = &first + 1;
         next != piece.refused.data() + piece.refused.size(); ++next) {
      if (next->match != first.match || !may_have_last_resort(next->reason) || next->site <= last ||
          next->site > last + arch::kMaxInstructionLength ||
          next->site > first.site + plan::kFarHopTail)
        break;
      last = next->site;
    }
    return last;
  };
  const auto place = [&](const Piece::Refused& refused) {
    image::Object& object = *refused.match->object;
    const image::Function& function = *refused.match->function;
    if (!may_have_last_resort(refused.reason)) return false;
    if (displaced.contains(refused.site)) return true;
    const auto found = find_last_resort(object, function, refused.site, refused.reason,
                                        last_after(refused), taken, islands);
    if (!found) return false;
    const plan::Patch& patch = found->patch.patch;
    tactic = patch.tactic;
    displaced = {patch.site, patch.site + patch.displaced};
    return true;
  };
  for (const Piece::Refused& refused : piece.refused) {
    if (place(refused)) {
      ++summary.probeable;
      ++summary.by_tactic[tactic];
    } else {
      ++summary.refused[refused.reason];
    }
  }
  piece.refused.clear();
}

void add(Piece& piece, const image::Match& match, Sites sites, const IslandSpace& islands) {
  auto code = code_of(*match.object, *match.function);
  if (!code) return;
  std::vector<Address> wanted = {code->range.begin};
  if (sites != Sites::entries) wanted = plan::instructions(*code);
  piece.summary.sites += wanted.size();
  const auto plan = [&](std::span<const Address> some) {
    add(piece, match, plan::plan_function(*code, some, plan::Placing::anywhere));
    if (sites == Sites::together) return;
    piece.patches.clear();
    if (piece.refused.empty()) return;
    Taken nothing;
    IslandSpace all = islands;
    find_last_resorts(piece, nothing, all);
  };
  if (sites != Sites::instructions) return plan(wanted);
  const auto boundaries = plan::boundaries(*code);
  code->boundaries = boundaries;
  for (const Address& site : wanted) plan({&site, 1});
}

}  // namespace

Summary summarize(const std::vector<image::Match>& matches, Sites sites, IslandSpace islands) {
  load_code(matches);
  constexpr size_t kPiece = 64;  // functions
  const size_t count = (matches.size() + kPiece - 1) / kPiece;
  std::vector<Piece> pieces(count);
  for_each_piece(count, usable_threads(), [&](size_t piece) {
    const size_t end = std::min(matches.size(), (piece + 1) * kPiece);
    for (size_t i = piece * kPiece; i < end; ++i) add(pieces[piece], matches[i], sites, islands);
  });
  Taken taken;
  for (const Piece& piece : pieces)
    for (const plan::PlannedPatch& patch : piece.patches) taken.add(patch, 0);  // index not used
  Summary all;
  for (Piece& piece : pieces) {
    find_last_resorts(piece, taken, islands);
    add(all, piece.summary);
  }
  return all;
}

}  // namespace pinprick::placement
