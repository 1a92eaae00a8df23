#include "engine/memory/address_choice.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "arch/code.h"
#include "engine/memory/mapping_script.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;

// More than that is easier to find in parts.
constexpr uint64_t kMostTogether = uint64_t{512} << 20;
// So wide can objects lie apart that have one range near them. What is within reach of all of them
// becomes less the wider they lie.
constexpr uint64_t kWidest = uint64_t{512} << 20;

// Arenas whose objects lie close together.
struct Neighbours {
  Range objects, reach;
  std::vector<size_t> arenas;
  uint64_t size = 0;
};

Range around(Range a, Range b) {
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

std::vector<Neighbours> neighbours(const std::vector<MemoryNeeds::Near>& arenas) {
  std::vector<size_t> order(arenas.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return arenas[a].object.begin < arenas[b].object.begin; });
  std::vector<Neighbours> all;
  for (size_t i : order) {
    const MemoryNeeds::Near& arena = arenas[i];
    const uint64_t size = align_up(arena.size, kPageSize);
    const Range reach = all.empty() ? arena.reach : around(all.back().reach, arena.reach);
    const bool is_close =
        !all.empty() && reach.size() <= kWidest && all.back().size + size <= kMostTogether;
    if (!is_close) all.push_back({arena.object, arena.reach, {}, 0});
    all.back().objects = around(all.back().objects, arena.object);
    all.back().reach = around(all.back().reach, arena.reach);
    all.back().arenas.push_back(i);
    all.back().size += size;
  }
  return all;
}

// Where a jump from these objects leads whose last byte has to be a breakpoint, as an instruction
// of the program begins there. libpinprick has trampolines there, and needs little, but there
// alone.
Range where_jumps_with_breakpoints_lead(Range objects) {
  static_assert(arch::kBreakpoint == 0xcc);
  constexpr uint64_t kFarthest = 0x3400'0000, kNearest = 0x3300'0000;
  return {objects.begin - std::min(objects.begin, kFarthest),
          objects.end - std::min(objects.end, kNearest)};
}

// Puts as much as it can side by side: what is adjacent is unmapped by one call, and each call
// waits until the process's thread gets a processor.
class Chooser {
 public:
  Chooser(target::AddressSpace space, const MemoryNeeds& needs)
      : space_(std::move(space)), needs_(needs), arenas_(needs.arenas.size()) {}

  ChosenAddresses choose();

 private:
  uint64_t file_size() const { return pages(needs_.tables) + pages(needs_.areas); }
  uint64_t common_size() const { return file_size() + pages(runtime_size()); }
  uint64_t runtime_size() const { return needs_.runtime ? needs_.runtime->size() : 0; }
  static uint64_t pages(uint64_t size) { return align_up(size, kPageSize); }

  // Space within reach of the program's code is scarce, and its heap may need it. So what need not
  // be near lies there only if it is small.
  bool may_be_near() const { return common_size() <= uint64_t{64} << 20; }

  void choose_arenas();
  void choose_common();
  bool place_together(const Neighbours& some, uint64_t more);
  void place_file(std::optional<Address> at);
  // Returns false if there is no address.
  bool add(MappingEntry::Kind kind, std::optional<Address> at, uint64_t size) {
    chosen_.mappings.push_back({at.value_or(0), pages(size), kind, {}});
    return at.has_value();
  }
  void need(MappingEntry::Kind kind, std::optional<Address> at, uint64_t size) {
    chosen_.is_complete = add(kind, at, size) && chosen_.is_complete;
  }
  void need_runtime();

  target::AddressSpace space_;
  const MemoryNeeds& needs_;
  std::optional<Address> common_;  // the file's mappings and then the runtime, if they are together
  std::optional<Address> tables_;
  std::optional<Address> areas_;
  std::optional<Address> runtime_;
  std::vector<std::optional<Address>> arenas_;
  ChosenAddresses chosen_;
};

// Chooses one range for these arenas, and for `more` bytes after them, which are the common part.
bool Chooser::place_together(const Neighbours& some, uint64_t more) {
  if (some.size + more > kMostTogether) return false;
  const auto at = space_.take_near(some.objects, some.size + more, some.reach);
  if (!at) return false;
  Address next = *at;
  for (size_t i : some.arenas) {
    arenas_[i] = next;
    next += pages(needs_.arenas[i].size);
  }
  if (more != 0) common_ = next;
  return true;
}

