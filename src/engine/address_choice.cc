#include "engine/address_choice.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/mapping_script.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;

class Chooser {
 public:
  explicit Chooser(target::AddressSpace space) : space_(std::move(space)) {}

  // Returns false if there is no address.
  bool add(MappingEntry::Kind kind, std::optional<Address> at, uint64_t size) {
    chosen_.mappings.push_back({at.value_or(0), align_up(size, kPageSize), kind, {}});
    return at.has_value();
  }
  void need(MappingEntry::Kind kind, std::optional<Address> at, uint64_t size) {
    chosen_.is_complete = add(kind, at, size) && chosen_.is_complete;
  }
  void choose_runtime(const runtime::RuntimeExtent& extent);
  ChosenAddresses choose(const MemoryNeeds& needs);

 private:
  target::AddressSpace space_;
  ChosenAddresses chosen_;
};

void Chooser::choose_runtime(const runtime::RuntimeExtent& extent) {
  const auto at = space_.take_anywhere(extent.size());
  chosen_.runtime = at.value_or(0);
  need(MappingEntry::Kind::runtime_data, at, extent.data_size);
  need(MappingEntry::Kind::runtime_code, at ? std::optional(*at + extent.data_size) : at,
       extent.code_size);
}

ChosenAddresses Chooser::choose(const MemoryNeeds& needs) {
  for (Range pages : needs.islands) space_.wish(pages);
  const auto anywhere = [&](MappingEntry::Kind kind, uint64_t size) {
    need(kind, space_.take_anywhere(size), size);
  };
  anywhere(MappingEntry::Kind::scratch, needs.scratch);
  anywhere(MappingEntry::Kind::tables, needs.tables);
  anywhere(MappingEntry::Kind::areas, needs.areas);
  if (needs.runtime) choose_runtime(*needs.runtime);
  for (const MemoryNeeds::Near& arena : needs.arenas) {
    const auto at = space_.take_near(arena.object, arena.size);
    chosen_.arenas.push_back(at.value_or(0));
    need(MappingEntry::Kind::stubs, at, arena.size);
  }
  if (!chosen_.is_complete) return std::move(chosen_);
  for (Range pages : needs.islands)
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
    needs.arenas.push_back({arena.object->extent(), arena.size});
  needs.islands = layout.islands;
  return needs;
}

ChosenAddresses choose_addresses(target::AddressSpace space, const MemoryNeeds& needs) {
  return Chooser(std::move(space)).choose(needs);
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
