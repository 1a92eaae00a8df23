// Chooses where a session's memory will lie in the process.
//
// Pure: it works on a list of what is mapped there. The process runs on, and may take an address
// that was chosen. Then the caller chooses again, from a new list, before anything of ours is
// mapped.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/address.h"
#include "engine/stubs/arena_layout.h"
#include "image/maps.h"
#include "layout/session_file.h"
#include "runtime/image.h"
#include "target/address_space.h"

namespace pinprick::engine {

// What is to be mapped, by sizes.
struct MemoryNeeds {
  uint64_t scratch = 0;
  uint64_t tables = 0;
  uint64_t areas = 0;
  std::optional<runtime::RuntimeExtent> runtime;
  struct Near {
    Range object;  // within reach of all of it
    uint64_t size = 0;
    Range reach = object;  // and of all of this, if there is such a place
  };
  std::vector<Near> arenas;
  std::vector<Range> islands;  // just there, if it is free
};

// `runtime`: of a session that has one. `header`: with the sizes of its sections.
MemoryNeeds memory_needs(const ArenaLayout& layout, const layout::FileHeader& header,
                         std::optional<runtime::RuntimeExtent> runtime);

// What is adjacent is unmapped by one call (disarm.cc): the arenas of objects that lie close
// together, and after the first of these the tables, the areas and the runtime.
struct ChosenAddresses {
  // In this order: scratch, tables, areas, the runtime's data and code, arenas, islands. The
  // address of what has found none is 0.
  std::vector<layout::MappingEntry> mappings;
  Address runtime = 0;
  std::vector<Address> arenas;
  // All but islands have one: the stubs of millions of instructions may need what puns lead
  // to.
  bool is_complete = true;
};

ChosenAddresses choose_addresses(target::AddressSpace space, const MemoryNeeds& needs);

// Has the process mapped something where one of these is to be?
bool is_any_taken(const std::vector<layout::MappingEntry>& planned,
                  const std::vector<image::Mapping>& maps);

// The index of the mapping of that kind, which the session has.
size_t mapping_of(const layout::Session& journal, layout::MappingEntry::Kind kind);

}  // namespace pinprick::engine
