#include "engine/calls/caller_table.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "engine/calls/thread_table.h"
#include "layout/runtime_data.h"
#include "runtime/callers.h"

namespace pinprick::engine {
namespace {

struct Context {
  layout::RuntimeContext value;
  Address at = 0;
  Range data;
};

// The process can write it, so it says only what lies within the session's own data.
std::optional<Context> context_of(const target::Memory& memory, const layout::Session& journal) {
  const auto* const data = find_mapping(journal, layout::MappingEntry::Kind::runtime_data);
  Context context;
  if (data == nullptr || data->size < sizeof context.value) return std::nullopt;
  context.data = {data->address, data->address + data->size};
  context.at = context.data.end - sizeof context.value;
  if (!memory.read_value(context.at, context.value) || context.value.magic != layout::kContextMagic)
    return std::nullopt;
  return context;
}

}  // namespace

void admit_callers(const target::Memory& memory, const layout::Session& journal,
                   std::span<const Range> code) {
  const auto context = context_of(memory, journal);
  if (!context || !context->data.contains(context->value.callers)) return;
  // The threads of spans follow, or open calls, or else what is at the end of all data.
  Address end = context->at - PP_REUSABLE_SIZE;
  for (const Address next : {context->value.open_calls, context->value.threads})
    if (context->data.contains(next)) end = std::min(end, next);
  if (end <= context->value.callers) return;
  std::vector<uint8_t> bytes(end - context->value.callers);
  if (!memory.read(context->value.callers, bytes)) return;
  auto table = runtime::CallerTable::read(context->value.callers, bytes);
  if (!table) return;
  for (const runtime::Piece& piece : table->update(code))
    if (!memory.write(piece.address, piece.bytes)) return;  // the process has ended
}

Address take_unknown_caller(const target::Memory& memory, const layout::Session& journal) {
  const auto context = context_of(memory, journal);
  if (!context || context->value.unknown_caller == 0) return 0;
  const Address at = context->at + offsetof(layout::RuntimeContext, unknown_caller);
  static_cast<void>(memory.write_value(at, Address{0}));
  return context->value.unknown_caller;
}

}  // namespace pinprick::engine
