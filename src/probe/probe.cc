#include "probe/probe.h"

#include <algorithm>

#include "probe/return_probes.h"

namespace pinprick::probe {
namespace {

Result<Probe, plan::Refusal> plan_one(const image::Match& match, Kind kind) {
  image::Object& object = *match.object;
  const image::Function& function = *match.function;
  if (match.unresolved)
    return fail(plan::Refusal{plan::Reason::unresolved_ifunc, function.range.begin});
  const auto bytes = object.code(function);
  if (bytes.empty()) return fail(plan::Refusal{plan::Reason::unreadable, function.range.begin});

  plan::FunctionCode code;
  code.range = function.range;
  code.bytes = bytes;
  code.targets = &object.targets();
  code.reserved = object.reserved();
  const Address wanted = match.site - object.bias();
  const Address entry = plan::entry_site(code);
  Probe probe;
  probe.match = match;
  probe.kind = kind;
  probe.at_entry = wanted == function.range.begin || wanted == entry;
  if (kind == Kind::latency) {
    if (!probe.at_entry) return fail(plan::Refusal{plan::Reason::not_called, wanted});
    const ReturnCandidate candidate = {
        object.functions().names(function), std::span(bytes).first(function.range.size()),
        function.entered_by_call, function.range.begin + object.bias() == object.entry()};
    if (auto reason = why_not_return_probed(candidate))
      return fail(plan::Refusal{*reason, function.range.begin});
  }
  auto patch = plan::plan_site(code, probe.at_entry ? entry : wanted);
  if (!patch) return fail(patch.error());
  probe.patch = *std::move(patch);
  return probe;
}

arch::Displaced displaced(const Probe& probe) {
  return {probe.site(), probe.patch.displaced_bytes()};
}

}  // namespace

ProbeSet plan_probes(std::vector<image::Match> matches, Kind kind) {
  ProbeSet set;
  for (image::Match& match : matches) {
    auto probe = plan_one(match, kind);
    if (probe)
      set.probes.push_back(*std::move(probe));
    else
      set.skipped.push_back({std::move(match), probe.error()});
  }
  std::stable_sort(set.probes.begin(), set.probes.end(),
                   [](const Probe& a, const Probe& b) { return a.site() < b.site(); });
  // What one displaces or overwrites is out of bounds for the next.
  Address taken = 0;
  std::vector<Probe> apart;
  for (Probe& probe : set.probes) {
    if (probe.site() < taken) {
      set.skipped.push_back({probe.match, {plan::Reason::neighbour, probe.patch.site}});
      continue;
    }
    taken = probe.site() + std::max(probe.patch.written, probe.patch.displaced);
    apart.push_back(std::move(probe));
  }
  set.probes = std::move(apart);
  return set;
}

std::optional<PlacedStub> place_count_stub(const Probe& probe, Address at,
                                           const arch::ArenaEntries& arena, uint32_t cell,
                                           std::optional<arch::RseqArea> rseq) {
  arch::Assembler code(at);
  arch::CountStub spec;
  spec.rseq = rseq;
  spec.cell = cell;
  spec.keep_red_zone = !probe.at_entry;
  PlacedStub placed;
  placed.stub = arch::emit_count_stub(code, arena, spec, displaced(probe));
  auto bytes = code.finish();
  if (!bytes) return std::nullopt;
  placed.bytes = *std::move(bytes);
  return placed;
}

std::optional<PlacedStub> place_return_stub(const Probe& probe, Address at,
                                            const arch::ArenaEntries& arena, uint64_t histogram,
                                            uint64_t missed) {
  arch::Assembler code(at);
  PlacedStub placed;
  placed.stub =
      arch::emit_return_stub(code, arena, arch::ReturnStub{histogram, missed}, displaced(probe));
  auto bytes = code.finish();
  if (!bytes) return std::nullopt;
  placed.bytes = *std::move(bytes);
  return placed;
}

}  // namespace pinprick::probe
