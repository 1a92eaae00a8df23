// Arming: what is built, and how much room it takes.
#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <mutex>
#include <span>
#include <unordered_map>

#include "base/clock.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "base/task.h"
#include "engine/arming.h"
#include "engine/kept_memory.h"
#include "plan/pun.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using target::AttachCause;

// Stubs begin at multiples of this: their records and descriptors are aligned then.
constexpr uint64_t kStubAlignment = 8;
// What is not used between stubs is described in pieces of so many bytes.
constexpr uint64_t kGap = 4096;

// Pages that puns lead to, as few ranges as they make.
std::vector<Range> pages_of_islands(const std::vector<placement::SitePatch>& patches,
                                    const std::vector<uint32_t>& puns) {
  std::vector<Address> pages;
  pages.reserve(puns.size());
  for (size_t i : puns)
    pages.push_back(align_down(*patches[i].plan.island + patches[i].object->bias(), kPageSize));
  std::sort(pages.begin(), pages.end());
  std::vector<Range> ranges;
  for (Address page : pages) {
    if (ranges.empty() || ranges.back().end < page) ranges.push_back({page, 0});
    ranges.back().end = page + kPageSize;
  }
  return ranges;
}

}  // namespace

std::optional<arch::Stub> Arming::place_stub(const placement::SitePatch& patch,
                                             arch::Assembler& code,
                                             const arch::ArenaEntries& entries,
                                             std::vector<arch::StubAction>& actions) const {
  using arch::StackUse;
  if (patch.hook && patch.hook->kind == placement::Hook::Kind::vfork)
    return placement::place_vfork_hook(code, patch, rseq_.value_or(arch::RseqArea{}),
                                       plan_.link_of(index_of(patch)));
  if (patch.hook && patch.hook->is_for_unwinding())
    return placement::place_unwinder_hook(code, patch, entries, hook_,
                                          plan_.link_of(index_of(patch)));
  arch::Metric metric;
  actions.clear();
  if (patch.hook) {
    actions.push_back({.what = arch::CallRoutine{.routine = runtime::loader_handshake_code(),
                                                 .argument = loader_cell()}});
  } else if (times() && !patch.probes.empty()) {
    const size_t i = patch.probes[0];
    metric = metric_of(session_.journal_.header, i);
    actions.push_back({.what = arch::TimeCall{.metrics = {&metric, 1}}});
  } else {
    const bool is_go = patch.object->elf().is_go();
    for (size_t i : patch.probes) {
      arch::StubAction action = {.offset = static_cast<uint8_t>(set_.probes[i].offset),
                                 .stack = is_go ? StackUse::none : set_.probes[i].stack(),
                                 .what = {}};
      if (has_spans()) {
        add_span_actions(set_, session_.journal_.header, i, action, actions);
        continue;
      }
      action.what = action_of(i);
      actions.push_back(action);
    }
  }
  return placement::place_stub(
      code, patch, entries,
      {.rseq = rseq_, .has_switches = options_.has_switches && !patch.hook, .actions = actions},
      plan_.link_of(index_of(patch)));
}

// Of a probe that counts, or records a value.
decltype(arch::StubAction::what) Arming::action_of(size_t probe) const {
  if (set_.kind != placement::Kind::value)
    return arch::CountHit{static_cast<uint32_t>(layout::counter_offset(probe))};
  const select::Value& value = set_.value_of(set_.probes[probe]).value;
  return arch::RecordValue{metric_of(session_.journal_.header, probe), value.register_number,
                           value.bytes};
}

// In the target. 0 before anything is laid out.
Address Arming::loader_cell() const {
  const layout::Session& journal = session_.journal_;
  if (journal.mappings.empty()) return 0;
  return journal.mappings[mapping_of(MappingEntry::Kind::cells)].address +
         (journal.header.loader_cell_offset - journal.header.cells_offset);
}

