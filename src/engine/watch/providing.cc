#include "engine/watch/providing.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "arch/stub.h"
#include "base/clock.h"
#include "engine/calls/thread_table.h"
#include "engine/owners/ownership.h"
#include "image/maps.h"
#include "layout/runtime_data.h"
#include "ledger/discovery.h"
#include "ledger/turn.h"
#include "target/procfs.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using layout::RuntimeContext;

// Writes the code of the slots from `first` up to `end`. It leaves to where that of slot 0 does.
// The slots themselves are zero until they are used.
bool write_slot_code(const target::Memory& memory, Address slots, Address code, uint64_t first,
                     uint64_t end) {
  std::array<uint8_t, arch::kSlotCodeSize> bytes;
  if (!memory.read(code, bytes)) return false;
  const auto leave = arch::where_slot_leaves(bytes, code);
  if (!leave) return false;
  const Address begin = code + first * arch::kSlotCodeSize;
  arch::Assembler assembler(begin);
  arch::emit_slot_code(assembler, slots + first * sizeof(layout::Slot), end - first, *leave);
  const auto emitted = assembler.finish();
  return emitted && memory.write(begin, *emitted);
}

}  // namespace

Provided provide_slots(const target::Memory& memory, const layout::Session& journal) {
  const MappingEntry* const data = find_mapping(journal, MappingEntry::Kind::runtime_data);
  const MappingEntry* const code = find_mapping(journal, MappingEntry::Kind::runtime_code);
  RuntimeContext context;
  if (data == nullptr || code == nullptr || data->size < sizeof context) return {};
  const Address context_at = data->address + data->size - sizeof context;
  layout::Slot slot;
  if (!memory.read_value(context_at, context) || context.magic != layout::kContextMagic ||
      !memory.read_value(data->address, slot) || slot.code - code->address >= code->size)
    return {};
  // The process's memory is not trusted.
  const uint64_t room = std::min({context.slot_count, (data->size - sizeof context) / sizeof slot,
                                  (code->address + code->size - slot.code) / arch::kSlotCodeSize});
  const uint64_t first = context.fresh_limit;
  if (first == 0 || first > room) return {};
  if (first == room) return {room, false};
  if (context.fresh < first / 2) return {first, context.fresh >= first / 4};
  const uint64_t end = std::min(room, (context.fresh < first ? 2 : 4) * first);
  if (!write_slot_code(memory, data->address, slot.code, first, end) ||
      !memory.write_value(context_at + offsetof(RuntimeContext, fresh_limit), end))
    return {first, false};
  return {end, end < room};
}

// First the table is read, then the threads, so that a thread which is missing there has ended. In
// vain if its entry was claimed meanwhile, by a thread with another TID.
void sweep_threads(pid_t pid, const target::Memory& memory, const layout::Session& journal) {
  const auto table = thread_table(memory, journal);
  if (!table) return;
  std::vector<uint8_t> bytes(table->size());
  if (!memory.read(table->begin, bytes)) return;
  const bool is_namespaced = target::tid_inside(pid, pid) != pid;
  const auto list = [&] {
    std::vector<pid_t> tids = target::list_threads(pid);
    if (is_namespaced)
      for (pid_t& tid : tids) tid = target::tid_inside(pid, tid);
    std::sort(tids.begin(), tids.end());
    return tids;
  };
  const std::vector<pid_t> tids = list();
  if (tids.empty()) return;
  // While threads end, a list may leave out others.
  std::optional<std::vector<pid_t>> second;
  const auto lives_yet = [&](pid_t tid) {
    if (!is_namespaced) return target::read_thread_status(pid, tid).has_value();
    if (!second) second = list();
    return std::binary_search(second->begin(), second->end(), tid);
  };
  for (uint64_t i = 0; i < layout::kThreadEntries; ++i) {
    layout::ThreadEntry entry;
    std::memcpy(&entry, bytes.data() + i * table->entry_size, sizeof entry);
    if (entry.owner == 0 || entry.tid == entry.dead ||
        std::binary_search(tids.begin(), tids.end(), static_cast<pid_t>(entry.tid)))
      continue;
    if (lives_yet(static_cast<pid_t>(entry.tid))) continue;
    const Address dead = table->begin + i * table->entry_size + offsetof(layout::ThreadEntry, dead);
    static_cast<void>(memory.write_value(dead, entry.tid));
  }
}

void provide_for_kept(pid_t pid) {
  constexpr uint64_t kPatienceNs = 10'000'000;
  const auto turn = ledger::Turn::take(pid, kPatienceNs);
  if (!turn) return;
  const auto memory = target::Memory::open(pid);
  if (!memory) return;
  const auto maps = image::read_maps(pid);
  if (!maps) return;
  for (const ledger::FoundSession& found : ledger::find_sessions(pid).sessions)
    if (found.is_kept() && is_in_target(*memory, found.journal, *maps, found.file))
      sweep_threads(pid, *memory, found.journal);
}

std::vector<Adopted> Adopted::all_of(pid_t pid, const target::Memory& memory) {
  std::vector<Adopted> adopted;
  const auto maps = image::read_maps(pid);
  if (!maps || memory.is_gone()) return adopted;
  for (const ledger::FoundSession& found : ledger::find_sessions(pid).sessions) {
    if (!found.target_lives || found.controller_lives || found.is_kept() ||
        found.journal.header.state != layout::SessionState::armed)
      continue;
    auto file = ledger::SessionFile::open(found.file.path(), ledger::SessionFile::Lock::exclusive);
    if (!file) continue;
    auto journal = file->read();  // again, now that the file is locked
    if (!journal || !ledger::is_trusted(*file, pid) ||
        !is_in_target(memory, *journal, *maps, *file))
      continue;
    journal->header.controller = ::getpid();
    if (!file->write_header(journal->header)) continue;
    adopted.push_back({*std::move(file), *std::move(journal)});
  }
  return adopted;
}

bool Adopted::provide(const target::Memory& memory) {
  uint64_t bytes = file_.read_pool(journal_).limit;
  while (bytes != 0 && file_.extend_pool(journal_, bytes)) continue;
  if (monotonic_ns() - swept_ns_ >= kSweepPauseNs) {
    swept_ns_ = monotonic_ns();
    sweep_threads(journal_.header.pid, memory, journal_);
  }
  return provide_slots(memory, journal_).soon;
}

}  // namespace pinprick::engine
