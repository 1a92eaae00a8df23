#include "probe/probe.h"

#include <algorithm>

#include "probe/return_probes.h"

namespace pinprick::probe {
namespace {

// Probes on one function.
class FunctionProbes {
 public:
  FunctionProbes(std::span<image::Match> matches, Kind kind, ProbeSet& set)
      : matches_(matches), kind_(kind), set_(set) {}

  void plan();

 private:
  std::optional<plan::Reason> why_not_timed(const image::Match& match, bool at_entry) const;
  void skip(image::Match& match, plan::Reason reason, Address where) {
    set_.skipped.push_back({std::move(match), {reason, where}});
  }
  void skip_all(plan::Reason reason);

  std::span<image::Match> matches_;
  Kind kind_;
  ProbeSet& set_;
  plan::FunctionCode code_;
};

void FunctionProbes::skip_all(plan::Reason reason) {
  for (image::Match& match : matches_) {
    const Address where = match.site - match.object->bias();
    skip(match, reason, where);
  }
}

std::optional<plan::Reason> FunctionProbes::why_not_timed(const image::Match& match,
                                                          bool at_entry) const {
  if (kind_ != Kind::latency) return std::nullopt;
  if (!at_entry) return plan::Reason::not_called;
  const image::Function& function = *match.function;
  image::Object& object = *match.object;
  const ReturnCandidate candidate = {
      object.functions().names(function), code_.bytes.first(function.range.size()),
      function.entered_by_call, function.range.begin + object.bias() == object.entry()};
  return why_not_return_probed(candidate);
}

void FunctionProbes::plan() {
  image::Object& object = *matches_.front().object;
  const image::Function& function = *matches_.front().function;
  if (matches_.front().unresolved) return skip_all(plan::Reason::unresolved_ifunc);
  const auto bytes = object.code(function);
  if (bytes.empty()) return skip_all(plan::Reason::unreadable);
  code_.range = function.range;
  code_.bytes = bytes;
  code_.targets = &object.targets();
  code_.reserved = object.reserved();

  const Address entry = plan::entry_site(code_);
  std::vector<Address> sites;
  std::vector<image::Match*> of_site;
  for (image::Match& match : matches_) {
    const Address wanted = match.site - object.bias();
    const bool at_entry = wanted == function.range.begin || wanted == entry;
    const Address site = at_entry ? entry : wanted;
    if (auto reason = why_not_timed(match, at_entry)) {
      skip(match, *reason, site);
      continue;
    }
    if (!sites.empty() && sites.back() == site) continue;  // the entry, by both its addresses
    sites.push_back(site);
    of_site.push_back(&match);
  }
  const auto match_of = [&](Address site) -> image::Match& {
    const auto found = std::lower_bound(sites.begin(), sites.end(), site);
    return *of_site[static_cast<size_t>(found - sites.begin())];
  };
  const auto placing = kind_ == Kind::latency ? plan::Placing::at_site : plan::Placing::anywhere;
  auto plan = plan::plan_function(code_, sites, placing);
  for (const auto& [site, refusal] : plan.refused)
    skip(match_of(site), refusal.reason, refusal.where);
  const size_t first = set_.patches.size();
  for (plan::PlannedPatch& planned : plan.patches) {
    SitePatch patch;
    patch.object = &object;
    if (planned.host) patch.host = first + *planned.host;
    for (uint8_t offset : planned.points) {
      const Address site = planned.patch.site + offset;
      patch.probes.push_back(set_.probes.size());
      set_.probes.push_back(
          {std::move(match_of(site)), kind_, set_.patches.size(), offset, site == entry});
    }
    patch.plan = std::move(planned);
    set_.patches.push_back(std::move(patch));
  }
}

arch::Displaced displaced(const SitePatch& patch) {
  return {patch.site(), patch.plan.patch.displaced_bytes()};
}

}  // namespace

ProbeSet plan_probes(std::vector<image::Match> matches, Kind kind) {
  ProbeSet set;
  std::stable_sort(matches.begin(), matches.end(),
                   [](const image::Match& a, const image::Match& b) { return a.site < b.site; });
  for (size_t begin = 0; begin < matches.size();) {
    size_t end = begin + 1;
    while (end < matches.size() && matches[end].function == matches[begin].function) ++end;
    FunctionProbes(std::span(matches).subspan(begin, end - begin), kind, set).plan();
    begin = end;
  }
  return set;
}

std::optional<PlacedStub> place_count_stub(const ProbeSet& set, const SitePatch& patch, Address at,
                                           const arch::ArenaEntries& arena,
                                           std::span<const uint32_t> cells,
                                           std::optional<arch::RseqArea> rseq) {
  std::vector<arch::CountPoint> points;
  for (size_t i = 0; i < patch.probes.size(); ++i) {
    const Probe& probe = set.probes[patch.probes[i]];
    points.push_back({probe.offset, cells[i], !probe.at_entry});
  }
  arch::Assembler code(at);
  PlacedStub placed;
  placed.stub = arch::emit_count_stub(code, arena, rseq, points, displaced(patch));
  auto bytes = code.finish();
  if (!bytes) return std::nullopt;
  placed.bytes = *std::move(bytes);
  for (const arch::CountPoint& point : points)
    for (const arch::Copy& copy : placed.stub.copies)
      if (copy.window_offset == point.offset)
        placed.bodies.push_back(placed.stub.body + copy.offset);
  return placed;
}

std::optional<PlacedStub> place_return_stub(const SitePatch& patch, Address at,
                                            const arch::ArenaEntries& arena, uint64_t histogram,
                                            uint64_t missed) {
  arch::Assembler code(at);
  PlacedStub placed;
  const arch::ReturnStub spec = {histogram, missed};
  placed.stub = arch::emit_return_stub(code, arena, spec, displaced(patch));
  auto bytes = code.finish();
  if (!bytes) return std::nullopt;
  placed.bytes = *std::move(bytes);
  placed.bodies = {placed.stub.body};
  return placed;
}

}  // namespace pinprick::probe