// How large arenas have to be is known before any stub is emitted, but for those of hooks, of which
// there are few: no size depends on the address. Memory that stubs do not need is never touched.
Result<void, ledger::SessionError> Arming::lay_out() {
  constexpr size_t kPiece = 512;
  if (times()) hook_.slot_code = {0, 1};
  put_known_first(set_);
  others_ = OtherSites::find(target().pid(), target().memory());
  share_sites(plan_, others_, target().memory());
  if (may_any_be_known(set_))
    if (const auto maps = image::read_maps(target().pid()))
      lead_through_kept_stubs(plan_, kept_stubs(target().memory(), *maps), target().memory());
  plan_.note_dependencies();
  plan_.states.resize(set_.patches.size());
  islands_ = pages_of_islands(set_.patches, plan_.puns);
  for (size_t i = 0; i < set_.patches.size(); ++i) {
    check_cancelled();
    const placement::SitePatch& patch = set_.patches[i];
    if (arenas_.empty() || arenas_.back().object != patch.object) {
      arenas_.push_back({});
      arenas_.back().object = patch.object;
      // Magic, tables and the shared routine.
      arenas_.back().size = 640 + 8 * uint64_t{usable_cpus()};
      if (!options_.count_children)
        arenas_.back().size += arch::tables_in_arena(usable_cpus()).end + kPageSize;
    }
    Arena& arena = arenas_.back();
    if (arena.patches.empty()) arena.patches = {i, 0};
    if (arena.patches.size() % kPiece == 0) {
      pieces_.push_back({});
      pieces_.back().arena = arenas_.size() - 1;
      pieces_.back().patches = {i, 0};
    }
    const uint64_t room = most_room(patch);
    pieces_.back().patches.count += 1;
    pieces_.back().room += room;
    arena.patches.count += 1;
    arena.size += room;
  }
  lay_out_unwind_tables();
  return {};
}

// No stub of the patch takes more.
uint64_t Arming::most_room(const placement::SitePatch& patch) const {
  if (!patch.hook) {
    size_t parts = patch.probes.size();
    if (has_spans()) {
      parts = 0;
      for (size_t i : patch.probes) parts += count_span_actions(set_, i);
    }
    // Few stubs lie at a page's end, but each may.
    const size_t edits =
        (may_be_known(patch) ? 1 : 0) +
        (plan_.kind_of_link(index_of(patch)) != layout::SiteEntry::Link::none ? 1 : 0) +
        (options_.has_switches ? patch.probes.size() : 0);
    return align_up(arch::most_stub_bytes(parts, patch.plan.patch.displaced), kStubAlignment) +
           edits * kStubAlignment;
  }
  const Address at = align_up(patch.site(), kStubAlignment);
  arch::Assembler code(at);
  std::vector<arch::StubAction> actions;
  const arch::ArenaEntries entries = {.cpu_table = at,
                                      .locked_count = at,
                                      .count_for_probe = at,
                                      .count_for_probe_in_red_zone = at,
                                      .tells_of_tables = at,
                                      .enter_pointer = at,
                                      .frames = {}};
  place_stub(patch, code, entries, actions);
  return align_up(code.size(), kStubAlignment);
}

std::string Arming::shape_of(size_t patch, const arch::Stub& stub, Address at,
                             uint64_t room) const {
  const auto hidden = plan_.hidden.find(patch);
  return arch::StubShapes::shape_of(
      stub.frames, at, room,
      hidden == plan_.hidden.end() ? std::span<const uint8_t>() : std::span(hidden->second));
}

