// Plans a set of probes: at which sites, by which patches, and with which stubs. Pure, but for the
// lazy loading of objects; one thread at a time for a set of objects.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "action/action.h"
#include "action/at_return.h"
#include "action/compile.h"
#include "arch/stub.h"
#include "base/index_range.h"
#include "base/rare.h"
#include "image/match.h"
#include "layout/session_file.h"
#include "placement/ends.h"
#include "placement/hooks.h"
#include "placement/island_space.h"
#include "placement/return_probes.h"
#include "plan/function_plan.h"
#include "select/operand.h"
#include "select/value.h"

namespace pinprick::placement {

using action::Kind;

// For Kind::span: the time from a hit of one point to the next hit of another, or of the same, in
// the same thread; and how the user wrote it. An SDT point has a site for each place in which the
// compiler has put it, and a hit of any of them counts. Other points have one.
struct Span {
  std::string text;
  std::vector<size_t> starts, ends;  // indices into ProbeSet::matches; never empty

  bool starts_at(size_t match) const;
  bool ends_at(size_t match) const;
};
struct SpanMatches {
  std::string text;
  std::vector<image::Match> starts, ends;
};

// What is kept of a PlannedPatch, of which there may be millions. The rest follows from other data:
// the original bytes from the object, the points from the probes, and the instruction boundaries
// under the jump from the stub's out-of-line copies. In the object's own addresses.
struct SitePlan {
  SitePlan() = default;
  // The caller sets `depends_on`, as an index into all patches.
  SitePlan(const plan::PlannedPatch& planned);
  explicit SitePlan(const plan::Patch& only);

  plan::Window patch;
  Rare<plan::Trampoline> trampoline;
  Rare<Address> island;
  bool ends_in_next_jump = false;
  // No thread may be at an instruction boundary before this offset, except at the first one.
  uint8_t boundaries_end = 0;
  CallTiming timing = CallTiming::by_slot;
  uint8_t end_offset = 0;  // of the exit, if calls end in the patch, from its site
  // As PlannedPatch::depends_on, but an index into all patches. A pun that ends in another patch's
  // jump depends on that patch.
  OptionalIndex depends_on;
  // If calls end in the patch: that in which they start, which may be the same.
  OptionalIndex start;

  bool ends_calls() const { return static_cast<bool>(start); }
  bool has_inner_end() const { return ends_calls() && end_offset != 0; }
  bool is_timed_by_exits() const { return timing != CallTiming::by_slot; }
  // The calls that start here are timed by slots. Their other ends are of no use then.
  void time_by_slots() {
    timing = CallTiming::by_slot;
    start = {};
  }
  bool is_pun() const { return plan::is_pun(*this); }
  uint8_t own() const { return plan::own_bytes(*this); }
  Range claimed() const { return plan::claimed_by(*this); }
};
static_assert(sizeof(SitePlan) == 48);

// Bytes that change in an object's text, and the probes that are reached through them.
struct SitePatch {
  image::Object* object = nullptr;
  SitePlan plan;
  // Those of the planned points, in that order; of one point, that which times calls is the last.
  IndexRange probes;
  Rare<Hook> hook;  // set if the patch is a hook, and not for probes

  Address site() const { return plan.patch.site + object->bias(); }
  // The bytes that the patch claims, as they were when it was planned. Valid as long as the object.
  std::span<const uint8_t> original() const;
};
static_assert(sizeof(SitePatch) == 72);

// Small, as there may be one for each instruction of a program.
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
  image::Match match;  // one instruction, or the whole match if its function cannot be read
  plan::Refusal refusal;
};

inline action::Scope scope_of(const image::Match& match) {
  const void* const point = match.point;
  return {point != nullptr ? point : match.function, match.site};
}

struct ProbeSet {
  action::Actions actions = Kind::count;
  std::vector<image::Match> matches;
  // The variables that arguments of the points lie in, and their addresses; of thread-local ones
  // the distance from the thread pointer.
  std::map<std::pair<const image::Object*, std::string>, Address> variables;
  std::vector<Span> spans;  // for Kind::span
  // By object and address; then the last resorts, then hooks.
  std::vector<SitePatch> patches;
  std::vector<Probe> probes;  // by patch
  std::vector<Skipped> skipped;
  // Hooks of this set mark all children that will share the process's memory.
  bool marks_children = false;
  // Hooks of this set know of all filters of system calls before they are installed.
  bool watches_filters = false;
  // They come before all system calls that may take memory away which hits read.
  bool watches_unmaps = false;
  bool may_unwind_elsewhere = false;  // see hooks.h; only set for a process whose calls are timed

