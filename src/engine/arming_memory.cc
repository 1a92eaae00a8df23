// Arming: memory, which one thread of the target maps while the others go on.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "arch/vfork_hook.h"
#include "base/machine.h"
#include "base/task.h"
#include "engine/arming.h"
#include "engine/ownership.h"
#include "engine/remote_calls.h"
#include "patch/text_owner.h"
#include "target/handover.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using target::AttachCause;

int protection_of(MappingEntry::Kind kind) {
  if (kind == MappingEntry::Kind::tables) return PROT_READ;
  return layout::is_code(kind) ? PROT_READ | PROT_EXEC : PROT_READ | PROT_WRITE;
}

// The descriptor of a call is that of the file, which memory without one does not ask for.
arch::ScriptedCall mapping_call(const MappingEntry& entry, uint64_t cells_offset) {
  const bool is_file =
      entry.kind == MappingEntry::Kind::tables || entry.kind == MappingEntry::Kind::cells;
  const int flags = MAP_FIXED_NOREPLACE | (is_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
  return {SYS_mmap,
          {entry.address, entry.size, static_cast<uint64_t>(protection_of(entry.kind)),
           static_cast<uint64_t>(flags)},
          entry.kind == MappingEntry::Kind::cells ? cells_offset : 0};
}

constexpr bool is_error(uint64_t result) {
  return static_cast<int64_t>(result) < 0;
}

const char* name_of(const arch::ScriptedCall& call) {
  switch (call.number) {
    case SYS_close:
      return "close";
    case SYS_recvmsg:
      return "recvmsg";
    case SYS_madvise:
      return "madvise";
    default:
      return (call.arguments[2] & PROT_EXEC) != 0 ? "mmap of executable memory" : "mmap";
  }
}

}  // namespace

// Memory for what is handed over, and for the script.
uint64_t Arming::scratch_size(size_t mappings) {
  constexpr uint64_t kBesides = 4, kMark = 8;
  return align_up(
      kScript + sizeof(uint64_t) + (2 * mappings + kBesides) * sizeof(arch::ScriptedCall) + kMark,
      kPageSize);
}

Result<void, ledger::SessionError> Arming::map_scratch(target::HijackedThread& thread,
                                                       size_t index) {
  MappingEntry& entry = journal().mappings[index];
  entry.progress = MappingEntry::Progress::begun;
  if (auto written = file().write_mapping(journal(), index); !written)
    return fail(ledger::SessionError(written.error()));
  const auto call = mapping_call(entry, 0);
  auto mapped = thread.call(call.number, call.arguments[0], call.arguments[1], call.arguments[2],
                            call.arguments[3], UINT64_MAX, 0);
  return note_mapped(thread, index,
                     mapped ? *mapped : static_cast<uint64_t>(-mapped.error().number));
}

// What came of the call that was to map it.
Result<void, ledger::SessionError> Arming::note_mapped(target::HijackedThread& thread, size_t index,
                                                       uint64_t result) {
  MappingEntry& entry = journal().mappings[index];
  Result<void, ledger::SessionError> noted;
  if (result == entry.address) {
    entry.progress = MappingEntry::Progress::mapped;
    if (!mark(target().memory(), entry))
      noted = fail(ledger::SessionError(attach_error(AttachCause::memory_refused)));
  } else {
    // What may lie there is the program's. A kernel that does not know MAP_FIXED_NOREPLACE takes
    // the address as a hint.
    entry.progress = MappingEntry::Progress::none;
    if (!is_error(result)) static_cast<void>(thread.call(SYS_munmap, result, entry.size));
    const bool is_taken = !is_error(result) || result == static_cast<uint64_t>(-EEXIST);
    is_address_taken_ = is_address_taken_ || is_taken;
    noted = fail(ledger::SessionError(is_taken ? attach_error(AttachCause::no_address_space)
                                               : attach_error(AttachCause::call_refused,
                                                              static_cast<int>(-result),
                                                              name_of(mapping_call(entry, 0)))));
  }
  if (auto written = file().write_mapping(journal(), index); !written && noted)
    return fail(ledger::SessionError(written.error()));
  return noted;
}

