#include "library/probes/stub_space.h"

#include <sys/mman.h>
#include <sys/rseq.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>

#include "base/machine.h"
#include "image/maps.h"
#include "library/process/children.h"
#include "library/process/own_ledger.h"
#include "library/process/unwinding.h"
#include "target/address_space.h"

namespace pinprick::library {
namespace {

using Kind = arch::RangeKind;

constexpr uint64_t kStubAlignment = 8;
constexpr uint64_t kMostStub = 1024;  // bytes of one, with all that it displaces
constexpr uint64_t kArenaCode = 4 << 20;
constexpr uint64_t kMostStubs = 128 << 10;  // in an arena
constexpr uint64_t kGroups = kMostStubs / arch::StubTables::kGroup;
constexpr uint64_t kGroupNumbers = arch::StubTables::kGroup * sizeof(uint16_t);
constexpr uint64_t kArenaPointers = 512 << 10;
constexpr uint64_t kPointer = 2 * sizeof(Address);  // a trampoline's stub and site
constexpr uint64_t kAreaSize = 8 << 20;             // per CPU; takes memory only where it is used

std::optional<arch::RseqArea> own_rseq() {
  if (!can_mark_children()) return std::nullopt;
  return arch::RseqArea{static_cast<int32_t>(__rseq_offset)};
}

}  // namespace

StubSpace::StubSpace()
    : rseq_(own_rseq()), trampolines_([this](Range chunk) { return map_trampolines(chunk); }) {}

runtime::RuntimeSpec StubSpace::areas_spec() const {
  runtime::RuntimeSpec spec;
  spec.cpu_count = std::min(possible_cpus(), layout::kMaxCpus);
  spec.rseq = rseq_;
  spec.areas = memory_;
  spec.area_size = kAreaSize;
  return spec;
}

bool StubSpace::make_areas() {
  if (memory_ != 0) return true;
  const uint64_t areas = areas_spec().cpu_count + 1;
  void* const memory = ::mmap(nullptr, areas * kAreaSize, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  memory_ = reinterpret_cast<Address>(memory);
  areas_ = areas;
  return true;
}

std::optional<Address> StubSpace::map_arena(Range object) {
  constexpr int kTries = 8;  // other threads map memory, too
  for (int i = 0; i < kTries; ++i) {
    const auto maps = image::read_maps(::getpid());
    if (!maps) return std::nullopt;
    target::AddressSpace space(*maps, target::lowest_mappable_address());
    const auto at = space.take_near(object, kArenaCode + kArenaPointers);
    if (!at) return std::nullopt;
    if (!target::map_code({*at, *at + kArenaCode + kArenaPointers})) continue;
    void* const pointers = reinterpret_cast<void*>(*at + kArenaCode);
    if (::mprotect(pointers, kArenaPointers, PROT_READ | PROT_WRITE) != 0) return std::nullopt;
    return at;
  }
  return std::nullopt;
}

StubSpace::Arena* StubSpace::arena_for(Range object) {
  for (Arena& arena : arenas_)
    if (arena.code.end - arena.next >= kMostStub && arena.stubs < kMostStubs &&
        arena.next_pointer != arena.pointers.end && arch::reaches(arena.code.begin, object.end) &&
        arch::reaches(arena.pointers.end, object.begin))
      return &arena;
  if (!make_areas()) return nullptr;
  const auto at = map_arena(object);
  if (!at) return nullptr;
  Arena arena;
  arena.code = {*at, *at + kArenaCode};
  OwnLedger::get().note_code(arena.code);
  arena.pointers = {arena.code.end, arena.code.end + kArenaPointers};
  arena.next_pointer = arena.pointers.begin;
  arch::Assembler code(*at);
  const auto cpu_areas = runtime::cpu_areas(areas_spec());
  arch::ArenaSpec spec;
  spec.size = kArenaCode;
  spec.locked_areas = runtime::locked_areas(areas_spec());
  spec.cpu_areas = cpu_areas;
  arena.entries = arch::emit_arena_header(code, spec);
  arena.unwritten_at = *at;
  arena.unwritten = *code.finish();
  arena.next = *at + arena.unwritten.size();
  if (!cover_arena(arena)) return nullptr;
  arenas_.push_back(std::move(arena));
  return &arenas_.back();
}

std::optional<arch::Stub> StubSpace::place(Range object, std::span<const arch::StubAction> actions,
                                           const arch::Displaced& displaced) {
  Arena* const arena = arena_for(object);
  if (arena == nullptr) return std::nullopt;
  const Address at = align_up(arena->next, kStubAlignment);
  arch::Assembler code(at);
  arch::Stub stub =
      arch::emit_stub(code, arena->entries, {.rseq = rseq_, .actions = actions}, displaced);
  code.align(kStubAlignment, arch::kBreakpoint);
  const auto bytes = code.finish();
  if (!bytes || bytes->size() > kMostStub - kStubAlignment) return std::nullopt;
  arena->unwritten.resize(at - arena->unwritten_at);
  arena->unwritten.insert(arena->unwritten.end(), bytes->begin(), bytes->end());
  arena->next = at + bytes->size();
  add_to_tables(*arena, stub.frames, at, align_up(bytes->size(), kStubAlignment));
  stub.frames = {};
  return stub;
}

// Covers the arena by empty tables. Their memory is only taken as stubs are added.
bool StubSpace::cover_arena(Arena& arena) {
  const auto map = [](uint64_t size) -> Address {
    void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? 0 : reinterpret_cast<Address>(memory);
  };
  if (shapes_at_ == 0) {
    shapes_at_ = map(arch::StubShapes::kMostBytes);
    if (shapes_at_ == 0) return false;
    // Entries that are not written yet are 0, which must mean the end.
    [[maybe_unused]] const uint16_t end = shapes_.of_end();
    assert(end == 0);
  }
  // With one more group, for an unwinder that reads past the last one.
  const Address memory = map(kGroups * sizeof(uint32_t) + (kGroups + 1) * kGroupNumbers);
  if (memory == 0) return false;
  arch::StubTables& tables = arena.tables;
  tables.begin = align_up(arena.next, kStubAlignment);
  tables.groups = kGroups;
  tables.group_starts = memory;
  tables.shape_numbers = memory + kGroups * sizeof(uint32_t);
  tables.shapes = shapes_at_;
  std::fill_n(reinterpret_cast<uint32_t*>(tables.group_starts), kGroups,
              arch::StubTables::kNoGroup);
  const auto& rows = arena.entries.frames;
  cover({rows.front().from, rows.back().from}, Kind::stubs,
        [&](arch::Assembler& table) { return arch::emit_code_unwind_table(table, rows); });
  const Range stubs = {tables.begin, arena.code.end};
  cover(stubs, Kind::stubs,
        [&](arch::Assembler& table) { return arch::emit_stub_unwind_table(table, stubs, tables); });
  return true;
}

// Nothing leads to the stub yet, but threads that unwind from other stubs read these tables.
void StubSpace::add_to_tables(Arena& arena, const arch::StubFrames& frames, Address begin,
                              uint64_t room) {
  const uint16_t number = shapes_.add(arch::StubShapes::shape_of(frames, begin, room), room);
  const std::string& shapes = shapes_.bytes();
  std::copy(shapes.begin() + static_cast<ptrdiff_t>(shapes_written_), shapes.end(),
            reinterpret_cast<char*>(shapes_at_) + shapes_written_);
  shapes_written_ = shapes.size();
  auto* const numbers = reinterpret_cast<uint16_t*>(arena.tables.shape_numbers);
  __atomic_store_n(&numbers[arena.stubs], number, __ATOMIC_RELEASE);
  if (arena.stubs % arch::StubTables::kGroup == 0) {
    auto* const groups = reinterpret_cast<uint32_t*>(arena.tables.group_starts);
    __atomic_store_n(&groups[arena.stubs / arch::StubTables::kGroup],
                     static_cast<uint32_t>(begin - arena.tables.begin), __ATOMIC_RELEASE);
  }
  ++arena.stubs;
}

bool StubSpace::map_trampolines(Range chunk) {
  if (!target::map_code(chunk)) return false;
  OwnLedger::get().note_trampolines(chunk);
  cover(chunk, Kind::trampoline,
        [&](arch::Assembler& table) { return arch::emit_trampoline_unwind_table(table, chunk); });
  return true;
}

std::optional<StubSpace::Trampoline> StubSpace::trampoline(Range object, Address site,
                                                           std::span<const uint8_t> boundaries) {
  Arena* const arena = arena_for(object);
  if (arena == nullptr) return std::nullopt;
  const auto at = trampolines_.take(site, boundaries, arena->next_pointer);
  if (!at) return std::nullopt;
  const Address pointer = std::exchange(arena->next_pointer, arena->next_pointer + kPointer);
  reinterpret_cast<Address*>(pointer)[1] = site;
  const auto jump = arch::encode_indirect_jump(*at, pointer);
  for (size_t i = 0; i < jump->size(); ++i) unwritten_trampolines_.push_back({*at + i, (*jump)[i]});
  return Trampoline{*at, reinterpret_cast<std::atomic<Address>*>(pointer)};
}

Result<void, SystemError> StubSpace::write(const target::SelfTarget& self) {
  tell_unwinders();
  mark_children();
  for (Arena& arena : arenas_) {
    if (auto done = self.memory().write(arena.unwritten_at, arena.unwritten); !done) return done;
    arena.unwritten.clear();
    arena.unwritten_at = arena.next;
  }
  return patch::write_text(self.memory(), std::exchange(unwritten_trampolines_, {}));
}

std::optional<uint32_t> StubSpace::new_counter() {
  if (counters_used_ == kAreaSize / sizeof(uint64_t)) return std::nullopt;
  return static_cast<uint32_t>(counters_used_++ * sizeof(uint64_t));
}

uint64_t StubSpace::count(uint32_t offset) const {
  uint64_t sum = 0;
  for (uint64_t area = 0; area < areas_; ++area) {
    const auto* counter = reinterpret_cast<const uint64_t*>(memory_ + area * kAreaSize + offset);
    sum += __atomic_load_n(counter, __ATOMIC_RELAXED);
  }
  return sum;
}

}  // namespace pinprick::library