  // Its expressions have what names mean there.
  const action::Action& action_of(const Probe& probe) const {
    const image::Match& match = matches[probe.match];
    return actions.of(match.pattern, scope_of(match));
  }
  Kind kind_of(const Probe& probe) const { return action_of(probe).kind; }
  bool times_call(const Probe& probe) const { return action_of(probe).times_call(); }
  // Return what a hit records, if its action has a value, and its condition, which is empty if it
  // has none. An argument of an SDT point is taken from where the site has it; the set has no sites
  // where a hit cannot read it.
  arch::Expression value_of(const Probe& probe) const;
  // The key by which it counts or records: empty if there is none, and a constant if it has a sum
  // alone; and what it adds up, which is empty if there is nothing.
  arch::Expression key_of(const Probe& probe) const;
  arch::Expression sum_of(const Probe& probe) const;
  // How what is added up is ordered, if its extremes are kept.
  std::optional<layout::NumberOrder> order_of_extremes(const Probe& probe) const;
  arch::Expression condition_of(const Probe& probe) const;
  // Returns the values of an event, in the order of the action's fields.
  std::vector<arch::Expression> fields_of(const Probe& probe) const;
  // Returns what the probe does at the return of a call that keeps these values.
  arch::AtReturn at_return_of(const Probe& probe,
                              const std::vector<select::Expression>& kept) const;
  // Do all that time the calls of a patch say the same of their arguments?
  action::Entry entry_of(const SitePatch& patch) const;
  // Returns what calls keep of their entry for all the probes of a patch, and how it is computed.
  std::vector<select::Expression> kept_values(const SitePatch& patch) const;
  arch::Expression compiled_at_entry(const SitePatch& patch, const select::Expression& kept) const;
  bool has_signed_value(const Probe& probe) const;
  // What the parts of the action's key are, if that is a list.
  layout::KeyParts key_parts(const Probe& probe) const;
  // Are the results of the action's key or sum negative from 2^63 on?
  bool is_signed(const Probe& probe, const action::Computed& what) const;
  // The match of the probe's instruction alone.
  image::Match match_of(const Probe& probe) const;

 private:
  arch::Expression compiled(const Probe& probe, const action::Computed& what) const;
  action::Found source_of(const image::Match& match, const select::Value& wanted) const;
};

// What planning needs to know of a function; nullopt if its code cannot be read.
std::optional<plan::FunctionCode> code_of(image::Object& object, const image::Function& function);

// What decides whether the function's calls can be timed, except for `entered` (callee.h).
ReturnCandidate return_candidate(image::Object& object, const image::Function& function,
                                 const plan::FunctionCode& code);

// Makes the objects load all that planning asks them for, as only one thread may be the first to
// ask an object.
void load_code(std::span<const image::Match> matches, std::span<const HookSite> hooks = {},
               const action::Actions& actions = Kind::count);

// Replaces each match that asks for every instruction of a function by one match for each, as
// plan::instructions() returns them. None comes twice, although functions may be nested.
std::vector<image::Match> instructions_of(std::span<const image::Match> matches);

// Whether calls are timed even though an exception that passes through one may end the program.
enum class Risk : bool { none, unknown_unwinder };

// Plans probes in a process, with the hooks that they need, and these others.
//
// An instruction may have several matches, of several actions. Each has a probe of its own there.
// Of several of one action, the first one has it.
ProbeSet plan_probes(const image::ProcessImage& image, std::vector<image::Match> matches,
                     action::Actions actions, std::span<const HookSite> others = {},
                     Risk risk = Risk::none, Ends ends = Ends::automatic);
// Plans probes with these hooks. Puns lead into `islands`. Last resorts do not change the ranges in
// `taken_by_others`, in the process's addresses. `image` shows where functions jump to in other
// objects; if it is null, only the objects of the matches are known.
ProbeSet plan_probes(std::vector<image::Match> matches, action::Actions actions,
                     std::span<const HookSite> hooks = {}, IslandSpace islands = {},
                     std::span<const Range> taken_by_others = {},
                     const image::ProcessImage* image = nullptr, Ends ends = Ends::automatic);

// Sets the spans of a set whose probes were planned for their points. A span with a skipped point
// is left out.
void set_spans(ProbeSet& set, std::span<const SpanMatches> spans);

// `lost` marks patches that cannot be placed. Marks the others that are of no use without them:
// patches that depend on a marked one, and the other ends of the same calls. Such calls are then
// timed by slots. If they can have no slot, they are not timed, and the patch at which they start
// is marked, too.
void lose_ends(ProbeSet& set, std::vector<bool>& lost);

// Emits the stub of a patch at the end of `code`, with a link if `link` has a value
// (arch::Displaced). Returns nullopt, and emits nothing, if a target is out of reach from there.
std::optional<arch::Stub> place_stub(arch::Assembler& code, const SitePatch& patch,
                                     const arch::ArenaEntries& arena, const arch::StubSpec& spec,
                                     std::optional<Address> link = {});
// The same for hooks. `spec` has what is the session's; the rest is taken from the patch and the
// arena.
std::optional<arch::Stub> place_unwinder_hook(arch::Assembler& code, const SitePatch& patch,
                                              const arch::ArenaEntries& arena,
                                              arch::UnwinderHook spec,
                                              std::optional<Address> link = {});
std::optional<arch::Stub> place_vfork_hook(arch::Assembler& code, const SitePatch& patch,
                                           arch::RseqArea rseq, std::optional<Address> link = {});

}  // namespace pinprick::placement
