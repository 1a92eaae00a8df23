#include "engine/owners/ownership.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "arch/stub.h"
#include "base/process_folder.h"
#include "layout/runtime_data.h"
#include "ledger/discovery.h"
#include "placement/island_space.h"
#include "target/handover.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;

constexpr uint64_t kScratchMagic = 0x3048'4354'4152'4353;  // "SCRATCH0"
constexpr uint64_t kIslandMagic = 0x3047'4e49'5250'5350;   // "PSPRING0"
static_assert(sizeof kIslandMagic == placement::kIslandMarkSize);

struct Mark {
  Address address = 0;
  uint64_t value = 0;
};

// Values that stay when the real contents are written. The runtime's code has that of the data,
// which ends where it begins.
std::optional<Mark> mark_of(const MappingEntry& entry) {
  switch (entry.kind) {
    case MappingEntry::Kind::scratch:
      return Mark{entry.address + entry.size - sizeof kScratchMagic, kScratchMagic};
    case MappingEntry::Kind::stubs:
      return Mark{entry.address, arch::kArenaMagic};
    case MappingEntry::Kind::islands:
      return Mark{entry.address + entry.size - sizeof kIslandMagic, kIslandMagic};
    case MappingEntry::Kind::runtime_data:
      if (entry.size < sizeof(layout::RuntimeContext)) return std::nullopt;
      return Mark{entry.address + entry.size - sizeof(layout::RuntimeContext) +
                      offsetof(layout::RuntimeContext, magic),
                  layout::kContextMagic};
    case MappingEntry::Kind::runtime_code:
      return Mark{
          entry.address - sizeof(layout::RuntimeContext) + offsetof(layout::RuntimeContext, magic),
          layout::kContextMagic};
    case MappingEntry::Kind::tables:
    case MappingEntry::Kind::areas:
      break;
  }
  return std::nullopt;
}

bool is_begun(const MappingEntry& entry) {
  return entry.kind != MappingEntry::Kind::scratch &&
         entry.progress == MappingEntry::Progress::begun;
}