// A child that is not to count does not know where cells are.
std::optional<arch::ScriptedCall> Arming::forget_at_fork(const MappingEntry& mapping) const {
  Range tables;
  if (mapping.kind == MappingEntry::Kind::stubs) tables = arch::tables_in_arena(usable_cpus());
  if (mapping.kind == MappingEntry::Kind::runtime_data) {
    const uint64_t context = mapping.size - sizeof(layout::RuntimeContext);
    tables = {context + layout::kCellTablesBegin, context + layout::kCellTablesEnd};
  }
  if (options_.count_children || tables.empty()) return std::nullopt;
  return arch::ScriptedCall{SYS_madvise,
                            {mapping.address + tables.begin, tables.size(), MADV_WIPEONFORK}};
}

// The calls of the script, and which mapping each is to make.
struct Arming::Script {
  std::vector<arch::ScriptedCall> calls;
  std::vector<std::optional<size_t>> mapping;
  void add(const arch::ScriptedCall& call, std::optional<size_t> index = std::nullopt) {
    calls.push_back(call);
    mapping.push_back(index);
  }
};

Arming::Script Arming::script(const target::Handover& handover, size_t scratch) const {
  Script script;
  for (const auto& call : handover.receiving()) script.add(call);
  const auto& mappings = session_.journal_.mappings;
  for (size_t i = 0; i < mappings.size(); ++i) {
    if (i == scratch || mappings[i].address == 0) continue;
    script.add(mapping_call(mappings[i], session_.journal_.header.cells_offset), i);
    if (const auto advice = forget_at_fork(mappings[i])) script.add(*advice);
  }
  script.add(handover.waiting());
  return script;
}

Result<void, ledger::SessionError> Arming::run_script(target::HijackedThread& thread,
                                                      Script& script,
                                                      const target::Handover& handover,
                                                      Address scratch) {
  const Address told = scratch + kScript;
  const Address table = told + sizeof(uint64_t);
  const auto at = [&](size_t call) { return table + call * sizeof(arch::ScriptedCall); };
  const size_t last = script.calls.size() - 1;
  for (size_t i = 0; i < last; ++i) script.calls[i].next = at(i + 1);
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(script.calls.data()),
                                 script.calls.size() * sizeof(arch::ScriptedCall));
  // Whatever it does when it is let go, the journal knows of all of it.
  for (const auto& index : script.mapping)
    if (index) journal().mappings[*index].progress = MappingEntry::Progress::begun;
  if (auto written = file().write_tables(journal()); !written)
    return fail(ledger::SessionError(written.error()));
  if (auto written = target().memory().write(table, bytes); !written)
    return fail(
        ledger::SessionError(attach_error(AttachCause::memory_refused, written.error().number)));
  const auto run = thread.run({at(0), at(last), told, handover.received_at()});
  if (!run && !thread.resumed_itself())
    return fail(ledger::SessionError(attach_error(AttachCause::exited, run.error().number)));
  if (!target().memory().read(table, bytes))
    return fail(ledger::SessionError(attach_error(AttachCause::exited)));
  return {};
}

// Each call that was made, or the first that failed. What comes after that was not made.
Result<void, ledger::SessionError> Arming::note_results(target::HijackedThread& thread,
                                                        const Script& script, bool has_descriptor) {
  Result<void, ledger::SessionError> noted;
  for (size_t i = 0; i + 1 < script.calls.size(); ++i) {
    const arch::ScriptedCall& call = script.calls[i];
    const auto index = script.mapping[i];
    if (!noted) {
      if (!index) continue;
      journal().mappings[*index].progress = MappingEntry::Progress::none;
      static_cast<void>(file().write_mapping(journal(), *index));
      continue;
    }
    if (index) {
      noted = note_mapped(thread, *index, call.result);
    } else if (is_error(call.result)) {
      const auto cause =
          call.number == SYS_madvise ? AttachCause::call_refused : AttachCause::handover_failed;
      noted = fail(
          ledger::SessionError(attach_error(cause, static_cast<int>(-call.result), name_of(call))));
    } else if (call.number == SYS_recvmsg && !has_descriptor) {
      // No room for another descriptor, usually.
      noted = fail(
          ledger::SessionError(attach_error(AttachCause::handover_failed, EMFILE, name_of(call))));
    }
  }
  return noted;
}

