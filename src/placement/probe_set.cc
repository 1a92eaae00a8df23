#include "placement/probe_set.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <mutex>
#include <utility>

#include "arch/faults.h"
#include "arch/vfork_hook.h"
#include "base/parallel.h"
#include "base/task.h"
#include "placement/callee.h"
#include "placement/caller_use.h"
#include "placement/function_probes.h"
#include "placement/last_resort.h"

namespace pinprick::placement {
namespace {

// The end of the part in which no thread may be at an instruction boundary, relative to the site.
uint8_t boundaries_end(const plan::Patch& patch) {
  return patch.boundaries.empty() ? uint8_t{0} : static_cast<uint8_t>(patch.boundaries.back() + 1);
}

// Without probes, unwinders and children never come across our code.
bool is_wanted(const HookSite& where, size_t probes) {
  return probes != 0 || !where.hook.is_for_probes();
}

std::optional<SitePatch> plan_hook(const HookSite& where) {
  image::Object& object = *where.object;
  auto code = code_of(object, *where.function);
  if (!code) return std::nullopt;
  if (where.hook.kind == Hook::Kind::vfork) {
    // Here it does not matter that an unwind entry ends before the call, nor what Go's runtime does
    // elsewhere: signals are blocked, and no other thread looks at this stack.
    code->range.end = code->limit();
    code->is_go = false;
  }
  auto planned = plan::plan_site(*code, where.site != 0 ? where.site : plan::entry_site(*code));
  if (!planned) return std::nullopt;
  SitePatch patch;
  patch.object = &object;
  patch.plan = SitePlan(*planned);
  patch.hook = where.hook;
  return patch;
}

arch::Displaced displaced(const SitePatch& patch, std::optional<Address> link) {
  return {patch.site(), patch.original().first(patch.plan.patch.displaced), link};
}

// How many of the first matches are of one function.
size_t same_function(std::span<const image::Match> matches) {
  size_t n = 1;
  while (n < matches.size() && matches[n].function == matches[0].function) ++n;
  return n;
}

// Matches that one thread plans: those of whole functions, together with functions nested in them.
struct MatchPiece {
  size_t first = 0;
  size_t count = 0;
  size_t functions = 0;
};

std::vector<MatchPiece> pieces_of(std::span<const image::Match> matches) {
  constexpr size_t kPiece = 512, kPieceOfInstructions = 64;
  const bool each = std::any_of(matches.begin(), matches.end(),
                                [](const image::Match& match) { return match.each_instruction; });
  const size_t most = each ? kPieceOfInstructions : kPiece;
  std::vector<MatchPiece> pieces;
  Address end = 0;  // of the functions so far
  for (size_t i = 0; i < matches.size();) {
    const Range range = SeenSites::range_of(matches[i]);
    if (pieces.empty() || (pieces.back().count >= most && (!each || range.begin >= end)))
      pieces.push_back({i, 0, 0});
    const size_t n = same_function(matches.subspan(i));
    pieces.back().count += n;
    pieces.back().functions += 1;
    end = std::max(end, range.end);
    i += n;
  }
  return pieces;
}

// Reserves space for all that may be added, so that nothing is moved. Unused space takes no memory.
void reserve_for(std::span<const image::Match> matches, size_t hooks, ProbeSet& set) {
  constexpr uint64_t kShortest = 3, kShortestPatch = 6;  // on average
  size_t probes = 0, patches = hooks;
  for (const image::Match& match : matches) {
    const uint64_t bytes = match.each_instruction ? match.function->range.size() : 0;
    probes += 1 + bytes / kShortest;
    patches += 2 + bytes / kShortestPatch;  // one may need another one nearby
  }
  set.probes.reserve(probes);
  set.patches.reserve(patches);
}

void append_piece(ProbeSet& set, ProbeSet piece) {
  const size_t first_patch = set.patches.size();
  const size_t first_probe = set.probes.size();
  for (SitePatch& patch : piece.patches) {
    patch.probes = {first_probe + patch.probes.first, patch.probes.size()};
    if (patch.plan.depends_on) patch.plan.depends_on = first_patch + *patch.plan.depends_on;
    if (patch.plan.start) patch.plan.start = first_patch + *patch.plan.start;
    set.patches.push_back(std::move(patch));
  }
  for (const Probe& probe : piece.probes)
    set.probes.push_back(probe.of_patch(first_patch + probe.patch));
  std::move(piece.skipped.begin(), piece.skipped.end(), std::back_inserter(set.skipped));
}

// Bytes that only this patch may change, in the process's addresses.
struct Claim {
  Range range;
  size_t patch;
};

// By address.
std::vector<Claim> claims_of(const std::vector<SitePatch>& patches) {
  std::vector<Claim> claims;
  claims.reserve(patches.size());
  for (size_t i = 0; i < patches.size(); ++i) {
    check_cancelled();
    const SitePlan& planned = patches[i].plan;
    const uint64_t bias = patches[i].object->bias();
    const Range claimed = planned.claimed();
    claims.push_back({{claimed.begin + bias, claimed.end + bias}, i});
    if (!planned.trampoline || planned.depends_on) continue;
    const Address trampoline = planned.trampoline->address + bias;
    claims.push_back({{trampoline, trampoline + arch::kJumpLength}, i});
  }
  const auto by_address = [](const Claim& a, const Claim& b) {
    return a.range.begin < b.range.begin;
  };
  if (!std::is_sorted(claims.begin(), claims.end(), by_address))
    std::stable_sort(claims.begin(), claims.end(), by_address);
  check_cancelled();
  return claims;
}

// Adds a prefix to the jumps at the first byte of functions, where no other patch needs the
// additional byte. A patch that another one's trampoline or pun depends on stays as it is.
void add_prefixes(ProbeSet& set) {
  std::vector<bool> has_dependents(set.patches.size());
  for (const SitePatch& patch : set.patches)
    if (patch.plan.depends_on) has_dependents[*patch.plan.depends_on] = true;
  const auto claims = claims_of(set.patches);
  for (size_t c = 0; c < claims.size(); ++c) {
    SitePatch& patch = set.patches[claims[c].patch];
    SitePlan& planned = patch.plan;
    if (!planned.patch.at_start || planned.island || has_dependents[claims[c].patch] ||
        patch.probes.empty() || patch.site() != claims[c].range.begin)
      continue;
    const auto code =
        code_of(*patch.object, *set.matches[set.probes[patch.probes[0]].match].function);
    if (!code || code->range.begin != planned.patch.site) continue;
    const auto longer = plan::with_prefix(*code, planned.patch);
    if (!longer) continue;
    const Address end = longer->touched().end + patch.object->bias();
    if (c + 1 == claims.size() || claims[c + 1].range.begin >= end) {
      planned.patch = *longer;
      planned.boundaries_end = boundaries_end(*longer);
    }
  }
}

// Hooks that are worth no probe: without them, the kernel does the reading.
void drop_unmap_hooks_in_the_way(std::vector<SitePatch>& patches) {
  const auto is_unmap = [](const SitePatch& patch) {
    return patch.hook && patch.hook->kind == Hook::Kind::unmap;
  };
  if (std::none_of(patches.begin(), patches.end(), is_unmap)) return;
  const auto claims = claims_of(patches);
  std::vector<bool> dropped(patches.size());
  for (const Claim& hook : claims)
    if (is_unmap(patches[hook.patch]))
      for (const Claim& claim : claims)
        if (claim.patch != hook.patch && claim.range.overlaps(hook.range))
          dropped[hook.patch] = true;
  size_t kept = 0;
  for (size_t i = 0; i < patches.size(); ++i)
    if (!dropped[i]) {
      if (kept != i) patches[kept] = std::move(patches[i]);
      ++kept;
    }
  patches.resize(kept);
}

// The patches that touch bytes of an earlier one. Within a function the planner keeps them apart,
// but functions may be nested, or overlap. Hooks take precedence over all other patches.
std::vector<bool> colliding(const std::vector<SitePatch>& patches) {
  const auto claims = claims_of(patches);
  std::vector<bool> collides(patches.size());
  for (const Claim& hook : claims)
    if (patches[hook.patch].hook)
      for (const Claim& claim : claims)
        if (claim.patch != hook.patch && claim.range.begin < hook.range.end &&
            hook.range.begin < claim.range.end)
          collides[claim.patch] = true;
  Address taken = 0;
  for (const Claim& claim : claims) {
    if (collides[claim.patch]) continue;
    if (claim.range.begin < taken)
      collides[claim.patch] = true;
    else
      taken = claim.range.end;
  }
  return collides;
}

// In place, as there may be millions of patches, of which a few are dropped.
void drop_collisions(ProbeSet& set) {
  auto collides = colliding(set.patches);
  if (std::find(collides.begin(), collides.end(), true) == collides.end()) return;
  lose_ends(set, collides);
  std::vector<uint32_t> position(set.patches.size());
  size_t patches = 0, probes = 0;
  for (size_t i = 0; i < set.patches.size(); ++i) {
    SitePatch& patch = set.patches[i];
    const IndexRange its_probes = patch.probes;
    position[i] = static_cast<uint32_t>(patches);
    patch.probes = {probes, its_probes.size()};
    for (size_t index : its_probes) {
      const Probe probe = set.probes[index];
      if (collides[i]) {
        const Address site = patch.plan.patch.site + probe.offset;
        set.skipped.push_back({set.match_of(probe), {plan::Reason::neighbour, site}});
        continue;
      }
      set.probes[probes++] = probe.of_patch(position[i]);
    }
    if (collides[i]) continue;
    if (patches != i) set.patches[patches] = std::move(patch);
    ++patches;
  }
  set.patches.resize(patches);
  set.probes.erase(set.probes.begin() + static_cast<ptrdiff_t>(probes), set.probes.end());
  for (SitePatch& patch : set.patches) {
    if (patch.plan.depends_on) patch.plan.depends_on = position[*patch.plan.depends_on];
    if (patch.plan.start) patch.plan.start = position[*patch.plan.start];
  }
}

// Plans last resorts (last_resort.h) for the skipped probes, after all others are planned.
class LastResorts {
 public:
  LastResorts(ProbeSet& set, IslandSpace islands, std::span<const Range> by_others)
      : set_(set),
        islands_(std::move(islands)),
        by_others_(by_others),
        placed_(set.skipped.size()) {}

