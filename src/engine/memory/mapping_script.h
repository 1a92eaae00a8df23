// The calls by which one thread of the process maps and unmaps a session's memory, as data.
//
// Pure. memory_mapping.h and disarm.cc let the thread make them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/syscall.h"
#include "engine/memory/kept_memory.h"
#include "engine/plan/arming_modes.h"
#include "layout/session_file.h"

namespace pinprick::engine {

// The calls, and which mapping each is to make.
struct MappingScript {
  std::vector<arch::ScriptedCall> calls;
  std::vector<std::optional<size_t>> mapping;

  void add(const arch::ScriptedCall& call, std::optional<size_t> index = std::nullopt) {
    calls.push_back(call);
    mapping.push_back(index);
  }
};

// Executable or writable, never both. The descriptor of a call is that of the session file, which
// memory without a file does not ask for.
arch::ScriptedCall mapping_call(const layout::MappingEntry& entry, uint64_t areas_offset);

// All mappings but the scratch page that the script itself lies in, and those without an address.
// First `opening`, the calls by which the process gets the session file; at the end `ending`.
MappingScript mapping_script(const layout::Session& journal, Children children,
                             std::span<const arch::ScriptedCall> opening,
                             std::span<const arch::ScriptedCall> ending);

// The same for a process that has the memory already, with another session's file: the mappings of
// that file become those of this one.
MappingScript replacing_script(const layout::Session& journal,
                               std::span<const arch::ScriptedCall> opening,
                               std::span<const arch::ScriptedCall> ending);

// What to unmap, by one call each: all of the mappings that is not kept. What is adjacent is one
// range (address_choice.h). Those with the file's own mappings come last: by these, what a child
// has that is forked meanwhile is found.
std::vector<Range> ranges_to_unmap(std::vector<layout::MappingEntry> mapped,
                                   const KeptMemory& kept);

// Chains them, each to lie after the one before from `table` on.
void chain(MappingScript& script, Address table);

// Size of the scratch memory: for what is handed over, and for a script with as many mappings.
uint64_t scratch_size(size_t mappings);

const char* name_of(const arch::ScriptedCall& call);

constexpr bool is_error(uint64_t result) {
  return static_cast<int64_t>(result) < 0;
}

}  // namespace pinprick::engine
