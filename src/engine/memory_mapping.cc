#include "engine/memory_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include "engine/address_choice.h"
#include "engine/failures.h"
#include "engine/ownership.h"

namespace pinprick::engine {

using layout::MappingEntry;
using target::AttachCause;

Failure<ledger::SessionError> MemoryMapping::failed(AttachCause cause, int error,
                                                    std::string detail) const {
  return attach_failure(parts_.target.pid(), cause, error, std::move(detail));
}

Result<void, ledger::SessionError> MemoryMapping::map_scratch(size_t index) {
  MappingEntry& entry = parts_.journal.mappings[index];
  entry.progress = MappingEntry::Progress::begun;
  if (auto written = noted(parts_.file.write_mapping(parts_.journal, index)); !written)
    return written;
  const auto call = mapping_call(entry, 0);
  auto mapped = parts_.thread.call(call.number, call.arguments[0], call.arguments[1],
                                   call.arguments[2], call.arguments[3], UINT64_MAX, 0);
  return note_mapped(index, mapped ? *mapped : static_cast<uint64_t>(-mapped.error().number));
}

// What came of the call that was to map it.
Result<void, ledger::SessionError> MemoryMapping::note_mapped(size_t index, uint64_t result) {
  MappingEntry& entry = parts_.journal.mappings[index];
  Result<void, ledger::SessionError> done;
  if (result == entry.address) {
    entry.progress = MappingEntry::Progress::mapped;
    if (!mark(parts_.target.memory(), entry)) done = failed(AttachCause::memory_refused);
  } else {
    done = note_refused(entry, result);
  }
  if (auto written = noted(parts_.file.write_mapping(parts_.journal, index)); !written && done)
    return written;
  return done;
}

// What may lie there is the program's. A kernel that does not know MAP_FIXED_NOREPLACE takes the
// address as a hint.
Result<void, ledger::SessionError> MemoryMapping::note_refused(MappingEntry& entry,
                                                               uint64_t result) {
  entry.progress = MappingEntry::Progress::none;
  if (!is_error(result)) static_cast<void>(parts_.thread.call(SYS_munmap, result, entry.size));
  const bool is_taken = !is_error(result) || result == static_cast<uint64_t>(-EEXIST);
  is_address_taken_ = is_address_taken_ || is_taken;
  if (is_taken) return failed(AttachCause::no_address_space);
  return failed(AttachCause::call_refused, static_cast<int>(-result),
                name_of(mapping_call(entry, 0)));
}

Result<void, ledger::SessionError> MemoryMapping::run_script(MappingScript& script,
                                                             const target::Handover& handover,
                                                             Address scratch) {
  const Address told = scratch + kScript;
  const Address table = told + sizeof(uint64_t);
  const size_t last = script.calls.size() - 1;
  chain(script, table);
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(script.calls.data()),
                                 script.calls.size() * sizeof(arch::ScriptedCall));
  // Whatever it does when it is let go, the journal knows of all of it.
  for (const auto& index : script.mapping)
    if (index) parts_.journal.mappings[*index].progress = MappingEntry::Progress::begun;
  if (auto written = noted(parts_.file.write_tables(parts_.journal)); !written) return written;
  const target::Memory& memory = parts_.target.memory();
  if (auto written = memory.write(table, bytes); !written)
    return failed(AttachCause::memory_refused, written.error().number);
  const auto run = parts_.thread.run(
      {table, table + last * sizeof(arch::ScriptedCall), told, handover.received_at()});
  if (!run && !parts_.thread.resumed_itself())
    return failed(AttachCause::exited, run.error().number);
  if (!memory.read(table, bytes)) return failed(AttachCause::exited);
  return {};
}