// Room for tables of as many stubs, with as much to say of them as there may be.
void Arming::lay_out_unwind_tables() {
  arch::StubShapes shapes;
  const uint16_t any = shapes.of_end();
  uint64_t shape_bytes = 0;
  for (const StubPiece& piece : pieces_) {
    arenas_[piece.arena].frames.shapes.resize(
        arenas_[piece.arena].frames.shapes.size() + piece.patches.size() + piece.room / kGap + 1,
        any);
    shape_bytes += (piece.patches.size() + 1) *
                   arch::StubShapes::most_bytes(piece.room / piece.patches.size());
  }
  for (Arena& arena : arenas_) {
    arch::Assembler head(0);
    const std::vector<Address> cpus(usable_cpus());
    arch::ArenaSpec spec;
    spec.cpu_cells = cpus;
    arena.routines = arch::emit_arena_header(head, spec).frames;
  }
  if (has_histograms()) runtime_frames_ = runtime::image_frames(0);
  arch::Assembler tables(0);
  const auto header = arch::emit_unwind_tables(tables, unwind_spec(shapes));
  hook_.range_count = static_cast<uint32_t>(header.range_count);
  unwind_room_ = align_up(
      header.size + std::min<uint64_t>(shape_bytes, arch::StubShapes::kMostBytes + UINT16_MAX),
      kStubAlignment);
  arenas_.front().size += unwind_room_;
  for (Arena& arena : arenas_) arena.frames.shapes.clear();
}

arch::UnwindSpec Arming::unwind_spec(const arch::StubShapes& shapes) const {
  arch::UnwindSpec spec;
  spec.slots = {hook_.slot_code, hook_.slots, PP_RECORD_SITE};
  spec.shapes = &shapes;
  if (!runtime_frames_.empty()) spec.code.push_back(runtime_frames_);
  for (const Arena& arena : arenas_) {
    spec.code.push_back(arena.routines);
    spec.arenas.push_back(arena.frames);
  }
  for (size_t i : plan_.with_trampoline) {
    const placement::SitePatch& patch = set_.patches[i];
    spec.trampolines.push_back(
        {patch.plan.trampoline->address + patch.object->bias(), patch.site()});
  }
  for (size_t i : plan_.puns)
    spec.trampolines.push_back({island_of(set_.patches[i]), set_.patches[i].site()});
  return spec;
}

Address Arming::island_of(const placement::SitePatch& patch) const {
  const Address island = *patch.plan.island + patch.object->bias();
  const auto& mappings = session_.journal_.mappings;
  const bool is_mapped =
      std::any_of(mappings.begin(), mappings.end(), [&](const MappingEntry& entry) {
        return entry.kind == MappingEntry::Kind::islands && island - entry.address < entry.size;
      });
  return is_mapped ? island : 0;
}

// Where puns lead. Of stubs that are not there nobody comes.
Result<void, ledger::SessionError> Arming::write_trampolines() {
  for (const MappingEntry& entry : journal().mappings) {
    if (entry.kind != MappingEntry::Kind::islands || entry.address == 0) continue;
    std::vector<uint8_t> bytes(entry.size - placement::kIslandMarkSize, arch::kBreakpoint);
    for (size_t pun = 0; pun < plan_.puns.size(); ++pun) {
      if (!plan_.is_armed(plan_.puns[pun])) continue;
      const Address offset = island_of(set_.patches[plan_.puns[pun]]) - entry.address;
      if (offset >= bytes.size()) continue;
      const Address at = entry.address + offset;
      const auto jump = arch::encode_indirect_jump(at, at + arch::kIndirectJumpLength);
      std::copy(jump->begin(), jump->end(), bytes.begin() + static_cast<ptrdiff_t>(offset));
      const Address stub = stubs_of_puns_[pun];
      std::memcpy(bytes.data() + offset + jump->size(), &stub, sizeof stub);
    }
    if (auto written = target().memory().write(entry.address, bytes); !written)
      return fail(
          ledger::SessionError(attach_error(AttachCause::memory_refused, written.error().number)));
  }
  return {};
}

runtime::RuntimeSpec Arming::runtime_spec() const {
  const layout::FileHeader& header = session_.journal_.header;
  runtime::RuntimeSpec spec;
  spec.capacity = capacity_;
  spec.callers_size = callers_size_;
  spec.spans = set_.spans.size();
  spec.slot_count = std::min(capacity_, kFirstSlots + kSlotsPerCpu * usable_cpus());
  spec.cpu_count = usable_cpus();
  spec.cell_regions = header.cpu_count;
  spec.most_fraction_bits = header.fraction_bits;
  spec.rseq = rseq_;
  spec.ns_multiplier = header.ns_multiplier;
  spec.cells = session_.journal_.mappings[mapping_of(MappingEntry::Kind::cells)].address;
  spec.region_size = header.region_size;
  if (header.pool_offset != 0) {
    const auto in_target = [&](uint64_t offset) {
      return spec.cells + (offset - header.cells_offset);
    };
    spec.blocks = {in_target(header.pool_offset),
                   in_target(layout::end_of_blocks(header, header.pool_size))};
    spec.has_pool = true;
  }
  return spec;
}

