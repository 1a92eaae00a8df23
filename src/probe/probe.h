// Probes, planned: which site, how, and with what stub. Pure but for the lazy loading of objects.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arch/x86_64/stub.h"
#include "base/index_range.h"
#include "image/match.h"
#include "plan/function_plan.h"
#include "probe/hooks.h"
#include "probe/landing_space.h"
#include "probe/return_probes.h"

namespace pinprick::probe {

enum class Kind : uint8_t { count, latency };

// Bytes that change in an object's text, and the probes that are reached through them.
struct SitePatch {
  image::Object* object = nullptr;
  plan::PlannedPatch plan;  // in the object's own addresses
  IndexRange probes;        // of plan.points, in that order
  // As plan.host, but among all; and of a pun that ends in another one's jump, that one.
  std::optional<size_t> host;
  std::shared_ptr<const Hook> hook;  // of which there are few; not for probes

  Address site() const { return plan.patch.site + object->bias(); }
};

// There may be one for each instruction of a program, millions: so it has no name of its own.
struct Probe {
  uint32_t match = 0;  // index into ProbeSet::matches
  uint32_t patch = 0;
  uint8_t offset = 0;  // of the probed instruction, from its patch's site
  bool keep_red_zone = false;
};
static_assert(sizeof(Probe) == 12);

struct Skipped {
  image::Match match;  // of one instruction, or of all if its function cannot be read
  plan::Refusal refusal;
};

struct ProbeSet {
  Kind kind = Kind::count;
  std::vector<image::Match> matches;
  // By object and address; then those that found their place last, and hooks.
  std::vector<SitePatch> patches;
  std::vector<Probe> probes;  // by patch
  std::vector<Skipped> skipped;
  // All children that will share the process's memory are marked by hooks of this set.
  bool marks_children = false;
  bool may_unwind_elsewhere = false;  // hooks.h; of a whole process, and where calls are timed

  // The match of this one instruction: the entry of a function is where it begins.
  image::Match match_of(const Probe& probe) const;
};

// What planning has to know of a function; nothing if its code cannot be read.
std::optional<plan::FunctionCode> code_of(image::Object& object, const image::Function& function);

// What decides whether the function's calls can be measured.
ReturnCandidate return_candidate(image::Object& object, const image::Function& function,
                                 const plan::FunctionCode& code, bool is_called);

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
// `landings`: where puns may lead.
ProbeSet plan_probes(std::vector<image::Match> matches, Kind kind,
                     std::span<const HookPlace> hooks = {}, LandingSpace landings = {});

// The stub of a patch, emitted where `code` ends. Nothing, and nothing is emitted: something that
// it refers to is out of reach from there. `points`: the patch's probes.
std::optional<arch::Stub> place_count_stub(arch::Assembler& code, const SitePatch& patch,
                                           const arch::ArenaEntries& arena,
                                           std::optional<arch::RseqArea> rseq,
                                           std::span<const arch::CountPoint> points);
std::optional<arch::Stub> place_return_stub(arch::Assembler& code, const SitePatch& patch,
                                            const arch::ArenaEntries& arena,
                                            const arch::ReturnStub& spec);
// `spec`: what the session has; the rest is the patch's, and the arena's.
std::optional<arch::Stub> place_unwinder_hook(arch::Assembler& code, const SitePatch& patch,
                                              const arch::ArenaEntries& arena,
                                              arch::UnwinderHook spec);
std::optional<arch::Stub> place_vfork_hook(arch::Assembler& code, const SitePatch& patch,
                                           arch::RseqArea rseq);
std::optional<arch::Stub> place_routine_hook(arch::Assembler& code, const SitePatch& patch,
                                             std::span<const uint8_t> routine, Address argument);

}  // namespace pinprick::probe
