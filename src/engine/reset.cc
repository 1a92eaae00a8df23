#include "engine/reset.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/calls/open_calls.h"
#include "engine/calls/slot_use.h"
#include "engine/calls/thread_table.h"
#include "image/maps.h"
#include "layout/runtime_data.h"
#include "patch/thread_stacks.h"
#include "target/stop.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;

// Clears the starts in the table of threads.
void forget_threads(const target::Memory& memory, const ThreadTable& table) {
  std::vector<uint8_t> bytes(table.size());
  if (!memory.read(table.begin, bytes)) return;
  for (uint64_t entry = 0; entry < layout::kThreadEntries; ++entry)
    for (uint64_t at = entry * table.entry_size + sizeof(layout::ThreadEntry);
         at + sizeof(uint64_t) <= (entry + 1) * table.entry_size; at += sizeof(uint64_t)) {
      uint64_t start = 0;
      std::memcpy(&start, bytes.data() + at, sizeof start);
      if (start != 0) static_cast<void>(memory.write_value(table.begin + at, uint64_t{0}));
    }
}

void drop_calls(const target::Memory& memory, const MappingEntry& data) {
  const SlotUse use = look_at_slots(memory, data);
  for (size_t i = 0; i < use.slots.size(); ++i)
    if (use.slots[i].return_address != 0)
      static_cast<void>(
          memory.write_value(use.address + i * sizeof(layout::Slot) + offsetof(layout::Slot, tsc),
                             use.slots[i].tsc | layout::kTscDropped));
  drop_open_calls(memory, data);
}

// The code in which a thread may be recording a call or value: the runtime, and the stubs, if it
// runs code of theirs at returns.
std::vector<Range> recording_code(const layout::Session& journal) {
  const bool calls_stubs = std::any_of(journal.probes.begin(), journal.probes.end(),
                                       [](const auto& probe) { return probe.at_return != 0; });
  std::vector<Range> code;
  for (const MappingEntry& entry : journal.mappings)
    if (entry.kind == MappingEntry::Kind::runtime_code ||
        (calls_stubs && entry.kind == MappingEntry::Kind::stubs))
      code.push_back({entry.address, entry.address + entry.size});
  return code;
}

// Also if a signal handler has interrupted it there.
bool is_any_in(target::Stop& stop, const target::Memory& memory, std::span<const Range> code) {
  const auto maps = image::read_maps(stop.pid());
  return std::any_of(stop.threads().begin(), stop.threads().end(), [&](const auto& thread) {
    return std::any_of(code.begin(), code.end(),
                       [&](Range range) { return range.contains(thread.instruction_pointer()); }) ||
           (maps && patch::signal_returns_to(*maps, memory, thread, code));
  });
}

}  // namespace

Result<void, ledger::SessionError> forget_starts(const target::Memory& memory,
                                                 ledger::SessionFile& file,
                                                 const layout::Session& journal) {
  if (const auto table = thread_table(memory, journal)) forget_threads(memory, *table);
  if (auto forgotten = file.forget_gaps(journal); !forgotten)
    return fail(ledger::SessionError(forgotten.error()));
  return {};
}

Result<ResetReport, ledger::SessionError> reset(const target::RemoteTarget& target,
                                                ledger::SessionFile& file,
                                                layout::Session& journal) {
  constexpr int kAttempts = 20;
  ResetReport report;
  const auto* const data = find_mapping(journal, MappingEntry::Kind::runtime_data);
  const auto code = recording_code(journal);
  std::optional<target::Stop> stop;
  for (int attempt = 1; attempt <= kAttempts; ++attempt) {
    auto stopped = target::Stop::all_threads(target.pid());
    if (!stopped) return fail(ledger::SessionError(stopped.error()));
    stop.emplace(*std::move(stopped));
    report.is_torn = !code.empty() && is_any_in(*stop, target.memory(), code);
    if (!report.is_torn || attempt == kAttempts) break;
    static_cast<void>(std::move(*stop).resume());
    stop.reset();
    sleep_ns(100'000);
  }
  if (!target.same_image())
    return fail(
        ledger::SessionError(target::AttachError{target.why_gone(), target.pid(), 0, 0, {}}));
  // First: there may be no space for it, and then nothing is lost.
  if (auto done = file.reset(journal); !done) return fail(ledger::SessionError(done.error()));
  if (auto forgotten = forget_starts(target.memory(), file, journal); !forgotten)
    return fail(forgotten.error());
  if (data != nullptr) drop_calls(target.memory(), *data);
  report.stopped_ns = std::move(*stop).resume();
  return report;
}

}  // namespace pinprick::engine
