#include "engine/arming.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "arch/vfork_hook.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/task.h"
#include "ledger/discovery.h"
#include "ledger/runtime_directory.h"
#include "plan/pun.h"
#include "target/address_space.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using target::AttachCause;

// Regions of cells besides the first: one per CPU, if that takes no more than its share of the
// machine's memory, and of what is left in the folder; or as many as are of use to threads that
// lock. A machine may have hundreds of CPUs, or say that it could. And blocks for histograms: one
// for each, and for CPUs' own what is left of that share, or half of it at least.
void choose_sizes(layout::SessionCounts& counts, const std::string& folder) {
  constexpr uint64_t kShareOfMemory = 64, kShareOfFolder = 2, kAlways = 64 << 20;
  struct sysinfo memory = {};
  struct statvfs space = {};
  uint64_t most = UINT64_MAX;
  if (::sysinfo(&memory) == 0) most = uint64_t{memory.totalram} * memory.mem_unit / kShareOfMemory;
  most = std::max(most, kAlways);
  if (::statvfs(folder.c_str(), &space) == 0 && space.f_blocks != 0)
    most = std::min(most, uint64_t{space.f_bavail} * space.f_frsize / kShareOfFolder);
  const auto size = [&] { return layout::lay_out(counts).file_size; };
  counts.cpus = usable_cpus();
  if (size() > most) {
    counts.cpus = std::min(counts.cpus - 1, layout::kLockedStripes - 1);
    while (counts.cpus > 1 && size() > most) --counts.cpus;
    counts.cpus = std::max(counts.cpus, 1u);
  }
  const uint64_t block = layout::histogram_size(counts.fraction_bits);
  const uint64_t room = (most - std::min(most, size())) / block;
  const uint64_t own = std::max(room - std::min(room, counts.histograms), room / 2);
  counts.pool_size = (counts.histograms + std::min(counts.histograms * counts.cpus, own)) * block;
}

layout::ProbeEntry::Kind entry_kind(placement::Kind kind) {
  switch (kind) {
    case placement::Kind::count:
      return layout::ProbeEntry::Kind::count;
    case placement::Kind::latency:
      return layout::ProbeEntry::Kind::latency;
    case placement::Kind::value:
      return layout::ProbeEntry::Kind::value;
    case placement::Kind::span:
      return layout::ProbeEntry::Kind::span;
  }
  return layout::ProbeEntry::Kind::count;
}

template <size_t N>
void copy_text(char (&to)[N], std::string_view from) {
  const size_t n = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

}  // namespace

uint32_t usable_cpus() {
  return std::min(possible_cpus(), layout::kMaxCpus);
}

size_t Arming::mapping_of(MappingEntry::Kind kind) const {
  const auto& mappings = session_.journal_.mappings;
  for (size_t i = 0; i < mappings.size(); ++i)
    if (mappings[i].kind == kind) return i;
  assert(false && "the session has no such mapping");
  return 0;
}

Result<void, ledger::SessionError> Arming::choose_addresses(
    const std::vector<image::Mapping>& maps) {
  // Other addresses than an earlier session's: nongnu's libunwind keeps in a cache, as long as the
  // process lives, where in our tables it has found the rules for an address.
  target::AddressSpace space(maps, target::lowest_mappable_address(), monotonic_ns());
  layout::Session& journal = this->journal();
  journal.mappings.clear();
  const auto plan_mapping = [&](MappingEntry::Kind kind, std::optional<Address> at, uint64_t size) {
    journal.mappings.push_back({at.value_or(0), align_up(size, kPageSize), kind, {}});
    return at.has_value();
  };
  for (Range pages : islands_) space.wish(pages);
  const uint64_t scratch = scratch_size(arenas_.size() + islands_.size() + 4);
  bool placed = plan_mapping(MappingEntry::Kind::scratch, space.take_anywhere(scratch), scratch);
  const layout::FileHeader& header = journal.header;
  const uint64_t tables = layout::tables_size(header);
  const uint64_t cells = header.file_size - header.cells_offset;
  placed &= plan_mapping(MappingEntry::Kind::tables, space.take_anywhere(tables), tables);
  placed &= plan_mapping(MappingEntry::Kind::cells, space.take_anywhere(cells), cells);
  if (has_histograms()) {
    const auto extent =
        runtime::runtime_extent(capacity_, usable_cpus(), callers_size_, set_.spans.size());
    const auto at = space.take_anywhere(extent.size());
    runtime_address_ = at.value_or(0);
    placed &= plan_mapping(MappingEntry::Kind::runtime_data, at, extent.data_size);
    placed &= plan_mapping(MappingEntry::Kind::runtime_code,
                           at ? std::optional(*at + extent.data_size) : at, extent.code_size);
  }
  for (Arena& arena : arenas_) {
    const auto at = space.take_near(arena.object->extent(), arena.size);
    arena.address = at.value_or(0);
    arena.size = align_up(arena.size, kPageSize);
    placed &= plan_mapping(MappingEntry::Kind::stubs, at, arena.size);
  }
  if (!placed) return fail(ledger::SessionError(attach_error(AttachCause::no_address_space)));
  // The stubs of millions of instructions may need what puns lead to.
  for (Range pages : islands_)
    plan_mapping(MappingEntry::Kind::islands, space.take_at(pages) ? pages.begin : Address{0},
                 pages.size());
  return {};
}

