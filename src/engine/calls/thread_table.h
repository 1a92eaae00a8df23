// Where a session's table of threads is in the target (runtime/span.inc).
#pragma once

#include <cstdint>
#include <optional>

#include "base/address.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

struct ThreadTable {
  Address begin = 0;
  uint64_t entry_size = 0;  // of layout::kThreadEntries entries
  uint64_t size() const { return entry_size * layout::kThreadEntries; }
};

// Returns nullopt if the session has none. The target can write what says where it is: whatever is
// there, the table lies within the session's own data.
std::optional<ThreadTable> thread_table(const target::Memory& memory,
                                        const layout::Session& journal);

// Returns the session's mapping of that kind, or nullptr.
const layout::MappingEntry* find_mapping(const layout::Session& journal,
                                         layout::MappingEntry::Kind kind);

}  // namespace pinprick::engine
