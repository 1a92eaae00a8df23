#include "engine/memory/mapping_script.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>

#include "arch/stub.h"
#include "base/address.h"
#include "engine/memory/area_sizes.h"
#include "engine/memory/region_admission.h"
#include "engine/owners/ownership.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;

int protection_of(MappingEntry::Kind kind) {
  if (kind == MappingEntry::Kind::tables) return PROT_READ;
  return layout::is_code(kind) ? PROT_READ | PROT_EXEC : PROT_READ | PROT_WRITE;
}

// A child knows of no regions: it has copies of them, but not the threads that the table names.
arch::ScriptedCall forget_regions_at_fork(const MappingEntry& mapping) {
  return {SYS_madvise, {regions_in(mapping), sizeof(layout::Regions), MADV_WIPEONFORK}};
}

// A child that is not to count does not know where the areas are.
std::optional<arch::ScriptedCall> forget_at_fork(const MappingEntry& mapping) {
  Range tables;
  if (mapping.kind == MappingEntry::Kind::stubs) tables = arch::tables_in_arena(usable_cpus());
  if (mapping.kind == MappingEntry::Kind::runtime_data) {
    const uint64_t context = mapping.size - sizeof(layout::RuntimeContext);
    tables = {context + layout::kAreaTablesBegin, context + layout::kAreaTablesEnd};
  }
  if (tables.empty()) return std::nullopt;
  return arch::ScriptedCall{SYS_madvise,
                            {mapping.address + tables.begin, tables.size(), MADV_WIPEONFORK}};
}

}  // namespace

arch::ScriptedCall mapping_call(const MappingEntry& entry, uint64_t areas_offset) {
  const bool is_file =
      entry.kind == MappingEntry::Kind::tables || entry.kind == MappingEntry::Kind::areas;
  const int flags = MAP_FIXED_NOREPLACE | (is_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS);
  return {SYS_mmap,
          {entry.address, entry.size, static_cast<uint64_t>(protection_of(entry.kind)),
           static_cast<uint64_t>(flags)},
          entry.kind == MappingEntry::Kind::areas ? areas_offset : 0};
}

MappingScript mapping_script(const layout::Session& journal, Children children,
                             std::span<const arch::ScriptedCall> opening,
                             std::span<const arch::ScriptedCall> ending) {
  MappingScript script;
  for (const auto& call : opening) script.add(call);
  for (size_t i = 0; i < journal.mappings.size(); ++i) {
    const MappingEntry& entry = journal.mappings[i];
    if (entry.kind == MappingEntry::Kind::scratch || entry.address == 0) continue;
    script.add(mapping_call(entry, journal.header.areas_offset), i);
    if (entry.kind == MappingEntry::Kind::runtime_data && journal.header.has_unread != 0)
      script.add(forget_regions_at_fork(entry));
    if (children == Children::count) continue;
    if (const auto advice = forget_at_fork(entry)) script.add(*advice);
  }
  for (const auto& call : ending) script.add(call);
  return script;
}

MappingScript replacing_script(const layout::Session& journal,
                               std::span<const arch::ScriptedCall> opening,
                               std::span<const arch::ScriptedCall> ending) {
  MappingScript script;
  for (const auto& call : opening) script.add(call);
  for (size_t i = 0; i < journal.mappings.size(); ++i) {
    const MappingEntry& entry = journal.mappings[i];
    if (entry.kind != MappingEntry::Kind::tables && entry.kind != MappingEntry::Kind::areas)
      continue;
    arch::ScriptedCall call = mapping_call(entry, journal.header.areas_offset);
    call.arguments[3] = MAP_FIXED | MAP_SHARED;
    script.add(call, i);
  }
  for (const auto& call : ending) script.add(call);
  return script;
}

std::vector<Range> ranges_to_unmap(std::vector<MappingEntry> mapped, const KeptMemory& kept) {
  const auto is_file = [](const MappingEntry& entry) {
    return entry.kind == MappingEntry::Kind::tables || entry.kind == MappingEntry::Kind::areas;
  };
  std::sort(mapped.begin(), mapped.end(),
            [](const MappingEntry& a, const MappingEntry& b) { return a.address < b.address; });
  std::vector<Range> others, with_file;
  Range last;
  bool has_file = false;
  const auto finish = [&] {
    if (!last.empty()) (has_file ? with_file : others).push_back(last);
    has_file = false;
  };
  for (const MappingEntry& entry : mapped) {
    for (Range part : not_kept({entry.address, entry.address + entry.size}, kept)) {
      if (part.begin != last.end) {
        finish();
        last = part;
      }
      last.end = part.end;
      has_file = has_file || is_file(entry);
    }
  }
  finish();
  others.insert(others.end(), with_file.begin(), with_file.end());
  return others;
}

void chain(MappingScript& script, Address table) {
  for (size_t i = 0; i + 1 < script.calls.size(); ++i)
    script.calls[i].next = table + (i + 1) * sizeof(arch::ScriptedCall);
}

uint64_t scratch_size(size_t mappings) {
  constexpr uint64_t kBesides = 5, kMark = 8;
  return align_up(
      kScript + sizeof(uint64_t) + (2 * mappings + kBesides) * sizeof(arch::ScriptedCall) + kMark,
      kPageSize);
}

const char* name_of(const arch::ScriptedCall& call) {
  switch (call.number & ~arch::kOfDescriptor) {
    case SYS_openat:
      return "open";
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

}  // namespace pinprick::engine