bool holds_zeros(const target::Memory& memory, Range range) {
  std::vector<uint8_t> bytes(range.size());
  return memory.read(range.begin, bytes) &&
         std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

std::string descriptor_path(pid_t pid, int descriptor) {
  return fmt::format("{}/fd/{}", process_folder(pid), descriptor);
}

bool is_this_file(pid_t pid, int descriptor, const ledger::SessionFile& file) {
  struct stat ours = {}, theirs = {};
  return ::fstat(file.descriptor(), &ours) == 0 &&
         ::stat(descriptor_path(pid, descriptor).c_str(), &theirs) == 0 &&
         ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

// 0 if they cannot be read.
unsigned long flags_of(pid_t pid, int descriptor) {
  const auto text = read_file(fmt::format("{}/fdinfo/{}", process_folder(pid), descriptor));
  const size_t at = text ? text->find("flags:") : std::string::npos;
  return at != std::string::npos ? std::strtoul(text->c_str() + at + 6, nullptr, 8) : 0;
}

bool closes_on_exec(pid_t pid, int descriptor) {
  return (flags_of(pid, descriptor) & O_CLOEXEC) != 0;
}

// As the script opens it; one who reads the files of sessions does not write them.
bool is_opened_as_by_script(pid_t pid, int descriptor) {
  return (flags_of(pid, descriptor) & (O_ACCMODE | O_CLOEXEC)) == (O_RDWR | O_CLOEXEC);
}

// Is it an end of a socket pair that this very process made, of the type that the handover uses?
bool is_pair_end(const target::RemoteTarget& target, int descriptor) {
  const auto end = target.copy_descriptor(descriptor);
  if (!end) return false;
  int domain = 0, type = 0;
  ucred maker = {};
  socklen_t size = sizeof domain;
  if (::getsockopt(end->get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX)
    return false;
  size = sizeof type;
  if (::getsockopt(end->get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 ||
      type != target::Handover::kSocketType)
    return false;
  size = sizeof maker;
  return ::getsockopt(end->get(), SOL_SOCKET, SO_PEERCRED, &maker, &size) == 0 &&
         maker.pid == target.pid() && closes_on_exec(target.pid(), descriptor);
}

}  // namespace

bool mark(const target::Memory& memory, const MappingEntry& entry) {
  const auto mark = mark_of(entry);
  return !mark || memory.write_value(mark->address, mark->value).ok();
}

bool is_ours(const target::Memory& memory, const MappingEntry& entry,
             const std::vector<image::Mapping>& maps, const ledger::SessionFile& file) {
  using Kind = MappingEntry::Kind;
  using Progress = MappingEntry::Progress;
  const Range range = {entry.address, entry.address + entry.size};
  if (range.empty() || entry.progress == Progress::none) return false;
  struct stat ours = {};
  const bool is_file = entry.kind == Kind::tables || entry.kind == Kind::areas;
  if (is_file && ::fstat(file.descriptor(), &ours) != 0) return false;
  const bool is_code = layout::is_code(entry.kind);
  const auto fits = [&](const image::Mapping& mapping) {
    if (is_file) return ledger::is_mapping_of_session(mapping, ours.st_ino);
    return mapping.inode == 0 && mapping.executable == is_code;
  };
  // Adjacent anonymous mappings with the same protection appear as one, and pages that are wiped in
  // children (MADV_WIPEONFORK) as one of their own.
  auto mapping = std::find_if(maps.begin(), maps.end(), [&](const image::Mapping& candidate) {
    return candidate.range.overlaps(range);
  });
  if (mapping == maps.end() || mapping->range.begin > range.begin) return false;
  for (Address covered = range.begin; covered < range.end; ++mapping) {
    if (mapping == maps.end() || mapping->range.begin > covered || !fits(*mapping)) return false;
    covered = mapping->range.end;
  }
  if (is_file) return true;
  const auto mark = mark_of(entry);
  if (!mark) return true;
  uint64_t value = 0;
  if (memory.read_value(mark->address, value) && value == mark->value) return true;
  return entry.progress == Progress::begun && holds_zeros(memory, range);
}

void note_results_of_script(const target::Memory& memory, layout::Session& journal,
                            const std::vector<image::Mapping>& maps,
                            const ledger::SessionFile& file) {
  if (std::none_of(journal.mappings.begin(), journal.mappings.end(), is_begun)) return;
  const auto scratch =
      std::find_if(journal.mappings.begin(), journal.mappings.end(),
                   [](const auto& entry) { return entry.kind == MappingEntry::Kind::scratch; });
  if (scratch == journal.mappings.end() || !is_ours(memory, *scratch, maps, file)) return;
  Address next = 0;
  const Address table = scratch->address + kScript + sizeof next;
  constexpr uint64_t kMost = 64 << 20;  // whatever the file and the target claim
  const uint64_t size = std::min(scratch->size, kMost) - kScript - sizeof next;
  std::vector<arch::ScriptedCall> calls(size / sizeof(arch::ScriptedCall));
  if (!memory.read_value(scratch->address + kScript, next) ||
      !memory.read(table, {reinterpret_cast<uint8_t*>(calls.data()),
                           calls.size() * sizeof(arch::ScriptedCall)}))
    return;
  for (MappingEntry& entry : journal.mappings) {
    if (!is_begun(entry)) continue;
    const auto call = std::find_if(calls.begin(), calls.end(), [&](const auto& one) {
      return one.number == SYS_mmap && one.arguments[0] == entry.address;
    });
    // The result of the next call may not be written yet.
    const bool is_at_hand =
        call != calls.end() &&
        next == table + static_cast<size_t>(call - calls.begin()) * sizeof(arch::ScriptedCall);
    if (!is_at_hand && (call == calls.end() || call->result != entry.address))
      entry.progress = MappingEntry::Progress::none;
  }
}

std::vector<int> our_descriptors(const target::RemoteTarget& target, const layout::Session& journal,
                                 const std::vector<image::Mapping>& maps,
                                 const ledger::SessionFile& file) {
  // Those in the journal, and those that the target was given and the journal does not have yet.
  std::vector<int> candidates(std::begin(journal.header.handover_descriptors),
                              std::end(journal.header.handover_descriptors));
  for (const MappingEntry& entry : journal.mappings) {
    if (entry.kind != MappingEntry::Kind::scratch || !is_ours(target.memory(), entry, maps, file))
      continue;
    const auto told = target::Handover::told(target.memory(), entry.address);
    candidates.insert(candidates.end(), told.begin(), told.end());
  }
  // A process that was to open the file by itself has no place that tells its descriptor.
  if (std::any_of(journal.mappings.begin(), journal.mappings.end(), is_begun))
    for (const int descriptor : descriptor_numbers(target.pid()))
      if (is_this_file(target.pid(), descriptor, file) &&
          is_opened_as_by_script(target.pid(), descriptor))
        candidates.push_back(descriptor);
  std::sort(candidates.begin(), candidates.end());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  std::erase_if(candidates, [&](int descriptor) {
    return descriptor < 0 ||
           (!is_this_file(target.pid(), descriptor, file) && !is_pair_end(target, descriptor));
  });
  return candidates;
}

bool has_any_of_file(const std::vector<image::Mapping>& maps, const layout::Session& journal,
                     const ledger::SessionFile& file) {
  struct stat ours = {};
  if (::fstat(file.descriptor(), &ours) != 0) return false;
  return std::any_of(
      journal.mappings.begin(), journal.mappings.end(), [&](const MappingEntry& entry) {
        const bool is_file =
            entry.kind == MappingEntry::Kind::tables || entry.kind == MappingEntry::Kind::areas;
        return is_file && std::any_of(maps.begin(), maps.end(), [&](const image::Mapping& mapping) {
                 return mapping.range.contains(entry.address) &&
                        ledger::is_mapping_of_session(mapping, ours.st_ino);
               });
      });
}

bool is_in_target(const target::Memory& memory, const layout::Session& journal,
                  const std::vector<image::Mapping>& maps, const ledger::SessionFile& file) {
  const auto tables = std::find_if(
      journal.mappings.begin(), journal.mappings.end(),
      [](const MappingEntry& entry) { return entry.kind == MappingEntry::Kind::tables; });
  return tables != journal.mappings.end() && is_ours(memory, *tables, maps, file);
}

}  // namespace pinprick::engine
