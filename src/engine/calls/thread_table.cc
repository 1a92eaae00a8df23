#include "engine/calls/thread_table.h"

#include <algorithm>

#include "layout/runtime_data.h"

namespace pinprick::engine {

using layout::MappingEntry;

const MappingEntry* find_mapping(const layout::Session& journal, MappingEntry::Kind kind) {
  const auto found =
      std::find_if(journal.mappings.begin(), journal.mappings.end(),
                   [&](const MappingEntry& mapping) { return mapping.kind == kind; });
  return found == journal.mappings.end() ? nullptr : &*found;
}

std::optional<ThreadTable> thread_table(const target::Memory& memory,
                                        const layout::Session& journal) {
  const MappingEntry* const data = find_mapping(journal, MappingEntry::Kind::runtime_data);
  layout::RuntimeContext context;
  if (data == nullptr || data->size < sizeof context ||
      !memory.read_value(data->address + data->size - sizeof context, context) ||
      context.magic != layout::kContextMagic || context.threads < data->address ||
      context.threads - data->address >= data->size)
    return std::nullopt;
  const ThreadTable table = {context.threads, context.thread_size};
  const uint64_t room = data->address + data->size - context.threads;
  if (table.entry_size < sizeof(layout::ThreadEntry) ||
      table.entry_size > layout::thread_entry_size(layout::kMostSpans) || table.size() > room)
    return std::nullopt;
  return table;
}

}  // namespace pinprick::engine