// Calls that begin in a slot or a stub of ours, by a tail call for example, are timed as well.
std::vector<Range> Arming::caller_code() const {
  std::vector<Range> code = session_.image_->executable_ranges();
  for (const auto& probes : {session_.code(), options_.callers, others_.code()})
    code.insert(code.end(), probes.begin(), probes.end());
  return code;
}

arch::ArenaSpec Arming::arena_spec(const Arena& arena, const std::vector<Address>& cpus) const {
  arch::ArenaSpec spec;
  spec.size = arena.size;
  spec.enter = enter_;
  spec.unwind_tables = unwind_tables_;
  spec.locked_cells = runtime::locked_cells(runtime_spec());
  spec.cpu_cells = cpus;
  spec.tables_apart = !options_.count_children;
  spec.has_switches = options_.has_switches;
  return spec;
}

// What the site and its trampoline will hold. False: the stub is out of reach.
bool Arming::write_jumps(size_t patch, const arch::Stub& stub) {
  layout::SiteEntry& site = journal().sites[site_of(patch)];
  const placement::SitePlan& planned = set_.patches[patch].plan;
  const auto fits = []<class T>(Address from, Address to, T) {
    const auto distance = static_cast<int64_t>(to - from);
    return distance == static_cast<T>(distance);
  };
  const auto lead = [&](layout::SiteEntry& from, Address to) {
    from.jump = static_cast<int32_t>(to - from.end());
    return from.length == arch::kShortJumpLength ? fits(from.end(), to, int8_t{})
                                                 : fits(from.end(), to, int32_t{});
  };
  Address to = stub.begin;
  if (planned.island) {
    const Address island = island_of(set_.patches[patch]);
    if (island == 0 && planned.is_pun()) return false;
    if (island != 0) to = island;
  } else if (planned.trampoline) {
    layout::SiteEntry& board = journal().sites[site_of(patch) + 1];
    const bool is_kept_stub = planned.trampoline->length == kKeptJumpLength;
    const bool leads_there = lead(board, stub.begin);
    // Where ours is out of its reach, a kept one stays as it is.
    if (!leads_there && !(is_kept_stub && lead(board, site.address))) return false;
    if (leads_there) to = board.address;
  }
  if (!lead(site, to) || !fits(site.address, stub.body, int32_t{})) return false;
  site.body = static_cast<int32_t>(stub.body - site.address);
  if (planned.trampoline) {
    layout::SiteEntry& board = journal().sites[site_of(patch) + 1];
    if (!fits(board.address, stub.body, int32_t{})) return false;
    board.body = static_cast<int32_t>(stub.body - board.address);
  }
  if (const auto shared = plan_.shared.find(patch);
      shared != plan_.shared.end() && !OtherSites::arming(head_of(journal(), site), shared->second))
    return false;
  return !planned.is_pun() || ends_as_others_say(patch, site);
}

// Does a pun's jump end in the bytes that are, or will be, there?
bool Arming::ends_as_others_say(size_t patch, const layout::SiteEntry& site) const {
  std::array<uint8_t, layout::kMaxSiteLength> jump, others;
  std::copy_n(site.original, jump.size(), jump.begin());
  arch::encode_jump(std::span(jump).first(site.length), site.jump);
  const placement::SitePlan& planned = set_.patches[patch].plan;
  const auto own = std::min(planned.patch.written, planned.patch.displaced);
  if (planned.ends_in_next_jump) {
    const placement::SitePatch& depends_on = set_.patches[*planned.depends_on];
    const Address island = island_of(depends_on);
    if (island == 0) return false;
    arch::encode_jump(std::span(others).first(arch::kJumpLength),
                      static_cast<int32_t>(island - depends_on.site() - arch::kJumpLength));
  } else {
    std::copy(site.original + own, site.original + site.length, others.begin());
  }
  return std::equal(jump.begin() + own, jump.begin() + site.length, others.begin());
}