// It went on since the addresses were chosen, and may have mapped something there.
Result<void, ledger::SessionError> Arming::choose_addresses_again() {
  const auto maps = image::read_maps(target().pid());
  if (!maps) return fail(ledger::SessionError(attach_error(AttachCause::exited)));
  const auto is_taken = [&](const MappingEntry& entry) {
    const Range wanted = {entry.address, entry.address + entry.size};
    return std::any_of(maps->begin(), maps->end(),
                       [&](const image::Mapping& there) { return there.range.overlaps(wanted); });
  };
  const auto& planned = journal().mappings;
  if (std::none_of(planned.begin(), planned.end(), is_taken)) return {};
  if (auto chosen = choose_addresses(*maps); !chosen) return chosen;
  if (auto written = file().write_tables(journal()); !written)
    return fail(ledger::SessionError(written.error()));
  return {};
}

Result<void, ledger::SessionError> Arming::create_file() {
  auto folder = ledger::runtime_directory();
  if (!folder) return fail(ledger::SessionError(ledger::NoRuntimeDirectory{folder.error().number}));
  std::string names(1, '\0');  // offset 0 is the empty name
  const auto add_name = [&](std::string_view name) {
    const auto offset = static_cast<uint32_t>(names.size());
    names.append(name).push_back('\0');
    return offset;
  };
  layout::Session& journal = this->journal();
  const auto add_function = [&](const placement::Probe& probe, size_t index) {
    if (index != 0 && set_.probes[index - 1].match == probe.match) return;
    const image::Match& match = set_.matches[probe.match];
    // A function's entry may lie behind an endbr64; it is still the function itself.
    const Address begin = match.each_instruction
                              ? match.site
                              : set_.patches[probe.patch].site() + probe.offset - match.offset();
    layout::FunctionEntry function;
    function.begin = begin;
    function.first_probe = static_cast<uint32_t>(index);
    function.name = add_name(match.function_name);
    if (set_.kind == placement::Kind::value) function.value = add_name(set_.value_of(probe).text);
    journal.functions.push_back(function);
  };
  const auto add_entries = [&](size_t i, size_t object) {
    check_cancelled();
    const placement::SitePatch& patch = set_.patches[i];
    const auto tactic = static_cast<uint8_t>(patch.plan.patch.tactic);
    plan_.states[i].site = static_cast<uint32_t>(journal.sites.size()) & PatchState::kMostSites;
    layout::SiteEntry site;
    site.address = patch.site();
    static_assert(plan::kLongestPun <= layout::kMaxSiteLength);
    site.length = patch.plan.patch.written & 15;
    site.own = patch.plan.own() & 15;
    site.tactic = tactic & 127;
    site.at_begin = patch.plan.patch.at_begin;
    site.displaced = patch.plan.patch.displaced;
    site.link = plan_.kind_of_link(i);
    using Phase = layout::SiteEntry::Phase;
    if (patch.plan.trampoline || patch.plan.ends_in_next_jump) site.phase = Phase::dependent;
    if (patch.hook)
      site.phase = patch.hook->is_for_probes() ? Phase::unwinder_hook : Phase::loader_hook;
    std::copy_n(patch.original().begin(), site.own, site.original);
    journal.sites.push_back(site);
    if (patch.plan.trampoline) {
      layout::SiteEntry board;
      board.address = patch.plan.trampoline->address + patch.object->bias();
      board.length = board.own = patch.plan.trampoline->length & 15;
      board.tactic = tactic & 127;
      board.link = plan_.kind_of_link(i);
      std::copy_n(patch.plan.trampoline->original.begin(), board.own, board.original);
      journal.sites.push_back(board);
    }
    for (size_t j : patch.probes) {
      layout::ProbeEntry probe;
      add_function(set_.probes[j], j);
      probe.object = static_cast<uint16_t>(object);
      probe.kind = entry_kind(set_.kind);
      probe.site = site_of(i);
      probe.offset = static_cast<uint8_t>(set_.probes[j].offset);
      journal.probes.push_back(probe);
      if (options_.has_switches) journal.switches.push_back({});
    }
  };
  journal.sites.reserve(set_.patches.size());
  journal.probes.reserve(set_.probes.size());
  for (const Arena& arena : arenas_) {
    layout::ObjectEntry entry;
    entry.bias = arena.object->bias();
    entry.name = add_name(arena.object->name());
    entry.path = add_name(arena.object->path());
    copy_text(entry.build_id, arena.object->elf().build_id());
    journal.objects.push_back(entry);
  }
  for (size_t object = 0; object < arenas_.size(); ++object) {
    Arena& arena = arenas_[object];
    arena.sites.begin = journal.sites.size();
    for (size_t i : arena.patches) add_entries(i, object);
    arena.sites.end = arena.sites.armed = journal.sites.size();
  }

  journal.spans = span_entries(set_);
  for (size_t i = 0; i < journal.spans.size(); ++i)
    journal.spans[i].name = add_name(set_.spans[i].text);

  layout::SessionCounts counts;
  counts.mappings = 3 + arenas_.size() + islands_.size() + (has_histograms() ? 2 : 0);
  counts.objects = arenas_.size();
  counts.sites = journal.sites.size();
  counts.probes = journal.probes.size();
  counts.functions = journal.functions.size();
  counts.counters = has_histograms() ? 0 : journal.probes.size();
  counts.histograms = has_histograms() ? journal.probes.size() : 0;
  if (has_spans()) counts.histograms = counts.spans = journal.spans.size();
  counts.switches = journal.switches.size();
  counts.name_bytes = names.size();
  counts.fraction_bits = options_.fraction_bits;
  counts.loader_cell = plan_.has_loader_hook();
  choose_sizes(counts, *folder);
  layout::FileHeader& header = journal.header;
  header = layout::lay_out(counts);
  header.pid = target().pid();
  header.start_time = target().start_time();
  header.controller = ::getpid();
  header.created_ns = realtime_ns();
  // To measure it well takes 10 ms; counts and values are no times, and the loader's timeout need
  // not be exact.
  header.ns_multiplier = times() || has_spans() ? ns_multiplier() : rough_ns_multiplier();
  copy_text(header.boot_id, boot_id());
  copy_text(header.command, target().command());
  journal.names.assign(names.begin(), names.end());
  if (has_histograms()) capacity_ = 1;
  if (times()) {
    capacity_ = options_.slots != 0 ? options_.slots : kMostSlots;
    callers_size_ = runtime::CallerTable::size_for(caller_code());
  }
  auto maps = image::read_maps(target().pid());
  if (!maps) return fail(ledger::SessionError(attach_error(AttachCause::exited)));
  if (auto chosen = choose_addresses(*maps); !chosen) return chosen;

  if (auto closed = ledger::why_closed(target().pid())) return fail(*std::move(closed));
  // Other sessions have files of their own.
  constexpr unsigned kMostSessions = 1000;
  auto created = Result<ledger::SessionFile, ledger::FileError>(fail(ledger::FileError{}));
  for (unsigned number = 0; number < kMostSessions; ++number) {
    created = ledger::SessionFile::create(
        *folder + "/" + ledger::session_file_name(target().pid(), target().start_time(), number),
        journal);
    if (created || created.error().cause != ledger::FileError::Cause::exists) break;
  }
  if (!created) return fail(ledger::SessionError(created.error()));
  session_.file_ = *std::move(created);
  return {};
}

