#include "session/session.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "patch/text_edit.h"
#include "runtime/image.h"
#include "session/borrowing.h"
#include "session/ownership.h"
#include "session/registry.h"
#include "session/runtime_directory.h"
#include "target/address_space.h"
#include "target/handover.h"

namespace pinprick::session {

namespace {

using layout::MappingEntry;
using target::AttachCause;
using target::AttachError;

// Calls in flight at once, over all threads: recursion included. There are so many at first, and
// room for as many more; pages that were never used take no memory.
constexpr uint64_t kFirstSlots = 4096;
constexpr uint64_t kSlotsPerCpu = PP_CPU_FREE_LIMIT;
constexpr uint64_t kMostSlots = 1 << 18;
// Stubs begin at multiples of this: their records and descriptors are aligned then.
constexpr uint64_t kStubAlignment = 8;

// Where the stubs of one object go.
struct Arena {
  const image::Object* object = nullptr;
  std::vector<size_t> patches;
  Address address = 0;
  uint64_t size = 0;
  std::vector<uint8_t> bytes;
  ObjectSites sites;
};

// CPUs with cells of their own. On a machine with more than the tables hold, everybody locks.
uint32_t usable_cpus() {
  return std::min(possible_cpus(), layout::kMaxCpus);
}

size_t find_mapping(const layout::Session& journal, MappingEntry::Kind kind) {
  for (size_t i = 0; i < journal.mappings.size(); ++i)
    if (journal.mappings[i].kind == kind) return i;
  assert(false && "the session has no such mapping");
  return 0;
}

// rseq as all threads have it, or nothing: then everybody counts with locked instructions.
std::optional<arch::RseqArea> common_rseq(target::Stop& stop) {
  std::optional<arch::RseqArea> common;
  std::vector<Address> bases;
  for (const auto& thread : stop.threads()) {
    // A thread that borrows another one's thread pointer would use the other's area.
    const Address base = thread.registers.fs_base;
    if (base == 0 || std::find(bases.begin(), bases.end(), base) != bases.end())
      return std::nullopt;
    bases.push_back(base);
    const auto registration = target::rseq_registration(thread.tid);
    if (!registration) continue;  // not registered yet: it reads as such, and locks
    const auto distance = static_cast<int64_t>(registration->area - base);
    if (registration->signature != arch::kRseqSignature ||
        distance != static_cast<int32_t>(distance))
      return std::nullopt;
    const arch::RseqArea area = {static_cast<int32_t>(distance)};
    if (common && !(*common == area)) return std::nullopt;
    common = area;
  }
  return common;
}

template <size_t N>
void copy_text(char (&to)[N], std::string_view from) {
  const size_t n = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

}  // namespace

// The steps of Session::arm, with what they hand to each other.
class Arming {
 public:
  Arming(Session& session, probe::ProbeSet set, const ArmOptions& options)
      : session_(session), options_(options), set_(std::move(set)), armed_(set_.patches.size()) {}

  Result<void, SessionError> run();

 private:
  Result<void, SessionError> lay_out();
  Result<void, SessionError> create_file();
  Result<void, SessionError> choose_addresses(const std::vector<image::Mapping>& maps);
  Result<void, SessionError> choose_addresses_again();
  Result<void, SessionError> map_memory();
  Result<void, SessionError> map_all(target::BorrowedThread& thread);
  Result<void, SessionError> forget_at_fork(target::BorrowedThread& thread,
                                            const MappingEntry& mapping);
  Result<void, SessionError> write_stubs();
  Result<void, SessionError> write_text();
  Result<bool, SessionError> try_to_write_text(bool last_attempt);
  void drop(size_t patch, plan::Reason reason);
  void drop_what_needs_hooks();
  void drop_guests();
  bool write_jumps(size_t patch, const arch::Stub& stub);
  std::optional<probe::PlacedStub> place_stub(const probe::SitePatch& patch, Address at,
                                              const arch::ArenaEntries& entries) const;
  // On all CPUs; f(patch) may change only what belongs to that patch.
  template <class F>
  void for_each_patch(F&& f) const;
  // What is to be written into the text, ready before the target stops.
  struct Edits {
    std::vector<patch::TextEdit> edits;
    std::vector<size_t> patch_of;            // of each edit
    std::vector<patch::Interior> interiors;  // by address
  };
  Edits edits() const;
  void drop_changed(const Edits& edits);
  void keep_armed(Edits& edits) const;