// On any thread: changes what belongs to the piece's patches alone.
void Arming::emit_piece(StubPiece& piece, const arch::ArenaEntries& entries) {
  advance(piece.patches.size());
  arch::Assembler code(piece.stubs.begin);
  std::vector<arch::StubAction> actions;
  std::unordered_map<std::string, uint16_t> shapes;
  piece.shape_of.resize(piece.patches.size());
  piece.room_of.resize(piece.patches.size());
  for (size_t i : piece.patches) {
    const size_t before = code.size();
    const Address at = code.here();
    auto stub = place_stub(set_.patches[i], code, entries, actions);
    for (uint64_t padding = kStubAlignment;
         stub && code.size() <= piece.room && has_edit_across_pages(set_.patches[i], *stub);
         padding += kStubAlignment) {
      code.take_back(before);
      for (uint64_t j = 0; j < padding; ++j) code.u8(arch::kBreakpoint);
      stub = place_stub(set_.patches[i], code, entries, actions);
    }
    const size_t size = code.size() - before;
    code.align(kStubAlignment, arch::kBreakpoint);
    if (!stub || code.size() > piece.room || !write_jumps(i, *stub)) {
      layout::SiteEntry& site = journal().sites[site_of(i)];
      site.jump = site.body = 0;  // another one will be there
      code.take_back(before);
      continue;
    }
    const uint64_t room = code.size() - before;
    piece.room_of[i - piece.patches.first] = static_cast<uint32_t>(room);
    piece.bytes += size;
    const auto shape =
        shapes.try_emplace(shape_of(i, *stub, at, room), static_cast<uint16_t>(shapes.size()))
            .first;
    piece.shape_of[i - piece.patches.first] = shape->second;
    keep_interiors(piece, i, *stub);
    note_probes(i, *stub);
    if (set_.patches[i].plan.island) {
      const auto pun = std::lower_bound(plan_.puns.begin(), plan_.puns.end(), i);
      stubs_of_puns_[static_cast<size_t>(pun - plan_.puns.begin())] = stub->begin;
    }
  }
  piece.shapes.resize(shapes.size());
  while (!shapes.empty()) {
    auto shape = shapes.extract(shapes.begin());
    piece.shapes[shape.mapped()] = std::move(shape.key());
  }
  piece.stubs.end = code.here();
  if (auto written = target().memory().write(piece.stubs.begin, code.bytes()); !written)
    piece.refused = written.error().number;
}

// Would something that is written into the stub later lie in two pages? Each is to be written at
// once: a controller may be killed between two pages.
bool Arming::has_edit_across_pages(const placement::SitePatch& patch,
                                   const arch::Stub& stub) const {
  const auto is_across = [](Address begin, uint64_t length) {
    return align_down(begin, kPageSize) != align_down(begin + length - 1, kPageSize);
  };
  using Link = layout::SiteEntry::Link;
  const Link link = plan_.kind_of_link(index_of(patch));
  // What may have to lie there later (kept_memory.h).
  if (may_be_known(patch) && is_across(stub.begin, kKeptJumpLength)) return true;
  if (link == Link::at_begin && is_across(stub.begin, arch::kLinkLength)) return true;
  if (link == Link::before_body && is_across(stub.body - arch::kLinkLength, arch::kLinkLength))
    return true;
  return std::any_of(stub.switches.begin(), stub.switches.end(),
                     [&](const arch::Switch& one) { return is_across(one.at, arch::kLinkLength); });
}