void Chooser::choose_arenas() {
  for (const Neighbours& some : neighbours(needs_.arenas)) {
    if (!common_ && may_be_near() && place_together(some, common_size())) continue;
    if (place_together(some, 0)) continue;
    for (size_t i : some.arenas) {
      const MemoryNeeds::Near& arena = needs_.arenas[i];
      arenas_[i] = space_.take_near(arena.object, arena.size, arena.reach);
      if (!arenas_[i]) arenas_[i] = space_.take_near(arena.object, arena.size);
    }
  }
}

void Chooser::place_file(std::optional<Address> at) {
  tables_ = at;
  if (at) areas_ = *at + pages(needs_.tables);
}

void Chooser::choose_common() {
  if (!common_ && common_size() <= kMostTogether) common_ = space_.take_anywhere(common_size());
  if (common_) {
    place_file(common_);
    runtime_ = *common_ + file_size();
    return;
  }
  place_file(space_.take_anywhere(file_size()));
  runtime_ = space_.take_anywhere(runtime_size());
}

void Chooser::need_runtime() {
  chosen_.runtime = runtime_.value_or(0);
  need(MappingEntry::Kind::runtime_data, runtime_, needs_.runtime->data_size);
  need(MappingEntry::Kind::runtime_code,
       runtime_ ? std::optional(*runtime_ + needs_.runtime->data_size) : runtime_,
       needs_.runtime->code_size);
}

ChosenAddresses Chooser::choose() {
  for (Range pages : needs_.islands) space_.wish(pages);
  for (const Neighbours& some : neighbours(needs_.arenas))
    space_.wish(where_jumps_with_breakpoints_lead(some.objects));
  choose_arenas();
  choose_common();
  need(MappingEntry::Kind::scratch, space_.take_anywhere(needs_.scratch), needs_.scratch);
  need(MappingEntry::Kind::tables, tables_, needs_.tables);
  need(MappingEntry::Kind::areas, areas_, needs_.areas);
  if (needs_.runtime) need_runtime();
  for (size_t i = 0; i < arenas_.size(); ++i) {
    chosen_.arenas.push_back(arenas_[i].value_or(0));
    need(MappingEntry::Kind::stubs, arenas_[i], needs_.arenas[i].size);
  }
  if (!chosen_.is_complete) return std::move(chosen_);
  for (Range pages : needs_.islands)
    add(MappingEntry::Kind::islands,
        space_.take_at(pages) ? std::optional(pages.begin) : std::nullopt, pages.size());
  return std::move(chosen_);
}

}  // namespace

MemoryNeeds memory_needs(const ArenaLayout& layout, const layout::FileHeader& header,
                         std::optional<runtime::RuntimeExtent> runtime) {
  MemoryNeeds needs;
  needs.scratch = scratch_size(layout.arenas.size() + layout.islands.size() + 4);
  needs.tables = layout::tables_size(header);
  needs.areas = header.file_size - header.areas_offset;
  needs.runtime = runtime;
  for (const Arena& arena : layout.arenas)
    needs.arenas.push_back({arena.object->extent(), arena.size, arena.reach});
  needs.islands = layout.islands;
  return needs;
}

ChosenAddresses choose_addresses(target::AddressSpace space, const MemoryNeeds& needs) {
  return Chooser(std::move(space), needs).choose();
}

bool is_any_taken(const std::vector<MappingEntry>& planned,
                  const std::vector<image::Mapping>& maps) {
  return std::any_of(planned.begin(), planned.end(), [&](const MappingEntry& entry) {
    const Range wanted = {entry.address, entry.address + entry.size};
    return std::any_of(maps.begin(), maps.end(),
                       [&](const image::Mapping& there) { return there.range.overlaps(wanted); });
  });
}

size_t mapping_of(const layout::Session& journal, MappingEntry::Kind kind) {
  const auto& mappings = journal.mappings;
  for (size_t i = 0; i < mappings.size(); ++i)
    if (mappings[i].kind == kind) return i;
  assert(false && "the session has no such mapping");
  return 0;
}

}  // namespace pinprick::engine