Result<void, ledger::SessionError> Arming::run() {
  if (has_spans() && !runtime::can_read_thread_pointers())
    return fail(ledger::SessionError(attach_error(AttachCause::no_thread_pointers)));
  for (auto step : {&Arming::lay_out, &Arming::create_file, &Arming::map_memory,
                    &Arming::write_stubs, &Arming::write_text})
    if (auto done = (this->*step)(); !done) return done;
  for (const Arena& arena : arenas_) {
    ObjectSites sites = arena.sites;
    for (size_t i : arena.patches) {
      if (plan_.is_armed(i)) sites.armed = std::min<size_t>(sites.armed, site_of(i));
      sites.has_probes = sites.has_probes || !set_.patches[i].hook;
    }
    session_.sites_of_objects_.push_back(sites);
  }
  for (size_t i = 0; i < set_.patches.size(); ++i)
    if (plan_.is_hook(i, placement::Hook::Kind::loader) && plan_.is_armed(i))
      session_.loader_ = LoaderWatch::start(file().path(), journal());
  auto& skipped = session_.report_.skipped;
  skipped.insert(skipped.end(), std::make_move_iterator(plan_.left_out.begin()),
                 std::make_move_iterator(plan_.left_out.end()));
  // What was planned is not needed any more, and goes before what is armed comes.
  set_.patches = std::vector<placement::SitePatch>();  // `= {}` would keep the memory
  session_.probes_.reserve(set_.probes.size());
  if (has_spans()) session_.probes_ = armed_spans(plan_, session_.journal_.spans);
  for (uint32_t i = 0; i < set_.probes.size() && !has_spans(); ++i)
    if (plan_.is_armed(set_.probes[i].patch))
      session_.probes_.push_back({static_cast<uint32_t>(set_.probes[i].match), i});
  session_.matches_ = std::move(set_.matches);
  session_.values_ = std::move(set_.values);
  session_.report_.armed = session_.probes_.size();
  return {};
}

}  // namespace pinprick::engine