// Where a stub has what belongs to its probes.
void Arming::note_probes(size_t patch, const arch::Stub& stub) {
  const auto from_body = [&](Address at) { return static_cast<int32_t>(at - stub.body); };
  for (size_t i : set_.patches[patch].probes) {
    for (const arch::Copy& copy : stub.copies)
      if (copy.window_offset == set_.probes[i].offset) journal().probes[i].body = copy.offset;
    for (const arch::Switch& one : stub.switches)
      if (one.offset == set_.probes[i].offset)
        journal().switches[i] = {.at = from_body(one.at), .past = from_body(one.past)};
  }
}

void Arming::keep_interiors(StubPiece& piece, size_t patch, const arch::Stub& stub) const {
  const placement::SitePatch& planned = set_.patches[patch];
  for (const arch::Copy& copy : stub.copies)
    if (copy.window_offset != 0 && copy.window_offset < planned.plan.interior_end)
      piece.interiors.push_back({planned.site() + copy.window_offset, stub.body + copy.offset,
                                 static_cast<uint32_t>(patch)});
}

// `shapes`: of all of them, and of what lies between.
Result<void, ledger::SessionError> Arming::emit_stubs(
    const std::vector<arch::ArenaEntries>& entries, arch::StubShapes& shapes) {
  std::vector<Address> ends;
  for (const Arena& arena : arenas_) ends.push_back(arena.frames.begin);
  for (StubPiece& piece : pieces_) {
    Address& end = ends[piece.arena];
    piece.stubs = {end, end};
    end += piece.room;
  }
  for (size_t i = 0; i < arenas_.size(); ++i)
    assert(ends[i] <= arenas_[i].address + arenas_[i].size - (i == 0 ? unwind_room_ : 0));
  begin_step("building", set_.patches.size(), "stubs");
  stubs_of_puns_.resize(plan_.puns.size());
  // Room for all, so that they need not move; what is not used takes no memory.
  constexpr size_t kInteriors = 2;  // of a patch, on average
  interiors_.reserve(kInteriors * set_.patches.size());
  // What there is to say of a piece's stubs is taken over as soon as those before it were, so that
  // there is never much.
  std::mutex mutex;
  std::vector<bool> is_emitted(pieces_.size());
  size_t taken = 0;
  for_each_piece(pieces_.size(), usable_threads(), [&](size_t number) {
    emit_piece(pieces_[number], entries[pieces_[number].arena]);
    const std::lock_guard lock(mutex);
    is_emitted[number] = true;
    for (; taken < pieces_.size() && is_emitted[taken]; ++taken) take_over(pieces_[taken], shapes);
  });
  for (const StubPiece& piece : pieces_)
    if (piece.refused != 0)
      return fail(ledger::SessionError(attach_error(AttachCause::memory_refused, piece.refused)));
  const auto by_address = [](const auto& a, const auto& b) { return a.address < b.address; };
  if (!std::is_sorted(interiors_.begin(), interiors_.end(), by_address))
    std::sort(interiors_.begin(), interiors_.end(), by_address);
  return {};
}

// For one piece after the other, by one thread at a time. Others emit meanwhile: they change
// nothing that this looks at, and look at nothing that it changes.
void Arming::take_over(StubPiece& piece, arch::StubShapes& shapes) {
  arch::StubArena& stubs = arenas_[piece.arena].frames;
  // What lies between pieces is no stub, nor is anybody there.
  for (Address at = stubs.begin + stubs.size; at < piece.stubs.begin;) {
    const uint64_t gap = std::min(piece.stubs.begin - at, kGap);
    stubs.shapes.push_back(shapes.add({}, gap));
    at += gap;
  }
  for (size_t i = 0; i < piece.patches.size(); ++i) {
    if (piece.room_of[i] == 0)
      plan_.drop(piece.patches[i], plan::Reason::out_of_reach);
    else
      stubs.shapes.push_back(shapes.add(piece.shapes[piece.shape_of[i]], piece.room_of[i]));
  }
  stubs.size = piece.stubs.end - stubs.begin;
  interiors_.insert(interiors_.end(), piece.interiors.begin(), piece.interiors.end());
  session_.report_.stub_bytes += piece.bytes;
  // Not by `= {}`, which keeps the memory.
  const auto release = []<class T>(std::vector<T>& of) { of = std::vector<T>(); };
  release(piece.shapes);
  release(piece.shape_of);
  release(piece.room_of);
  release(piece.interiors);
}

