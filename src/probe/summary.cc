#include "probe/summary.h"

#include <algorithm>

#include "base/parallel.h"
#include "plan/function_plan.h"
#include "probe/probe.h"

namespace pinprick::probe {
namespace {

void add(Summary& summary, const plan::FunctionPlan& plan) {
  for (const plan::PlannedPatch& patch : plan.patches) {
    summary.probeable += patch.points.size();
    summary.by_tactic[patch.patch.tactic] += patch.points.size();
  }
  for (const auto& [site, refusal] : plan.refused) ++summary.refused[refusal.reason];
}

void add(Summary& summary, const Summary& other) {
  summary.sites += other.sites;
  summary.probeable += other.probeable;
  for (const auto& [tactic, count] : other.by_tactic) summary.by_tactic[tactic] += count;
  for (const auto& [reason, count] : other.refused) summary.refused[reason] += count;
}

void add(Summary& summary, const image::Match& match, Sites sites) {
  image::Object& object = *match.object;
  plan::FunctionCode code;
  code.range = match.function->range;
  code.bytes = object.code(*match.function);
  code.targets = &object.targets();
  code.reserved = object.reserved();
  std::vector<Address> wanted = {code.range.begin};
  if (sites != Sites::entries) wanted = plan::instructions(code);
  summary.sites += wanted.size();
  const auto plan = [&](std::span<const Address> some) {
    add(summary, plan::plan_function(code, some, plan::Placing::anywhere));
  };
  if (sites != Sites::instructions) return plan(wanted);
  const auto boundaries = plan::boundaries(code);
  code.boundaries = boundaries;
  for (const Address& site : wanted) plan({&site, 1});
}

}  // namespace

Summary summarize(const std::vector<image::Match>& matches, Sites sites) {
  load_code(matches);
  constexpr size_t kPiece = 64;  // functions
  const size_t count = (matches.size() + kPiece - 1) / kPiece;
  std::vector<Summary> pieces(count);
  for_each_piece(count, usable_threads(), [&](size_t piece) {
    const size_t end = std::min(matches.size(), (piece + 1) * kPiece);
    for (size_t i = piece * kPiece; i < end; ++i) add(pieces[piece], matches[i], sites);
  });
  Summary all;
  for (const Summary& piece : pieces) add(all, piece);
  return all;
}

}  // namespace pinprick::probe