  void plan();

 private:
  bool place(size_t skipped);
  void add(const plan::PlannedPatch& planned, OptionalIndex depends_on, image::Object& object);
  Address last_after(size_t skipped) const;
  bool is_timed(size_t skipped) const {
    return set_.actions.of(set_.skipped[skipped].match.pattern).times_call();
  }

  ProbeSet& set_;
  IslandSpace islands_;
  std::span<const Range> by_others_;
  std::map<const image::Object*, Taken> taken_;
  std::vector<bool> placed_;  // for each skipped probe
  // Skipped probes that may be placed, by the process's addresses.
  std::multimap<Address, size_t> by_site_;
};

void LastResorts::plan() {
  for (size_t i = 0; i < set_.skipped.size(); ++i)
    if (may_have_last_resort(set_.skipped[i].refusal.reason))
      by_site_.emplace(set_.skipped[i].match.site, i);
  if (by_site_.empty()) return;
  for (size_t i = 0; i < set_.patches.size(); ++i) {
    check_cancelled();
    taken_[set_.patches[i].object].add(set_.patches[i].plan, i);
  }
  for (auto& [object, taken] : taken_)
    for (const Range range : by_others_)
      if (object->extent().contains(range))
        taken.add_of_others({range.begin - object->bias(), range.end - object->bias()});
  for (size_t i = 0; i < set_.skipped.size(); ++i)
    if (!placed_[i] && may_have_last_resort(set_.skipped[i].refusal.reason)) {
      check_cancelled();
      place(i);
    }
  size_t i = 0;
  std::erase_if(set_.skipped, [&](const Skipped&) { return placed_[i++]; });
}

bool LastResorts::place(size_t skipped) {
  const Skipped& one = set_.skipped[skipped];
  image::Object& object = *one.match.object;
  const image::Function& function = *one.match.function;
  const Address site = one.match.site - object.bias();
  Taken& taken = taken_[&object];
  // At a site that others have, too, the probe joins theirs, however it is planned here.
  taken.heed_others(std::none_of(by_others_.begin(), by_others_.end(),
                                 [&](Range range) { return range.begin == site + object.bias(); }));
  const Address last = last_after(skipped) - object.bias();
  const auto found =
      find_last_resort(object, function, site, one.refusal.reason, last, taken, islands_);
  if (!found) return false;
  OptionalIndex depends_on;
  if (found->there) {
    depends_on = *found->there;
    set_.patches[*depends_on].plan.island = found->needed->island;
  } else if (found->needed) {
    depends_on = set_.patches.size();
    SitePatch needed;
    needed.object = &object;
    needed.plan = *found->needed;
    set_.patches.push_back(std::move(needed));
  }
  add(found->patch, depends_on, object);
  return placed_[skipped];
}

// The last of the skipped instructions that follow `site` one after the other.
Address LastResorts::last_after(size_t skipped) const {
  const Address site = set_.skipped[skipped].match.site;
  if (is_timed(skipped)) return site;
  Address last = site;
  for (auto next = by_site_.upper_bound(site);
       next != by_site_.end() && next->first <= last + arch::kMaxInstructionLength &&
       next->first <= site + plan::kFarHopTail;
       ++next)
    last = next->first;
  return last;
}

// Adds the patch, with the probes of all skipped instructions that it displaces. All probes of a
// patch follow each other.
void LastResorts::add(const plan::PlannedPatch& planned, OptionalIndex depends_on,
                      image::Object& object) {
  SitePatch patch;
  patch.object = &object;
  patch.plan = planned;
  patch.plan.depends_on = depends_on;
  const Address begin = patch.site();
  const auto add_probe = [&](size_t i, uint8_t offset) {
    const image::Match& match = set_.skipped[i].match;
    const bool at_entry = match.at_entry();
    const bool is_call =
        at_entry && how_entered(*match.object, *match.function) == Entered::by_call;
    set_.probes.emplace_back(set_.matches.size(), set_.patches.size(), offset, stack_use(is_call));
    set_.matches.push_back(match);
    placed_[i] = true;
  };
  const size_t first = set_.probes.size();
  const auto is_free = [&](size_t i) {
    return !placed_[i] && set_.skipped[i].match.object == &object;
  };
  // A call is timed from the first instruction of the patch, and after all else is done there.
  std::vector<size_t> timed;
  const auto [at, after] = by_site_.equal_range(begin);
  for (auto one = at; one != after; ++one) {
    if (!is_free(one->second)) continue;
    if (is_timed(one->second))
      timed.push_back(one->second);
    else
      add_probe(one->second, 0);
  }
  for (const size_t i : timed) add_probe(i, 0);
  const Address end = begin + patch.plan.patch.displaced;
  for (auto next = after; next != by_site_.end() && next->first < end; ++next)
    if (is_free(next->second) && !is_timed(next->second))
      add_probe(next->second, static_cast<uint8_t>(next->first - begin));
  patch.probes = {first, set_.probes.size() - first};
  set_.patches.push_back(std::move(patch));
}

}  // namespace

SitePlan::SitePlan(const plan::Patch& only)
    : patch(only), boundaries_end(placement::boundaries_end(only)) {}

SitePlan::SitePlan(const plan::PlannedPatch& planned) : SitePlan(planned.patch) {
  trampoline = planned.trampoline;
  island = planned.island;
  ends_in_next_jump = planned.ends_in_next_jump;
}

std::span<const uint8_t> SitePatch::original() const {
  const auto text = object->code_at(plan.claimed());
  assert(text.size() == plan.claimed().size());
  return text;
}

ReturnCandidate return_candidate(image::Object& object, const image::Function& function,
                                 const plan::FunctionCode& code) {
  return {.names = object.functions().names(function),
          .code = code.bytes.first(function.range.size()),
          .entered = Entered::by_jump,
          .is_program_entry = function.range.begin + object.bias() == object.entry(),
          .is_in_unwinder = is_libunwind(object),
          .object = &object,
          .function = &function};
}

// Does the runtime look up faults, or calls, by the addresses of the function's instructions?
static bool is_managed(image::Object& object, const plan::FunctionCode& code) {
  const image::ManagedCode& managed = object.managed_code();
  const bool is_method =
      std::any_of(managed.methods.begin(), managed.methods.end(),
                  [&](Range methods) { return methods.contains(code.range.begin); });
  return is_method ||
         (managed.has_helpers && arch::has_no_frame(code.bytes.first(code.range.size())));
}

// GHC puts the table of each continuation before its first instruction. It makes no unwind entries,
// unlike the C compiler that made other functions of the program.
static bool has_tables(image::Object& object, const image::Function& function) {
  if (!object.managed_code().has_tables) return false;
  const auto& frames = object.frames();
  const auto found = std::lower_bound(
      frames.begin(), frames.end(), function.range.begin,
      [](const image::FrameEntry& frame, Address at) { return frame.code.begin < at; });
  return found == frames.end() || found->code.begin != function.range.begin;
}

std::optional<plan::FunctionCode> code_of(image::Object& object, const image::Function& function) {
  plan::FunctionCode code;
  code.range = function.range;
  code.bytes = object.code(function);
  if (code.bytes.empty()) return std::nullopt;
  code.targets = &object.targets();
  code.reserved = object.reserved();
  if (const image::EntrySite* const site = object.entry_site(function)) code.room = site->room;
  code.is_go = object.elf().is_go();
  code.is_managed = is_managed(object, code);
  code.has_tables = has_tables(object, function);
  return code;
}

static std::vector<image::Object*> objects_of(std::span<const image::Match> matches) {
  std::vector<image::Object*> objects;
  for (const image::Match& match : matches)
    if (objects.empty() || match.object != objects.back()) objects.push_back(match.object);
  return objects;
}

// Of objects that are only hooked, no more text is read than that of the hooked functions.
static void load_objects(std::vector<image::Object*> probed, std::vector<image::Object*> hooked,
                         const action::Actions& actions) {
  std::sort(probed.begin(), probed.end());
  std::vector<image::Object*> objects = probed;
  objects.insert(objects.end(), hooked.begin(), hooked.end());
  std::sort(objects.begin(), objects.end());
  objects.erase(std::unique(objects.begin(), objects.end()), objects.end());
  size_t bytes = 0;
  for (const image::Object* object : objects)
    for (const Range range : object->executable_ranges()) bytes += range.size();
  begin_step("decoding", bytes, "bytes");
  // Text is decoded on all processors. The remaining work for an object, which takes one thread, is
  // done in parallel with the next object.
  constexpr size_t kAtOnce = 2;
  const bool is_at_hand = std::all_of(objects.begin(), objects.end(),
                                      [](image::Object* object) { return object->is_at_hand(); });
  const size_t threads = is_at_hand ? 1 : std::min(kAtOnce, usable_threads());
  for_each_piece(objects.size(), threads, [&](size_t i) {
    if (std::binary_search(probed.begin(), probed.end(), objects[i])) objects[i]->load_text();
    objects[i]->targets();
    if (const auto& all = objects[i]->functions().functions(); !all.empty())
      objects[i]->entry_site(all.front());
    if (!actions.times_calls()) return;
    objects[i]->stack_reading_runtime();
    objects[i]->imported_at(0);
  });
}

void load_code(std::span<const image::Match> matches, std::span<const HookSite> hooks,
               const action::Actions& actions) {
  std::vector<image::Object*> hooked;
  for (const HookSite& where : hooks)
    if (is_wanted(where, matches.size())) hooked.push_back(where.object);
  load_objects(objects_of(matches), std::move(hooked), actions);
}

image::Match ProbeSet::match_of(const Probe& probe) const {
  image::Match match = matches[probe.match];
  if (std::exchange(match.each_instruction, false))
    match.site = patches[probe.patch].site() + probe.offset;
  return match;
}

std::vector<image::Match> instructions_of(std::span<const image::Match> matches) {
  std::vector<image::Match> all;
  SeenSites seen;
  for (size_t i = 0; i < matches.size(); ++i) {
    const image::Match& match = matches[i];
    const auto code =
        match.each_instruction ? code_of(*match.object, *match.function) : std::nullopt;
    if (!code) {
      all.push_back(match);
      continue;
    }
    seen.enter(match, i + 1 < matches.size() ? &matches[i + 1] : nullptr);
    for (Address site : plan::instructions(*code)) {
      image::Match one = match;
      one.each_instruction = false;
      one.site = site + match.object->bias();
      if (seen.is_new(one.site)) all.push_back(one);
    }
  }
  return all;
}

// Looks at all functions that may be timed.
static CallerUse use_of_callers(const image::ProcessImage* image,
                                std::span<const image::Match> matches,
                                const action::Actions& actions) {
  CallerUse callers = image != nullptr ? CallerUse(*image) : CallerUse(objects_of(matches));
  std::vector<image::Match> timed;
  for (const image::Match& match : matches)
    if (actions.of(match.pattern).times_call() && !match.unresolved && !why_no_slots(*match.object))
      timed.push_back(match);
  begin_step("analysing", timed.size(), "functions");
  callers.look_at(timed);
  return callers;
}

ProbeSet plan_probes(std::vector<image::Match> matches, action::Actions actions,
                     std::span<const HookSite> hooks, IslandSpace islands,
                     std::span<const Range> taken_by_others, const image::ProcessImage* image,
                     Ends ends) {
  const auto by_site = [](const image::Match& a, const image::Match& b) { return a.site < b.site; };
  if (!std::is_sorted(matches.begin(), matches.end(), by_site))
    std::stable_sort(matches.begin(), matches.end(), by_site);
  load_code(matches, hooks, actions);
  std::optional<CallerUse> callers;
  if (actions.times_calls() && ends != Ends::exits)
    callers = use_of_callers(image, matches, actions);
  std::map<const image::Object*, FunctionParts> parts;
  if (actions.times_calls() && ends != Ends::slots)
    for (image::Object* const object : objects_of(matches)) parts.try_emplace(object, *object);
  const auto pieces = pieces_of(matches);
  size_t functions = 0;
  for (const MatchPiece& piece : pieces) functions += piece.functions;
  begin_step("planning", functions, "functions");
  ProbeSet set;
  set.actions = std::move(actions);
  reserve_for(matches, hooks.size(), set);
  set.matches = std::move(matches);
  // Each piece's part is appended as soon as those before it were, so that few are kept at a time.
  std::vector<std::optional<ProbeSet>> planned(pieces.size());
  std::mutex mutex;
  size_t taken = 0;
  // A few functions take less time than a thread for them.
  constexpr size_t kFewFunctions = 16;
  for_each_piece(
      pieces.size(), functions <= kFewFunctions ? 1 : usable_threads(), [&](size_t number) {
        const MatchPiece& piece = pieces[number];
        ProbeSet part;
        SeenSites seen;
        const size_t end = piece.first + piece.count;
        for (size_t i = piece.first; i < end;) {
          advance(1);
          const size_t n = same_function(std::span(set.matches).subspan(i, end - i));
          seen.enter(set.matches[i], i + n < end ? &set.matches[i + n] : nullptr);
          FunctionProbes(std::span(set.matches).subspan(i, n), i, set.actions,
                         callers ? &*callers : nullptr, ends,
                         parts.empty() ? nullptr : &parts.at(set.matches[i].object), part)
              .plan(seen);
          i += n;
        }
        const std::lock_guard lock(mutex);
        planned[number] = std::move(part);
        for (; taken < planned.size() && planned[taken]; ++taken) {
          append_piece(set, *std::exchange(planned[taken], std::nullopt));
        }
      });
  LastResorts(set, std::move(islands), taken_by_others).plan();
  for (const HookSite& where : hooks) {
    if (!is_wanted(where, set.probes.size())) continue;
    if (auto hook = plan_hook(where)) set.patches.push_back(*std::move(hook));
  }
  drop_unmap_hooks_in_the_way(set.patches);
  add_prefixes(set);
  drop_collisions(set);
  return set;
}

ProbeSet plan_probes(const image::ProcessImage& image, std::vector<image::Match> matches,
                     action::Actions actions, std::span<const HookSite> others, Risk risk,
                     Ends ends) {
  const bool times = actions.times_calls();
  const auto is_timed = [&](const image::Match& match) {
    return actions.of(match.pattern).times_call();
  };
  // The C library is scanned for vforks: beside the others.
  load_objects(objects_of(matches), objects_with_vforks(image), actions);
  const bool has_slots = times && ends != Ends::exits;
  std::vector<HookSite> hooks = hook_sites(image, has_slots ? Search::by_code : Search::by_names);
  // A site where no jump fits is not hooked.
  if (has_slots && !matches.empty()) {
    load_code(matches, hooks, actions);
    std::erase_if(hooks, [](const HookSite& where) { return !plan_hook(where); });
  }
  const bool is_unknown = has_slots && may_unwind_elsewhere(image, hooks);
  const auto vforks = vfork_sites(image);
  if (vforks) hooks.insert(hooks.end(), vforks->begin(), vforks->end());
  const auto filters = actions.follows_pointers() ? filter_sites(image) : std::nullopt;
  if (filters) hooks.insert(hooks.end(), filters->begin(), filters->end());
  const auto unmaps = actions.follows_pointers() ? unmap_sites(image) : std::nullopt;
  if (unmaps) hooks.insert(hooks.end(), unmaps->begin(), unmaps->end());
  hooks.insert(hooks.end(), others.begin(), others.end());
  std::vector<Skipped> skipped;
  const auto skip = [&](const image::Match& match, plan::Reason reason) {
    skipped.push_back({match, {reason, match.site - match.object->bias()}});
  };
  if (is_unknown && risk == Risk::none)
    std::erase_if(matches, [&](const image::Match& match) {
      if (is_timed(match)) skip(match, plan::Reason::may_be_unwound);
      return is_timed(match);
    });
  if (has_slots && !matches.empty()) {
    const UnwinderCode code = unwinder_code(image, Search::by_code);
    const auto unwinds = [&](const image::Match& match) {
      return is_timed(match) &&
             std::any_of(code.ranges.begin(), code.ranges.end(),
                         [&](Range range) { return range.contains(match.site); });
    };
    const auto first = std::stable_partition(
        matches.begin(), matches.end(), [&](const image::Match& match) { return !unwinds(match); });
    std::for_each(first, matches.end(),
                  [&](const image::Match& match) { skip(match, plan::Reason::returns_otherwise); });
    matches.erase(first, matches.end());
  }
  ProbeSet set = plan_probes(std::move(matches), std::move(actions), hooks,
                             IslandSpace::around(image), image.taken, &image, ends);
  set.may_unwind_elsewhere = is_unknown;
  set.skipped.insert(set.skipped.end(), std::make_move_iterator(skipped.begin()),
                     std::make_move_iterator(skipped.end()));
  const auto has_all = [&](Hook::Kind kind, const std::optional<std::vector<HookSite>>& sites) {
    const auto planned = std::count_if(
        set.patches.begin(), set.patches.end(),
        [&](const SitePatch& patch) { return patch.hook && patch.hook->kind == kind; });
    return sites && static_cast<size_t>(planned) == sites->size();
  };
  set.marks_children = has_all(Hook::Kind::vfork, vforks);
  set.watches_filters = has_all(Hook::Kind::filter, filters);
  set.watches_unmaps = has_all(Hook::Kind::unmap, unmaps);
  return set;
}

void lose_ends(ProbeSet& set, std::vector<bool>& lost) {
  auto& patches = set.patches;
  for (bool is_any = true; is_any;) {
    is_any = false;
    for (size_t i = 0; i < patches.size(); ++i) {
      const SitePlan& planned = patches[i].plan;
      if (planned.depends_on && lost[*planned.depends_on] && !lost[i]) is_any = lost[i] = true;
      if (!planned.ends_calls() || !lost[i]) continue;
      SitePlan& start = patches[*planned.start].plan;
      if (start.timing == CallTiming::by_exits) start.time_by_slots();
      if (start.timing == CallTiming::only_by_exits && !lost[*planned.start])
        is_any = lost[*planned.start] = true;
    }
    for (size_t i = 0; i < patches.size(); ++i) {
      SitePlan& planned = patches[i].plan;
      if (!planned.ends_calls() || lost[i]) continue;
      const size_t start = *planned.start;
      if (!lost[start] && patches[start].plan.is_timed_by_exits()) continue;
      // Others may have probes there.
      if (patches[i].probes.empty())
        is_any = lost[i] = true;
      else
        planned.start = {};
    }
  }
}

// A function's entry may be given as its first instruction, or as the one after an endbr64; there
// is one probe for both.
void set_spans(ProbeSet& set, std::span<const SpanMatches> spans) {
  const auto match_of = [&](const image::Match& point) -> OptionalIndex {
    OptionalIndex found;
    Address at = 0;
    for (const Probe& probe : set.probes) {
      const image::Match& match = set.matches[probe.match];
      const action::Action& action = set.actions.of(match.pattern);
      if (action.kind != Kind::span || action.measure != set.actions.of(point.pattern).measure)
        continue;
      const Address site = set.patches[probe.patch].site() + probe.offset;
      if (match.function != point.function || site < point.site) continue;
      if (site != point.site && !(point.at_entry() && match.at_entry())) continue;
      if (found && at <= site) continue;
      found = probe.match;
      at = site;
    }
    return found;
  };
  const auto matches_of = [&](const std::vector<image::Match>& points) {
    std::vector<size_t> found;
    for (const image::Match& point : points)
      if (const OptionalIndex match = match_of(point)) found.push_back(*match);
    return found;
  };
  for (const SpanMatches& span : spans) {
    Span planned = {span.text, matches_of(span.starts), matches_of(span.ends)};
    if (planned.starts.size() == span.starts.size() && planned.ends.size() == span.ends.size())
      set.spans.push_back(std::move(planned));
  }
}

bool Span::starts_at(size_t match) const {
  return std::find(starts.begin(), starts.end(), match) != starts.end();
}

bool Span::ends_at(size_t match) const {
  return std::find(ends.begin(), ends.end(), match) != ends.end();
}

namespace {

// Returns the stub that `emit` emits into `code`; nullopt, with the code removed again, if a target
// is out of reach.
template <class F>
std::optional<arch::Stub> placed_by(arch::Assembler& code, F&& emit) {
  const size_t before = code.size();
  std::optional<arch::Stub> stub = emit();
  if (!code.settle()) {
    code.take_back(before);
    stub.reset();
  }
  return stub;
}

}  // namespace

std::optional<arch::Stub> place_stub(arch::Assembler& code, const SitePatch& patch,
                                     const arch::ArenaEntries& arena, const arch::StubSpec& spec,
                                     std::optional<Address> link) {
  return placed_by(code,
                   [&] { return arch::emit_stub(code, arena, spec, displaced(patch, link)); });
}

std::optional<arch::Stub> place_unwinder_hook(arch::Assembler& code, const SitePatch& patch,
                                              const arch::ArenaEntries& arena,
                                              arch::UnwinderHook spec,
                                              std::optional<Address> link) {
  spec.functions = patch.hook->functions;
  using At = arch::UnwinderHook::At;
  spec.at = patch.hook->kind == Hook::Kind::unwinder       ? At::unwinder
            : patch.hook->kind == Hook::Kind::object_table ? At::object_table
                                                           : At::object_list;
  spec.askers = patch.hook->askers;
  spec.tells_of_tables = arena.tells_of_tables;
  return placed_by(code,
                   [&] { return arch::emit_unwinder_hook(code, spec, displaced(patch, link)); });
}

std::optional<arch::Stub> place_vfork_hook(arch::Assembler& code, const SitePatch& patch,
                                           arch::RseqArea rseq, std::optional<Address> link) {
  return placed_by(code, [&] { return arch::emit_vfork_hook(code, rseq, displaced(patch, link)); });
}

}  // namespace pinprick::placement
