#include "engine/memory/memory_mapping.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include "engine/failures.h"
#include "engine/memory/address_choice.h"
#include "engine/owners/ownership.h"
#include "image/maps.h"

namespace pinprick::engine {

using layout::MappingEntry;
using target::AttachCause;

namespace {

// Do paths name the same files for the process as for us?
bool sees_our_files(pid_t pid) {
  const std::string folder = fmt::format("/proc/{}", pid);
  const auto is_same = [&](const char* name) {
    struct stat ours = {}, theirs = {};
    return ::stat(("/proc/self" + std::string(name)).c_str(), &ours) == 0 &&
           ::stat((folder + name).c_str(), &theirs) == 0 && ours.st_dev == theirs.st_dev &&
           ours.st_ino == theirs.st_ino;
  };
  return is_same("/ns/mnt") && is_same("/root");
}

}  // namespace

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
  const auto done =
      note_mapped(entry, mapped ? *mapped : static_cast<uint64_t>(-mapped.error().number));
  const auto written = noted(parts_.file.write_mapping(parts_.journal, index));
  return done ? written : done;
}

// What came of the call that was to map it.
Result<void, ledger::SessionError> MemoryMapping::note_mapped(MappingEntry& entry,
                                                              uint64_t result) {
  if (result != entry.address) return note_refused(entry, result);
  entry.progress = MappingEntry::Progress::mapped;
  if (!mark(parts_.target.memory(), entry)) return failed(AttachCause::memory_refused);
  return {};
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
                                                             const Place& place) {
  const size_t last = script.calls.size() - 1;
  chain(script, place.table);
  const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(script.calls.data()),
                                 script.calls.size() * sizeof(arch::ScriptedCall));
  // Whatever it does when it is let go, the journal knows of all of it.
  for (const auto& index : script.mapping)
    if (index) parts_.journal.mappings[*index].progress = MappingEntry::Progress::begun;
  if (auto written = noted(parts_.file.write_mappings(parts_.journal)); !written) return written;
  const target::Memory& memory = parts_.target.memory();
  if (auto written = memory.write(place.table, bytes); !written)
    return failed(AttachCause::memory_refused, written.error().number);
  const auto run = parts_.thread.run(
      {place.table, place.table + last * sizeof(arch::ScriptedCall), place.told, place.descriptor});
  if (!run && !parts_.thread.resumed_itself())
    return failed(AttachCause::exited, run.error().number);
  if (!memory.read(place.table, bytes)) return failed(AttachCause::exited);
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
      done = index ? note_mapped(parts_.journal.mappings[*index], script.calls[i].result)
                   : note_result(script.calls[i], has_descriptor);
    } else if (index) {
      parts_.journal.mappings[*index].progress = MappingEntry::Progress::none;
    }
  }
  const auto written = noted(parts_.file.write_mappings(parts_.journal));
  return done ? written : done;
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
  const auto waiting = handover.waiting();
  MappingScript script =
      memory == Memory::none_yet
          ? mapping_script(parts_.journal, children_, handover.receiving(), {&waiting, 1})
          : replacing_script(parts_.journal, handover.receiving(), {&waiting, 1});
  const Address told = scratch + kScript;
  if (auto run = run_script(script, {told, told + sizeof(uint64_t), handover.received_at()}); !run)
    return run;
  const auto descriptor = handover.received();
  if (auto done = note_results(script, descriptor.ok()); !done) return done;
  if (parts_.thread.resumed_itself())
    return failed(AttachCause::handover_failed, ETIMEDOUT, "recvfrom");
  return {};
}

Result<void, ledger::SessionError> MemoryMapping::unmap_scratch(size_t index) {
  MappingEntry& entry = parts_.journal.mappings[index];
  if (auto done = parts_.thread.call(SYS_munmap, entry.address, entry.size); !done)
    return failed(AttachCause::call_refused, done.error().number, "munmap");
  entry = {0, 0, MappingEntry::Kind::scratch, {}};
  return noted(parts_.file.write_mapping(parts_.journal, index));
}