// As if none had been written.
void Arming::forget_stubs() {
  plan_.left_out.resize(skipped_before_stubs_);
  session_.report_.stub_bytes = 0;
  interiors_.clear();
  for (Arena& arena : arenas_) arena.frames = {};
  for (StubPiece& piece : pieces_) {
    piece.bytes = 0;
  }
}

Result<void, ledger::SessionError> Arming::write_stubs() {
  skipped_before_stubs_ = plan_.left_out.size();
  const auto refused = [&](const SystemError& error) {
    return fail(ledger::SessionError(attach_error(AttachCause::memory_refused, error.number)));
  };
  const runtime::RuntimeSpec spec = runtime_spec();
  if (has_histograms()) {
    const auto runtime = runtime::build_runtime(runtime_address_, spec);
    if (!runtime) return fail(ledger::SessionError(attach_error(AttachCause::no_address_space)));
    enter_ = times() ? runtime->enter : has_spans() ? runtime->span : runtime->add;
    if (times()) {
      hook_.slot_code = runtime->slot_code;
      hook_.slots = runtime->data_address;
      hook_.personality = runtime->personality;
      hook_.unwound = runtime->unwound;
    }
    runtime_frames_ = runtime::image_frames(runtime->code_address);
    for (const runtime::Piece& piece : runtime->pieces)
      if (auto written = target().memory().write(piece.address, piece.bytes); !written)
        return refused(written.error());
    session_.runtime_.emplace(Session::Runtime{
        runtime_address_, spec,
        std::min(ledger::SessionFile::kFirstBlocks, journal().header.pool_size),
        runtime::CallerTable(runtime::callers_in(runtime_address_, spec), callers_size_)});
    const auto callers = times() ? caller_code() : std::vector<Range>();
    for (const runtime::Piece& piece : session_.runtime_->callers.update(callers))
      if (auto written = target().memory().write(piece.address, piece.bytes); !written)
        return refused(written.error());
  }

  const auto cpus = runtime::cpu_cells(spec);
  plan_.arm_all();
  for (size_t i : plan_.in_the_way) plan_.drop(i, plan::Reason::neighbour);
  // Where everybody locks there is nothing that a child could damage.
  for (size_t i = 0; i < set_.patches.size() && !rseq_; ++i)
    if (plan_.is_hook(i, placement::Hook::Kind::vfork)) plan_.leave_out(i);
  std::vector<arch::ArenaEntries> entries;
  unwind_tables_ = arenas_.front().address + arenas_.front().size - unwind_room_;
  hook_.ranges = unwind_tables_ + sizeof(arch::UnwindTablesHeader);
  hook_.changes = monotonic_ns() | uint64_t{1} << 63;  // no loader has counted that far
  for (Arena& arena : arenas_) {
    arch::Assembler head(arena.address);
    entries.push_back(arch::emit_arena_header(head, arena_spec(arena, cpus)));
    arena.routines = entries.back().frames;
    head.align(kStubAlignment, arch::kBreakpoint);
    const bool settled = head.settle();
    assert(settled);
    arena.frames.begin = head.here();
    if (auto written = target().memory().write(arena.address, head.bytes()); !written)
      return refused(written.error());
  }
  arch::StubShapes shapes;
  if (auto written = emit_stubs(entries, shapes); !written) return written;
  if (auto written = write_trampolines(); !written) return written;
  arch::Assembler tables(unwind_tables_);
  const auto header = arch::emit_unwind_tables(tables, unwind_spec(shapes));
  assert(header.size <= unwind_room_ && header.range_count == hook_.range_count);
  if (auto written = target().memory().write(unwind_tables_, *tables.finish()); !written)
    return refused(written.error());
  return {};
}

}  // namespace pinprick::engine