Result<void, ledger::SessionError> Arming::map_all(target::HijackedThread& thread) {
  const size_t scratch = mapping_of(MappingEntry::Kind::scratch);
  if (auto r = map_scratch(thread, scratch); !r) return r;
  const Address page = journal().mappings[scratch].address;
  {
    // Another open file than the one that we hold locked: the target's mapping keeps its open file,
    // and the lock with it, beyond our death.
    auto fd = open_file(file().path(), O_RDWR | O_NOFOLLOW);
    if (!fd)
      return fail(ledger::SessionError(
          attach_error(AttachCause::handover_failed, fd.error().number, "open")));
    target::Handover handover(
        thread, target(), page, [&](const target::Handover::Descriptors& open) {
          std::copy(open.begin(), open.end(), journal().header.handover_descriptors);
          static_cast<void>(file().write_header(journal().header));
        });
    if (auto sent = handover.send(fd->get()); !sent)
      return fail(ledger::SessionError(sent.error()));
    Script calls = script(handover, scratch);
    if (auto run = run_script(thread, calls, handover, page); !run) return run;
    const auto descriptor = handover.received();
    if (auto noted = note_results(thread, calls, descriptor.ok()); !noted) return noted;
    if (thread.resumed_itself())
      return fail(
          ledger::SessionError(attach_error(AttachCause::handover_failed, ETIMEDOUT, "recvfrom")));
  }
  MappingEntry& entry = journal().mappings[scratch];
  static_cast<void>(thread.call(SYS_munmap, entry.address, entry.size));
  entry = {0, 0, MappingEntry::Kind::scratch, {}};
  if (auto r = file().write_tables(journal()); !r) return fail(ledger::SessionError(r.error()));
  return {};
}

// What was mapped of an attempt goes again.
void Arming::unmap_all(target::HijackedThread& thread) {
  for (size_t i = 0; i < journal().mappings.size(); ++i) {
    MappingEntry& entry = journal().mappings[i];
    if (entry.progress != MappingEntry::Progress::mapped) continue;
    static_cast<void>(thread.call(SYS_munmap, entry.address, entry.size));
    entry.progress = MappingEntry::Progress::none;
    static_cast<void>(file().write_mapping(journal(), i));
  }
}

// The other threads go on, and may map something where ours was to be: then the kernel refuses ours
// (MAP_FIXED_NOREPLACE), and other addresses are chosen.
Result<void, ledger::SessionError> Arming::map_memory() {
  const Task::Scope to_the_end(nullptr);
  const bool wants_rseq =
      possible_cpus() <= layout::kMaxCpus && !kernel_checks_rseq() && set_.marks_children;
  constexpr int kAttempts = 3;
  const auto map_somewhere = [&](target::HijackedThread& thread) {
    if (wants_rseq) rseq_ = rseq_of(thread.tid(), thread.registers());
    for (int attempt = 1;; ++attempt) {
      if (auto chosen = choose_addresses_again(); !chosen) return chosen;
      is_address_taken_ = false;
      auto mapped = map_all(thread);
      if (!is_address_taken_ || attempt == kAttempts) return mapped;
      unmap_all(thread);
    }
  };
  auto mapped = with_hijacked_thread(target(), *session_.image_, file(), journal(), map_somewhere);
  if (!mapped) return mapped;
  note_rseq();
  // Announced, as the file is mapped now, so this is the time to look (patch/text_owner.h).
  const auto maps = image::read_maps(target().pid());
  if (!maps) return fail(ledger::SessionError(attach_error(AttachCause::exited)));
  if (patch::library_changes_text(target().memory(), *maps))
    return fail(ledger::SessionError(attach_error(AttachCause::probes_itself)));
  return {};
}

// What follows from how threads have their rseq areas.
void Arming::note_rseq() {
  session_.report_.locked = !runtime_spec().has_cells_per_cpu();
  // Counting stubs have no other use for it.
  if (session_.report_.locked && !has_histograms()) rseq_.reset();
}

}  // namespace pinprick::engine
