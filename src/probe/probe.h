// Probes, planned: which site, how, and with what stub. Pure but for the lazy loading of objects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/x86_64/stub.h"
#include "image/match.h"
#include "plan/planner.h"

namespace pinprick::probe {

enum class Kind : uint8_t { count, latency };

struct Probe {
  image::Match match;
  Kind kind = Kind::count;
  plan::Patch patch;  // in the object's own addresses
  bool at_entry = false;

  Address site() const { return patch.site + match.object->bias(); }
};

struct Skipped {
  image::Match match;
  plan::Refusal refusal;
};

struct ProbeSet {
  std::vector<Probe> probes;  // by site, none touching another
  std::vector<Skipped> skipped;
};

ProbeSet plan_probes(std::vector<image::Match> matches, Kind kind);

// The stub of a probe, assembled for an address.
struct PlacedStub {
  std::vector<uint8_t> bytes;
  arch::Stub stub;
};

// Nothing: something the displaced instructions refer to is out of reach from `at`.
std::optional<PlacedStub> place_count_stub(const Probe& probe, Address at,
                                           const arch::ArenaEntries& arena, uint32_t cell,
                                           std::optional<arch::RseqArea> rseq);
std::optional<PlacedStub> place_return_stub(const Probe& probe, Address at,
                                            const arch::ArenaEntries& arena, uint64_t histogram,
                                            uint64_t missed);

}  // namespace pinprick::probe