// Of a call that maps nothing.
Result<void, ledger::SessionError> MemoryMapping::note_result(const arch::ScriptedCall& call,
                                                              bool has_descriptor) const {
  if (is_error(call.result)) {
    const auto cause =
        call.number == SYS_madvise ? AttachCause::call_refused : AttachCause::handover_failed;
    return failed(cause, static_cast<int>(-call.result), name_of(call));
  }
  // No room for another descriptor, usually.
  if (call.number == SYS_recvmsg && !has_descriptor)
    return failed(AttachCause::handover_failed, EMFILE, name_of(call));
  return {};
}

// Each call that was made, or the first that failed. What comes after that was not made.
Result<void, ledger::SessionError> MemoryMapping::note_results(const MappingScript& script,
                                                               bool has_descriptor) {
  Result<void, ledger::SessionError> done;
  for (size_t i = 0; i + 1 < script.calls.size(); ++i) {
    const auto index = script.mapping[i];
    if (done) {
      done = index ? note_mapped(*index, script.calls[i].result)
                   : note_result(script.calls[i], has_descriptor);
    } else if (index) {
      parts_.journal.mappings[*index].progress = MappingEntry::Progress::none;
      static_cast<void>(parts_.file.write_mapping(parts_.journal, *index));
    }
  }
  return done;
}

Result<void, ledger::SessionError> MemoryMapping::map_by_script(Address scratch, Memory memory) {
  // Another open file than the one that we hold locked: the target's mapping keeps its open file,
  // and the lock with it, beyond our death.
  auto fd = open_file(parts_.file.path(), O_RDWR | O_NOFOLLOW);
  if (!fd) return failed(AttachCause::handover_failed, fd.error().number, "open");
  target::Handover handover(
      parts_.thread, parts_.target, scratch, [&](const target::Handover::Descriptors& open) {
        std::copy(open.begin(), open.end(), parts_.journal.header.handover_descriptors);
        static_cast<void>(parts_.file.write_header(parts_.journal.header));
      });
  if (auto sent = handover.send(fd->get()); !sent) return fail(ledger::SessionError(sent.error()));
  MappingScript script =
      memory == Memory::none_yet
          ? mapping_script(parts_.journal, children_, handover.receiving(), handover.waiting())
          : replacing_script(parts_.journal, handover.receiving(), handover.waiting());
  if (auto run = run_script(script, handover, scratch); !run) return run;
  const auto descriptor = handover.received();
  if (auto done = note_results(script, descriptor.ok()); !done) return done;
  if (parts_.thread.resumed_itself())
    return failed(AttachCause::handover_failed, ETIMEDOUT, "recvfrom");
  return {};
}

Result<void, ledger::SessionError> MemoryMapping::unmap_scratch(size_t index) {
  MappingEntry& entry = parts_.journal.mappings[index];
  static_cast<void>(parts_.thread.call(SYS_munmap, entry.address, entry.size));
  entry = {0, 0, MappingEntry::Kind::scratch, {}};
  return noted(parts_.file.write_tables(parts_.journal));
}

Result<void, ledger::SessionError> MemoryMapping::map_all() {
  return map(Memory::none_yet);
}

Result<void, ledger::SessionError> MemoryMapping::replace_file() {
  return map(Memory::of_another_file);
}

Result<void, ledger::SessionError> MemoryMapping::map(Memory memory) {
  is_address_taken_ = false;
  const size_t scratch = mapping_of(parts_.journal, MappingEntry::Kind::scratch);
  if (auto mapped = map_scratch(scratch); !mapped) return mapped;
  if (auto mapped = map_by_script(parts_.journal.mappings[scratch].address, memory); !mapped)
    return mapped;
  return unmap_scratch(scratch);
}

void MemoryMapping::unmap_all() {
  for (size_t i = 0; i < parts_.journal.mappings.size(); ++i) {
    MappingEntry& entry = parts_.journal.mappings[i];
    if (entry.progress != MappingEntry::Progress::mapped) continue;
    static_cast<void>(parts_.thread.call(SYS_munmap, entry.address, entry.size));
    entry.progress = MappingEntry::Progress::none;
    static_cast<void>(parts_.file.write_mapping(parts_.journal, i));
  }
}

}  // namespace pinprick::engine