  Result<void, SessionError> map(target::BorrowedThread& thread, MappingEntry::Kind kind,
                                 int protection, int flags, int descriptor, uint64_t offset);
  Result<void, SessionError> map_at(target::BorrowedThread& thread, size_t index, int protection,
                                    int flags, int descriptor, uint64_t offset);
  runtime::RuntimeSpec runtime_spec() const;
  arch::ArenaSpec arena_spec(const Arena& arena, const std::vector<Address>& cpus) const;
  bool measures() const { return set_.kind == probe::Kind::latency; }
  bool is_hook(size_t patch, probe::Hook::Kind kind) const {
    const auto& hook = set_.patches[patch].hook;
    return hook && hook->kind == kind;
  }
  bool serves_unwinding(size_t patch) const {
    const auto& hook = set_.patches[patch].hook;
    return hook && hook->is_for_unwinding();
  }
  bool has_loader_hook() const;
  Address loader_cell() const;
  AttachError attach_error(AttachCause cause, int error = 0, std::string detail = {}) const {
    return {cause, session_.target_.pid(), 0, error, std::move(detail)};
  }
  layout::Session& journal() { return session_.journal_; }
  SessionFile& file() { return *session_.file_; }
  const target::RemoteTarget& target() { return session_.target_; }

  Session& session_;
  const ArmOptions& options_;
  probe::ProbeSet set_;
  std::vector<bool> armed_;  // per patch; false: dropped, or not yet
  std::vector<Arena> arenas_;
  std::vector<uint64_t> room_;       // per patch: for its stub; whole alignments
  std::vector<arch::Stub> stubs_;    // per patch
  std::vector<size_t> site_;         // per patch: the index of its SiteEntry
  std::vector<size_t> springboard_;  // the same of its springboard, where it has one
  std::optional<arch::RseqArea> rseq_;
  Address runtime_address_ = 0;
  uint64_t capacity_ = 0;
  Address enter_ = 0;
  arch::UnwinderHook hook_;
};

std::optional<probe::PlacedStub> Arming::place_stub(const probe::SitePatch& patch, Address at,
                                                    const arch::ArenaEntries& entries) const {
  const layout::FileHeader& header = session_.journal_.header;
  if (patch.hook)
    return patch.hook->is_for_unwinding()
               ? probe::place_unwinder_hook(patch, at, hook_)
               : probe::place_routine_hook(patch, at, runtime::rendezvous_code(), loader_cell());
  if (measures() && !patch.probes.empty()) {
    const size_t i = patch.probes[0];
    return probe::place_return_stub(patch, at, entries,
                                    {layout::histogram_offset(header, i), layout::counter_offset(i),
                                     layout::unwound_offset(header, i)});
  }
  std::vector<uint32_t> cells;
  for (size_t i : patch.probes) cells.push_back(static_cast<uint32_t>(layout::counter_offset(i)));
  return probe::place_count_stub(set_, patch, at, entries, cells, rseq_);
}

bool Arming::has_loader_hook() const {
  for (size_t i = 0; i < set_.patches.size(); ++i)
    if (is_hook(i, probe::Hook::Kind::loader)) return true;
  return false;
}

// In the target. 0 before anything is laid out.
Address Arming::loader_cell() const {
  const layout::Session& journal = session_.journal_;
  if (journal.mappings.empty()) return 0;
  return journal.mappings[find_mapping(journal, MappingEntry::Kind::cells)].address +
         (journal.header.loader_cell_offset - journal.header.cells_offset);
}

template <class F>
void Arming::for_each_patch(F&& f) const {
  constexpr size_t kPiece = 512;
  const size_t count = set_.patches.size();
  for_each_piece((count + kPiece - 1) / kPiece, usable_threads(), [&](size_t piece) {
    const size_t end = std::min(count, (piece + 1) * kPiece);
    for (size_t i = piece * kPiece; i < end; ++i) f(i);
  });
}

// How large arenas have to be is known from assembling every stub once, at its own site: no size
// depends on the address, and none grows with a smaller offset.
Result<void, SessionError> Arming::lay_out() {
  rseq_ = arch::RseqArea{};
  room_.resize(set_.patches.size());
  for_each_patch([&](size_t i) {
    const Address at = align_up(set_.patches[i].site(), kStubAlignment);
    const auto stub = place_stub(set_.patches[i], at, {at, at, {at, at}, at});
    room_[i] = stub ? align_up(stub->bytes.size(), kStubAlignment) : 0;
  });
  rseq_.reset();
  for (size_t i = 0; i < set_.patches.size(); ++i) {
    const image::Object* object = set_.patches[i].object;
    if (arenas_.empty() || arenas_.back().object != object) {
      arenas_.push_back({});
      arenas_.back().object = object;
      // Magic, tables and the shared routine.
      arenas_.back().size = 512 + 8 * uint64_t{usable_cpus()};
      if (!options_.count_children)
        arenas_.back().size += arch::tables_in_arena(usable_cpus()).end + kPageSize;
    }
    arenas_.back().patches.push_back(i);
    arenas_.back().size += room_[i];
  }
  return {};
}

Result<void, SessionError> Arming::choose_addresses(const std::vector<image::Mapping>& maps) {
  target::AddressSpace space(maps, target::lowest_mappable_address());
  layout::Session& journal = this->journal();
  journal.mappings.clear();
  const auto plan_mapping = [&](MappingEntry::Kind kind, std::optional<Address> at, uint64_t size) {
    journal.mappings.push_back({at.value_or(0), align_up(size, kPageSize), kind, {}});
    return at.has_value();
  };
  bool placed =
      plan_mapping(MappingEntry::Kind::scratch, space.take_anywhere(kPageSize), kPageSize);
  const layout::FileHeader& header = journal.header;
  const uint64_t tables = layout::tables_size(header);
  const uint64_t cells = header.file_size - header.cells_offset;
  placed &= plan_mapping(MappingEntry::Kind::tables, space.take_anywhere(tables), tables);
  placed &= plan_mapping(MappingEntry::Kind::cells, space.take_anywhere(cells), cells);
  if (measures()) {
    const auto extent = runtime::runtime_extent(capacity_, header.cpu_count);
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
  if (!placed) return fail(SessionError(attach_error(AttachCause::no_address_space)));
  return {};
}

// It went on since the addresses were chosen, and may have mapped something there.
Result<void, SessionError> Arming::choose_addresses_again() {
  const auto maps = image::read_maps(target().pid());
  if (!maps) return fail(SessionError(attach_error(AttachCause::exited)));
  const auto is_taken = [&](const MappingEntry& entry) {
    const Range wanted = {entry.address, entry.address + entry.size};
    return std::any_of(maps->begin(), maps->end(),
                       [&](const image::Mapping& there) { return there.range.overlaps(wanted); });
  };
  const auto& planned = journal().mappings;
  if (std::none_of(planned.begin(), planned.end(), is_taken)) return {};
  if (auto chosen = choose_addresses(*maps); !chosen) return chosen;
  if (auto written = file().write_tables(journal()); !written)
    return fail(SessionError(written.error()));
  return {};
}

Result<void, SessionError> Arming::create_file() {
  const uint32_t cpus = usable_cpus();
  std::string names(1, '\0');  // offset 0 is the empty name
  const auto add_name = [&](std::string_view name) {
    const auto offset = static_cast<uint32_t>(names.size());
    names.append(name).push_back('\0');
    return offset;
  };
  layout::Session& journal = this->journal();
  const auto add_entries = [&](size_t i) {
    const probe::SitePatch& patch = set_.patches[i];
    const auto tactic = static_cast<uint8_t>(patch.plan.patch.tactic);
    site_.push_back(journal.sites.size());
    layout::SiteEntry site;
    site.address = patch.site();
    site.length = patch.plan.patch.written;
    site.tactic = tactic;
    site.displaced = patch.plan.patch.displaced;
    using Phase = layout::SiteEntry::Phase;
    if (patch.plan.springboard) site.phase = Phase::short_jump;
    if (patch.hook)
      site.phase = patch.hook->is_for_unwinding() ? Phase::unwinder_hook : Phase::loader_hook;
    std::copy_n(patch.plan.patch.original.begin(), site.length, site.original);
    journal.sites.push_back(site);
    springboard_.push_back(journal.sites.size());
    if (patch.plan.springboard) {
      layout::SiteEntry board;
      board.address = patch.plan.springboard->address + patch.object->bias();
      board.length = arch::kJumpLength;
      board.tactic = tactic;
      std::copy_n(patch.plan.springboard->original.begin(), board.length, board.original);
      journal.sites.push_back(board);
    }
    for (size_t j : patch.probes) {
      layout::ProbeEntry probe;
      probe.name = add_name(set_.probes[j].match.name);
      probe.object = static_cast<uint16_t>(journal.objects.size());
      probe.kind = measures() ? layout::ProbeEntry::Kind::latency : layout::ProbeEntry::Kind::count;
      probe.site = static_cast<uint32_t>(site_.back());
      probe.offset = set_.probes[j].offset;
      probe.histogram = measures() ? static_cast<uint32_t>(j) : 0;
      journal.probes.push_back(probe);
    }
  };
  for (Arena& arena : arenas_) {
    layout::ObjectEntry entry;
    entry.bias = arena.object->bias();
    entry.name = add_name(arena.object->name());
    entry.path = add_name(arena.object->path());
    copy_text(entry.build_id, arena.object->elf().build_id());
    arena.sites.begin = journal.sites.size();
    for (size_t i : arena.patches) add_entries(i);
    arena.sites.armed = arena.sites.end = journal.sites.size();
    journal.objects.push_back(entry);
  }

  layout::SessionCounts counts;
  counts.mappings = 3 + arenas_.size() + (measures() ? 2 : 0);
  counts.objects = arenas_.size();
  counts.sites = journal.sites.size();
  counts.probes = journal.probes.size();
  counts.histograms = measures() ? journal.probes.size() : 0;
  counts.name_bytes = names.size();
  counts.cpus = cpus;
  counts.fraction_bits = options_.fraction_bits;
  counts.loader_cell = has_loader_hook();
  layout::FileHeader& header = journal.header;
  header = layout::lay_out(counts);
  header.pid = target().pid();
  header.start_time = target().start_time();
  header.controller = ::getpid();
  header.created_ns = realtime_ns();
  header.ns_multiplier = ns_multiplier();
  copy_text(header.boot_id, boot_id());
  copy_text(header.command, target().command());
  journal.names.assign(names.begin(), names.end());
  if (measures()) capacity_ = options_.slots != 0 ? options_.slots : kMostSlots;
  auto maps = image::read_maps(target().pid());
  if (!maps) return fail(SessionError(attach_error(AttachCause::exited)));
  if (auto chosen = choose_addresses(*maps); !chosen) return chosen;

  auto folder = runtime_directory();
  if (!folder) return fail(SessionError(NoRuntimeDirectory{folder.error().number}));
  // Whoever comes at the same moment looks after we have made our file, or we after theirs.
  const Fd turn = take_turn(*folder);
  // Another session of ours is no stranger's: this one extends it.
  if (auto other = occupant(target().pid()); other && other->controller != ::getpid())
    return fail(SessionError(*other));
  // An earlier session may have had to leave memory behind, and its file with it.
  constexpr unsigned kMostSessions = 1000;
  auto created = Result<SessionFile, FileError>(fail(FileError{}));
  for (unsigned number = 0; number < kMostSessions; ++number) {
    created = SessionFile::create(
        *folder + "/" + session_file_name(target().pid(), target().start_time(), number), journal);
    if (created || created.error().cause != FileError::Cause::exists) break;
  }
  if (!created) return fail(SessionError(created.error()));
  session_.file_ = *std::move(created);
  return {};
}

Result<void, SessionError> Arming::map_at(target::BorrowedThread& thread, size_t index,
                                          int protection, int flags, int descriptor,
                                          uint64_t offset) {
  MappingEntry& entry = journal().mappings[index];
  entry.progress = MappingEntry::Progress::begun;
  if (auto written = file().write_mapping(journal(), index); !written)
    return fail(SessionError(written.error()));
  auto mapped = thread.call(SYS_mmap, entry.address, entry.size, static_cast<uint64_t>(protection),
                            static_cast<uint64_t>(flags | MAP_FIXED_NOREPLACE),
                            static_cast<uint64_t>(int64_t{descriptor}), offset);
  if (!mapped)
    return fail(SessionError(
        attach_error(AttachCause::call_refused, mapped.error().number,
                     (protection & PROT_EXEC) != 0 ? "mmap of executable memory" : "mmap")));
  if (*mapped != entry.address) {
    // A kernel that does not know MAP_FIXED_NOREPLACE takes the address as a hint.
    static_cast<void>(thread.call(SYS_munmap, *mapped, entry.size));
    return fail(SessionError(attach_error(AttachCause::no_address_space)));
  }
  if (!mark(target().memory(), entry))
    return fail(SessionError(attach_error(AttachCause::memory_refused)));
  entry.progress = MappingEntry::Progress::mapped;
  if (auto written = file().write_mapping(journal(), index); !written)
    return fail(SessionError(written.error()));
  return {};
}

Result<void, SessionError> Arming::map(target::BorrowedThread& thread, MappingEntry::Kind kind,
                                       int protection, int flags, int descriptor, uint64_t offset) {
  return map_at(thread, find_mapping(journal(), kind), protection, flags, descriptor, offset);
}

Result<void, SessionError> Arming::map_all(target::BorrowedThread& thread) {
  constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  const layout::FileHeader& header = journal().header;
  if (auto r = map(thread, MappingEntry::Kind::scratch, PROT_READ | PROT_WRITE, kAnonymous, -1, 0);
      !r)
    return r;
  {
    // Another open file than the one that we hold locked: the target's mapping keeps its open file,
    // and the lock with it, beyond our death.
    auto fd = open_file(file().path(), O_RDWR | O_NOFOLLOW);
    if (!fd)
      return fail(
          SessionError(attach_error(AttachCause::handover_failed, fd.error().number, "open")));
    target::Handover handover(
        thread, target().memory(), target().pid(),
        journal().mappings[find_mapping(journal(), MappingEntry::Kind::scratch)].address,
        [&](const target::Handover::Descriptors& open) {
          std::copy(open.begin(), open.end(), journal().header.handover_descriptors);
          static_cast<void>(file().write_header(journal().header));
        });
    auto descriptor = handover.give(fd->get(), target().exit_descriptor());
    if (!descriptor) return fail(SessionError(descriptor.error()));
    if (auto r = map(thread, MappingEntry::Kind::tables, PROT_READ, MAP_SHARED, *descriptor, 0); !r)
      return r;
    if (auto r = map(thread, MappingEntry::Kind::cells, PROT_READ | PROT_WRITE, MAP_SHARED,
                     *descriptor, header.cells_offset);
        !r)
      return r;
  }
  for (size_t i = 0; i < journal().mappings.size(); ++i) {
    const auto kind = journal().mappings[i].kind;
    int protection = 0;
    if (kind == MappingEntry::Kind::runtime_data) protection = PROT_READ | PROT_WRITE;
    if (kind == MappingEntry::Kind::runtime_code || kind == MappingEntry::Kind::stubs)
      protection = PROT_READ | PROT_EXEC;
    if (protection == 0) continue;
    if (auto r = map_at(thread, i, protection, kAnonymous, -1, 0); !r) return r;
    if (auto r = forget_at_fork(thread, journal().mappings[i]); !r) return r;
  }
  MappingEntry& scratch = journal().mappings[find_mapping(journal(), MappingEntry::Kind::scratch)];
  static_cast<void>(thread.call(SYS_munmap, scratch.address, scratch.size));
  scratch = {0, 0, MappingEntry::Kind::scratch, {}};
  if (auto r = file().write_tables(journal()); !r) return fail(SessionError(r.error()));
  return {};
}

// A child that is not to count does not know where cells are.
Result<void, SessionError> Arming::forget_at_fork(target::BorrowedThread& thread,
                                                  const MappingEntry& mapping) {
  Range tables;
  if (mapping.kind == MappingEntry::Kind::stubs)
    tables = arch::tables_in_arena(journal().header.cpu_count);
  if (mapping.kind == MappingEntry::Kind::runtime_data) {
    const uint64_t context = mapping.size - sizeof(layout::RuntimeContext);
    tables = {context + layout::kCellTablesBegin, context + layout::kCellTablesEnd};
  }
  if (options_.count_children || tables.empty()) return {};
  auto advised =
      thread.call(SYS_madvise, mapping.address + tables.begin, tables.size(), MADV_WIPEONFORK);
  if (!advised)
    return fail(
        SessionError(attach_error(AttachCause::call_refused, advised.error().number, "madvise")));
  return {};
}

Result<void, SessionError> Arming::map_memory() {
  auto stopped = target::Stop::all_threads(target().pid());
  if (!stopped) return fail(SessionError(stopped.error()));
  target::Stop stop = *std::move(stopped);
  if (!target().same_image())
    return fail(SessionError(attach_error(AttachCause::exec_during_attach)));
  if (possible_cpus() <= layout::kMaxCpus) rseq_ = common_rseq(stop);
  session_.report_.locked = !rseq_;
  if (auto chosen = choose_addresses_again(); !chosen) return chosen;
  auto mapped =
      with_borrowed_thread(stop, target(), *session_.image_, file(), journal(),
                           [&](target::BorrowedThread& thread) { return map_all(thread); });
  session_.report_.stopped_ns += stop.resume();
  return mapped;
}

runtime::RuntimeSpec Arming::runtime_spec() const {
  const layout::FileHeader& header = session_.journal_.header;
  runtime::RuntimeSpec spec;
  spec.capacity = capacity_;
  spec.slot_count = std::min(capacity_, kFirstSlots + kSlotsPerCpu * header.cpu_count);
  spec.cpu_count = header.cpu_count;
  spec.fraction_bits = header.fraction_bits;
  spec.rseq = rseq_;
  spec.ns_multiplier = header.ns_multiplier;
  spec.cells =
      session_.journal_.mappings[find_mapping(session_.journal_, MappingEntry::Kind::cells)]
          .address;
  spec.region_size = header.region_size;
  return spec;
}

arch::ArenaSpec Arming::arena_spec(const Arena& arena, const std::vector<Address>& cpus) const {
  arch::ArenaSpec spec;
  spec.size = arena.size;
  spec.enter = enter_;
  spec.locked_cells = runtime::locked_cells(runtime_spec());
  spec.cpu_cells = cpus;
  spec.tables_apart = !options_.count_children;
  return spec;
}

void Arming::drop(size_t patch, plan::Reason reason) {
  if (!armed_[patch]) return;
  armed_[patch] = false;
  for (size_t i : set_.patches[patch].probes) {
    const probe::Probe& probe = set_.probes[i];
    session_.report_.skipped.push_back(
        {probe.match, {reason, set_.patches[patch].plan.patch.site + probe.offset}});
  }
}

// A slot's address must not be on a stack whose unwinder has not been told of slots.
void Arming::drop_what_needs_hooks() {
  for (size_t i = 0; i < set_.patches.size(); ++i)
    if (serves_unwinding(i) && !armed_[i])
      for (size_t j = 0; j < set_.patches.size(); ++j) drop(j, plan::Reason::thread_inside);
}

// A springboard that lies in the window of a patch must not be written without that patch.
void Arming::drop_guests() {
  for (size_t i = 0; i < set_.patches.size(); ++i)
    if (const auto host = set_.patches[i].host; host && !armed_[*host])
      drop(i, plan::Reason::thread_inside);
}

// What the site and its springboard will hold. False: the stub is out of reach.
bool Arming::write_jumps(size_t patch, const arch::Stub& stub) {
  layout::SiteEntry& site = journal().sites[site_[patch]];
  std::optional<std::vector<uint8_t>> jump;
  if (set_.patches[patch].plan.springboard) {
    layout::SiteEntry& board = journal().sites[springboard_[patch]];
    const auto far = arch::encode_jump(board.address, stub.begin);
    if (!far) return false;
    std::copy(far->begin(), far->end(), board.written);
    jump = arch::encode_short_jump(site.address, board.address);
  } else {
    jump = arch::encode_jump(site.address, stub.begin);
  }
  const auto distance = static_cast<int64_t>(stub.body - site.address);
  if (!jump || distance != static_cast<int32_t>(distance)) return false;
  std::copy(jump->begin(), jump->end(), site.written);
  site.body = static_cast<int32_t>(distance);
  return true;
}

Result<void, SessionError> Arming::write_stubs() {
  const auto refused = [&](const SystemError& error) {
    return fail(SessionError(attach_error(AttachCause::memory_refused, error.number)));
  };
  const runtime::RuntimeSpec spec = runtime_spec();
  if (measures()) {
    const auto runtime = runtime::build_runtime(runtime_address_, spec);
    if (!runtime) return fail(SessionError(attach_error(AttachCause::no_address_space)));
    enter_ = runtime->enter;
    hook_.slot_code = runtime->slot_code;
    hook_.slots = runtime->data_address;
    hook_.personality = runtime->personality;
    hook_.unwound = runtime->unwound;
    for (const runtime::Piece& piece : runtime->pieces)
      if (auto written = target().memory().write(piece.address, piece.bytes); !written)
        return refused(written.error());
    session_.runtime_.emplace(Session::Runtime{runtime_address_, spec});
  }

  const auto cpus = runtime::cpu_cells(spec);
  stubs_.resize(set_.patches.size());
  armed_.assign(set_.patches.size(), true);
  struct Place {
    Address at = 0;
    arch::ArenaEntries entries = {};
  };
  std::vector<Place> places(set_.patches.size());
  for (Arena& arena : arenas_) {
    arch::Assembler head(arena.address);
    const auto entries = arch::emit_arena_header(head, arena_spec(arena, cpus));
    auto bytes = head.finish();
    assert(bytes.has_value());
    arena.bytes = *std::move(bytes);
    Address at = arena.address + align_up(arena.bytes.size(), kStubAlignment);
    for (size_t i : arena.patches) {
      // lay_out() has made room for all; one that finds none would be dropped.
      if (at + room_[i] > arena.address + arena.size) room_[i] = 0;
      places[i] = {at, entries};
      at += room_[i];
    }
    arena.bytes.resize(at - arena.address, 0xcc);
  }
  std::vector<std::optional<probe::PlacedStub>> placed(set_.patches.size());
  for_each_patch([&](size_t i) {
    auto stub = place_stub(set_.patches[i], places[i].at, places[i].entries);
    if (stub && stub->bytes.size() <= room_[i] && write_jumps(i, stub->stub))
      placed[i] = std::move(stub);
  });
  for (Arena& arena : arenas_) {
    for (size_t i : arena.patches) {
      const probe::SitePatch& patch = set_.patches[i];
      const auto& stub = placed[i];
      if (!stub) {
        drop(i, plan::Reason::out_of_reach);
        continue;
      }
      stubs_[i] = stub->stub;
      session_.report_.stub_bytes += stub->bytes.size();
      std::copy(stub->bytes.begin(), stub->bytes.end(),
                arena.bytes.begin() + static_cast<ptrdiff_t>(places[i].at - arena.address));
      for (size_t j = 0; j < patch.probes.size(); ++j)
        journal().probes[patch.probes[j]].body =
            static_cast<uint32_t>(stub->bodies[j] - stub->stub.body);
    }
    if (auto written = target().memory().write(arena.address, arena.bytes); !written)
      return refused(written.error());
  }
  return {};
}

Arming::Edits Arming::edits() const {
  Edits all;
  const auto add = [&](size_t patch, size_t site) {
    all.edits.push_back(patch::arming(session_.journal_.sites[site]));
    all.patch_of.push_back(patch);
  };
  for (size_t i = 0; i < set_.patches.size(); ++i) {
    if (!armed_[i]) continue;
    const plan::PlannedPatch& planned = set_.patches[i].plan;
    for (uint8_t offset : planned.patch.interior)
      for (const arch::Copy& copy : stubs_[i].copies)
        if (copy.window_offset == offset)
          all.interiors.push_back(
              {set_.patches[i].site() + offset, stubs_[i].body + copy.offset, all.edits.size()});
    add(i, site_[i]);
    if (planned.springboard) add(i, springboard_[i]);
  }
  std::sort(all.interiors.begin(), all.interiors.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  return all;
}

// Patches of which others are a part, or that are part of others, where the text is not as it was
// when they were planned: of those, all is written or nothing. An edit that stands alone finds out
// when it is written.
void Arming::drop_changed(const Edits& all) {
  std::vector<bool> shared(set_.patches.size());
  for (size_t i = 0; i < set_.patches.size(); ++i) {
    if (set_.patches[i].plan.springboard) shared[i] = true;
    if (const auto host = set_.patches[i].host) shared[*host] = true;
  }
  std::vector<patch::TextEdit> some;
  std::vector<size_t> patch_of;
  for (size_t e = 0; e < all.edits.size(); ++e) {
    if (!shared[all.patch_of[e]]) continue;
    some.push_back(all.edits[e]);
    patch_of.push_back(all.patch_of[e]);
  }
  const auto held = patch::examine(target().memory(), some);
  for (size_t e = 0; e < some.size(); ++e)
    if (held[e] != patch::EditOutcome::written) drop(patch_of[e], plan::Reason::text_changed);
}

void Arming::keep_armed(Edits& all) const {
  size_t kept = 0;
  for (size_t e = 0; e < all.edits.size(); ++e) {
    if (!armed_[all.patch_of[e]]) continue;
    all.edits[kept] = all.edits[e];
    all.patch_of[kept++] = all.patch_of[e];
  }
  all.edits.resize(kept);
  all.patch_of.resize(kept);
  all.interiors.clear();
}

Result<void, SessionError> Arming::write_text() {
  drop_guests();
  // From here on the file has to be believed: whatever a site holds, it is one of the two.
  journal().header.state = layout::SessionState::armed;
  for (const auto& written :
       {file().write_tables(journal()), file().write_header(journal().header)})
    if (!written) return fail(SessionError(written.error()));

  constexpr int kAttempts = 20;
  for (int attempt = 1;; ++attempt) {
    auto written = try_to_write_text(attempt == kAttempts);
    if (!written) return fail(written.error());
    if (*written) return {};
    sleep_ns(1'000'000);
  }
}

// False: a thread is in the way of a hook, and nothing was written.
Result<bool, SessionError> Arming::try_to_write_text(bool last_attempt) {
  Edits edits = this->edits();
  auto stopped = target::Stop::all_threads(target().pid());
  if (!stopped) return fail(SessionError(stopped.error()));
  target::Stop stop = *std::move(stopped);
  if (!target().same_image())
    return fail(SessionError(attach_error(AttachCause::exec_during_attach)));

  const auto busy = patch::clear_interiors(stop, target().memory(), edits.interiors);
  const auto is_in_hook = [&](size_t edit) {
    return set_.patches[edits.patch_of[edit]].hook.has_value();
  };
  if (!last_attempt && std::any_of(busy.begin(), busy.end(), is_in_hook)) {
    session_.report_.stopped_ns += stop.resume();
    return false;
  }
  for (size_t edit : busy) drop(edits.patch_of[edit], plan::Reason::thread_inside);
  drop_changed(edits);
  drop_what_needs_hooks();
  drop_guests();
  keep_armed(edits);
  const auto outcomes =
      patch::apply(stop, target().memory(), edits.edits, patch::Order::phases_upward);
  session_.report_.stopped_ns += stop.resume();
  if (!outcomes)
    return fail(SessionError(attach_error(AttachCause::memory_refused, outcomes.error().number)));
  for (size_t e = 0; e < outcomes->size(); ++e)
    if ((*outcomes)[e] != patch::EditOutcome::written)
      drop(edits.patch_of[e], plan::Reason::text_changed);
  return true;
}

Result<void, SessionError> Arming::run() {
  for (auto step : {&Arming::lay_out, &Arming::create_file, &Arming::map_memory,
                    &Arming::write_stubs, &Arming::write_text})
    if (auto done = (this->*step)(); !done) return done;
  for (uint32_t i = 0; i < set_.probes.size(); ++i)
    if (armed_[set_.probes[i].patch]) session_.probes_.push_back({std::move(set_.probes[i]), i});
  session_.report_.armed = session_.probes_.size();
  for (size_t i = 0; i < set_.patches.size(); ++i)
    if (is_hook(i, probe::Hook::Kind::unwinder) && armed_[i]) ++session_.report_.unwinders;
  for (const Arena& arena : arenas_) {
    ObjectSites sites = arena.sites;
    for (size_t i : arena.patches)
      if (armed_[i]) sites.armed = std::min(sites.armed, site_[i]);
    session_.sites_of_objects_.push_back(sites);
  }
  for (size_t i = 0; i < set_.patches.size(); ++i)
    if (is_hook(i, probe::Hook::Kind::loader) && armed_[i])
      session_.loader_ = LoaderWatch::start(file().path(), journal());
  return {};
}

Result<Session, SessionError> Session::arm(target::RemoteTarget target,
                                           const image::ProcessImage& image, probe::ProbeSet set,
                                           const ArmOptions& options) {
  Session session(std::move(target), image);
  session.report_.skipped = std::move(set.skipped);
  if (set.patches.empty()) return session;
  Arming arming(session, std::move(set), options);
  if (auto armed = arming.run(); !armed) {
    if (session.file_) static_cast<void>(session.disarm());
    return fail(armed.error());
  }
  return session;
}

std::vector<Unloaded> Session::note_unloaded(const image::ProcessImage& now) {
  std::vector<Unloaded> unloaded;
  if (!file_ || disarmed_) return unloaded;
  using Phase = layout::SiteEntry::Phase;
  for (const layout::ObjectEntry& entry : journal_.objects) {
    const auto object = std::find_if(now.objects.begin(), now.objects.end(), [&](const auto& one) {
      return one->bias() == entry.bias && one->path() == journal_.name(entry.path);
    });
    // Unloaded and loaded again to the same place, it holds its own bytes.
    ObjectSites& sites = sites_of_objects_[static_cast<size_t>(&entry - journal_.objects.data())];
    if (sites.armed == sites.end) continue;
    // The text is the truth: a file that cannot be read just now is not gone. Unloaded and loaded
    // again to the same place, an object holds its own bytes.
    const auto edit = patch::arming(journal_.sites[sites.armed]);
    const auto held = patch::examine(target_.memory(), {&edit, 1})[0];
    if (held == patch::EditOutcome::already) continue;
    if (held == patch::EditOutcome::different && object != now.objects.end()) continue;
    for (size_t i = sites.begin; i < sites.end; ++i) journal_.sites[i].phase = Phase::gone;
    sites.armed = sites.end;
    unloaded.push_back({std::string(journal_.name(entry.name)),
                        std::string(journal_.name(entry.path)), entry.bias});
  }
  if (!unloaded.empty()) static_cast<void>(file_->write_tables(journal_));
  return unloaded;
}

// Nobody waits for this, and the target goes on meanwhile: it sees new slots when the last word is
// written.
void Session::provide_slots() {
  if (!runtime_ || disarmed_) return;
  auto& [address, spec] = *runtime_;
  const Address context_at = address +
                             runtime::runtime_extent(spec.capacity, spec.cpu_count).data_size -
                             sizeof(layout::RuntimeContext);
  uint64_t fresh = 0;
  if (spec.slot_count == spec.capacity ||
      !target_.memory().read_value(context_at + offsetof(layout::RuntimeContext, fresh), fresh) ||
      fresh < spec.slot_count / 2)
    return;
  const uint64_t first = spec.slot_count;
  runtime::RuntimeSpec more = spec;
  more.slot_count = std::min(spec.capacity, 2 * first);
  const auto pieces = runtime::build_slots(address, more, first);
  if (!pieces) return;
  for (const runtime::Piece& piece : *pieces)
    if (!target_.memory().write(piece.address, piece.bytes)) return;
  if (target_.memory().write_value(context_at + offsetof(layout::RuntimeContext, fresh_limit),
                                   more.slot_count))
    spec = more;
}

bool Session::is_gone() const {
  return std::all_of(sites_of_objects_.begin(), sites_of_objects_.end(),
                     [](const ObjectSites& sites) { return sites.armed == sites.end; });
}

Session::Session(Session&& other) noexcept
    : target_(std::move(other.target_)),
      image_(other.image_),
      probes_(std::move(other.probes_)),
      report_(std::move(other.report_)),
      journal_(std::move(other.journal_)),
      file_(std::exchange(other.file_, std::nullopt)),
      sites_of_objects_(std::move(other.sites_of_objects_)),
      loader_(std::move(other.loader_)),
      runtime_(other.runtime_),
      disarmed_(other.disarmed_) {}

Session::~Session() {
  if (file_ && !disarmed_) static_cast<void>(disarm());
}

Result<DisarmReport, SessionError> Session::disarm(const image::ProcessImage* now) {
  if (!file_ || disarmed_) return DisarmReport{};
  disarmed_ = true;
  loader_.reset();
  return session::disarm(target_, now != nullptr ? *now : *image_, *file_, journal_);
}

}  // namespace pinprick::session