Result<void, ledger::SessionError> MemoryMapping::map_all() {
  return map(Memory::none_yet);
}

Result<void, ledger::SessionError> MemoryMapping::replace_file() {
  return map(Memory::of_another_file);
}

bool MemoryMapping::can_open_file() const {
  return arch::has_just_executed(parts_.thread.registers()) && !parts_.thread.has_filters() &&
         parts_.file.path().starts_with('/') && sees_our_files(parts_.target.pid());
}

Result<bool, ledger::SessionError> MemoryMapping::map_by_opening() {
  const std::string& path = parts_.file.path();
  const arch::ScriptedCall closing = {SYS_close | arch::kOfDescriptor, {}};
  constexpr uint64_t kWaitMs = 1000;
  MappingScript script = mapping_script(parts_.journal, children_, {{{SYS_openat}}},
                                        {{closing, {SYS_poll, {0, 0, kWaitMs}}}});
  // From its start: the address of the next call, the calls, the path.
  const uint64_t table_size = script.calls.size() * sizeof(arch::ScriptedCall);
  std::vector<uint8_t> original(sizeof(uint64_t) + table_size + path.size() + 1);
  const Address stack = arch::stack_pointer(parts_.thread.registers());
  const Address told = align_down(stack - original.size(), sizeof(arch::ScriptedCall));
  const Address table = told + sizeof(uint64_t);
  const auto mapping = image::MappingLookup(parts_.target.pid()).range_at(stack);
  const target::Memory& memory = parts_.target.memory();
  if (!mapping || !mapping->contains(told) || !memory.read(told, original)) return false;
  const Address path_at = table + table_size;
  script.calls[0].arguments[0] = static_cast<uint64_t>(int64_t{AT_FDCWD});
  script.calls[0].arguments[1] = path_at;
  script.calls[0].arguments[2] = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
  Result<bool, ledger::SessionError> mapped = false;
  const std::span bytes(reinterpret_cast<const uint8_t*>(path.c_str()), path.size() + 1);
  if (memory.write_value(told, uint64_t{0}) && memory.write(path_at, bytes))
    mapped = open_and_map(script, told, table);
  if (!parts_.thread.resumed_itself()) static_cast<void>(memory.write(told, original));
  return mapped;
}

Result<bool, ledger::SessionError> MemoryMapping::open_and_map(MappingScript& script, Address told,
                                                               Address table) {
  const Address descriptor = table + offsetof(arch::ScriptedCall, result);
  if (auto run = run_script(script, {told, table, descriptor}); !run) return fail(run.error());
  if (is_error(script.calls[0].result) && !parts_.thread.resumed_itself()) {
    for (const auto& index : script.mapping)
      if (index) parts_.journal.mappings[*index].progress = MappingEntry::Progress::none;
    if (auto written = noted(parts_.file.write_mappings(parts_.journal)); !written)
      return fail(written.error());
    return false;
  }
  auto done = note_results(script, true);
  if (parts_.thread.resumed_itself())
    return failed(AttachCause::handover_failed, ETIMEDOUT, "poll");
  if (done) return true;
  // The script has left out what came after the call that failed.
  static_cast<void>(parts_.thread.call(SYS_close, script.calls[0].result));
  return fail(done.error());
}

Result<void, ledger::SessionError> MemoryMapping::map(Memory memory) {
  is_address_taken_ = false;
  const size_t scratch = mapping_of(parts_.journal, MappingEntry::Kind::scratch);
  if (memory == Memory::none_yet && can_open_file()) {
    // There is none, so nothing may be taken for it.
    const MappingEntry chosen =
        std::exchange(parts_.journal.mappings[scratch], {0, 0, MappingEntry::Kind::scratch, {}});
    const auto mapped = map_by_opening();
    if (mapped && *mapped) return {};
    parts_.journal.mappings[scratch] = chosen;
    if (!mapped) return fail(mapped.error());
  }
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
