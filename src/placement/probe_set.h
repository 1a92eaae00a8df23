// Probes, planned: which site, how, and with what stub. Pure but for the lazy loading of objects.
#pragma once

#include <cassert>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arch/stub.h"
#include "base/index_range.h"
#include "base/rare.h"
#include "image/match.h"
#include "placement/hooks.h"
#include "placement/island_space.h"
#include "placement/return_probes.h"
#include "plan/function_plan.h"
#include "select/value.h"

namespace pinprick::placement {

enum class Kind : uint8_t { count, latency, value, span };

// Of Kind::value: what is recorded, and how the user wrote it.
struct RecordedValue {
  select::Value value;
  std::string text;
};

// Of Kind::span: from a hit of one point to the next hit of another, or of the same, in the same
// thread; and how the user wrote it.
struct Span {
  std::string text;
  size_t start = 0;  // ProbeSet::matches of their probes
  size_t end = 0;
};
struct SpanMatches {
  std::string text;
  image::Match start, end;
};

// What is kept of a PlannedPatch, of which there may be millions. Its original bytes are the
// object's, its points those of the probes, and its interior is where its stub has copies. In the
// object's own addresses.
struct SitePlan {
  SitePlan() = default;
  // `depends_on` is set by the caller, which knows it among all.
  SitePlan(const plan::PlannedPatch& planned);
  explicit SitePlan(const plan::Patch& only);

  plan::Window patch;
  Rare<plan::Trampoline> trampoline;
  Rare<Address> island;
  bool ends_in_next_jump = false;
  // No thread may stand between instructions in front of this offset, but at the first.
  uint8_t interior_end = 0;
  // As PlannedPatch::depends_on, but among all; and of a pun that ends in another one's jump, that
  // one.
  OptionalIndex depends_on;

  bool is_pun() const { return plan::is_pun(*this); }
  uint8_t own() const { return plan::own_bytes(*this); }
  Range claimed() const { return plan::claimed_by(*this); }
};
static_assert(sizeof(SitePlan) == 40);

// Bytes that change in an object's text, and the probes that are reached through them.
struct SitePatch {
  image::Object* object = nullptr;
  SitePlan plan;
  IndexRange probes;  // of the planned points, in that order
  Rare<Hook> hook;    // not for probes

  Address site() const { return plan.patch.site + object->bias(); }
  // What was there when it was planned, as far as the patch is about it. As long as the object.
  std::span<const uint8_t> original() const;
};
static_assert(sizeof(SitePatch) == 64);

// There may be one for each instruction of a program, millions: so it has no name of its own.
struct Probe {
  Probe(size_t of_match, size_t of_patch, uint8_t from_site, arch::StackUse stack)
      : match(of_match & kMost),
        patch(of_patch & kMost),
        offset(from_site & (plan::kMaxWindow - 1)),
        keep_red_zone(stack == arch::StackUse::keep_red_zone) {
    assert(of_match <= kMost && of_patch <= kMost && from_site < plan::kMaxWindow);
  }
  Probe of_patch(size_t other) const {
    return {match, other, static_cast<uint8_t>(offset), stack()};
  }
  arch::StackUse stack() const {
    return keep_red_zone != 0 ? arch::StackUse::keep_red_zone : arch::StackUse::at_entry;
  }

  static constexpr uint64_t kMost = (1 << 28) - 1;  // more than there is memory for
  uint64_t match : 28;                              // index into ProbeSet::matches
  uint64_t patch : 28;
  uint64_t offset : 7;  // of the probed instruction, from its patch's site
  uint64_t keep_red_zone : 1;
};
static_assert(sizeof(Probe) == 8);

struct Skipped {
  image::Match match;  // of one instruction, or of all if its function cannot be read
  plan::Refusal refusal;
};

struct ProbeSet {
  Kind kind = Kind::count;
  std::vector<image::Match> matches;
  std::vector<RecordedValue> values;  // by the matches' pattern, of Kind::value
  std::vector<Span> spans;            // of Kind::span
  // By object and address; then those that found their place last, and hooks.
  std::vector<SitePatch> patches;
  std::vector<Probe> probes;  // by patch
  std::vector<Skipped> skipped;
  // All children that will share the process's memory are marked by hooks of this set.
  bool marks_children = false;
  bool may_unwind_elsewhere = false;  // hooks.h; of a whole process, and where calls are timed

  const RecordedValue& value_of(const Probe& probe) const {
    return values[matches[probe.match].pattern];
  }
  // The match of this one instruction: the entry of a function is where it begins.
  image::Match match_of(const Probe& probe) const;
};

// What planning has to know of a function; nothing if its code cannot be read.
std::optional<plan::FunctionCode> code_of(image::Object& object, const image::Function& function);

// What decides whether the function's calls can be measured; but for `is_called` (callee.h).
ReturnCandidate return_candidate(image::Object& object, const image::Function& function,
                                 const plan::FunctionCode& code);

// Makes the objects load all that planning asks them for: they do so the first time, each for one
// thread only.
void load_code(std::span<const image::Match> matches, std::span<const HookPlace> hooks = {},
               Kind kind = Kind::count);

// The functions' instructions, as plan::instructions() answers them, for those matches that ask for
// each; none twice, as functions may lie inside of each other.
std::vector<image::Match> instructions_of(std::span<const image::Match> matches);

// What is timed although an exception that passes may end the program.
enum class Risk : bool { none, unknown_unwinder };

// For a process: with the hooks that probes which measure need in it, and with that in its loader,
// if given.
ProbeSet plan_probes(const image::ProcessImage& image, std::vector<image::Match> matches, Kind kind,
                     const std::optional<HookPlace>& loader = {}, Risk risk = Risk::none);
// `islands`: where puns may lead. `taken_by_others`: what probes that have no room at their own
// sites must not change, in the process's addresses.
ProbeSet plan_probes(std::vector<image::Match> matches, Kind kind,
                     std::span<const HookPlace> hooks = {}, IslandSpace islands = {},
                     std::span<const Range> taken_by_others = {});

// Sets the spans of a set whose probes were planned for their points. A span of which a point was
// skipped is left out.
void set_spans(ProbeSet& set, std::span<const SpanMatches> spans);

// The stub of a patch, emitted where `code` ends; with a link if `link` has a value
// (arch::Displaced). Returns nullopt, and emits nothing, if something that it refers to is out of
// reach from there.
std::optional<arch::Stub> place_stub(arch::Assembler& code, const SitePatch& patch,
                                     const arch::ArenaEntries& arena, const arch::StubSpec& spec,
                                     std::optional<Address> link = {});
// `spec`: what the session has; the rest is the patch's, and the arena's.
std::optional<arch::Stub> place_unwinder_hook(arch::Assembler& code, const SitePatch& patch,
                                              const arch::ArenaEntries& arena,
                                              arch::UnwinderHook spec,
                                              std::optional<Address> link = {});
std::optional<arch::Stub> place_vfork_hook(arch::Assembler& code, const SitePatch& patch,
                                           arch::RseqArea rseq, std::optional<Address> link = {});

}  // namespace pinprick::placement
