#include "image/loader.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/process_folder.h"
#include "image/elf/elf_file.h"
#include "image/process.h"

namespace pinprick::image {
namespace {

template <class T>
std::span<uint8_t> storage_of(T& value) {
  return {reinterpret_cast<uint8_t*>(&value), sizeof value};
}

// The file that the kernel has executed: the program, or the loader that is to run it.
struct Executed {
  Address base = 0;  // where its file starts; 0 if its headers lie elsewhere
  Range dynamic;     // empty: none
  bool has_interpreter = false;
};

std::optional<Executed> read_executed(pid_t pid, const MemoryReader& reader) {
  constexpr uint64_t kMostHeaders = 1000;
  const auto auxiliary = AuxiliaryVector::read(pid);
  const Address at = auxiliary.value(AT_PHDR);
  std::vector<Elf64_Phdr> headers(std::min(auxiliary.value(AT_PHNUM), kMostHeaders));
  if (headers.empty() || !reader(at, {reinterpret_cast<uint8_t*>(headers.data()),
                                      headers.size() * sizeof(Elf64_Phdr)}))
    return std::nullopt;
  Executed executed;
  Elf64_Ehdr file = {};
  const Address begin = align_down(at, kPageSize);
  if (reader(begin, storage_of(file)) && std::equal(file.e_ident, file.e_ident + SELFMAG, ELFMAG) &&
      begin + file.e_phoff == at)
    executed.base = begin;
  const auto has_headers = [&](const Elf64_Phdr& header) {
    return executed.base != 0 && header.p_type == PT_LOAD && header.p_offset == 0;
  };
  uint64_t bias = 0;
  for (const Elf64_Phdr& header : headers) {
    if (has_headers(header)) bias = executed.base - header.p_vaddr;
    if (header.p_type == PT_PHDR) bias = at - header.p_vaddr;
  }
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type == PT_INTERP) executed.has_interpreter = true;
    if (header.p_type == PT_DYNAMIC)
      executed.dynamic = {header.p_vaddr + bias, header.p_vaddr + bias + header.p_memsz};
  }
  return executed;
}

// Returns what the dynamic section of a program points to as `struct r_debug`: 0 before the loader
// has filled it in, nullopt if it has no such entry, as that of a library.
std::optional<Address> debug_entry(Range dynamic, const MemoryReader& reader) {
  constexpr uint64_t kMostEntries = 1000;
  std::vector<Elf64_Dyn> entries(std::min(dynamic.size() / sizeof(Elf64_Dyn), kMostEntries));
  if (entries.empty() || !reader(dynamic.begin, {reinterpret_cast<uint8_t*>(entries.data()),
                                                 entries.size() * sizeof(Elf64_Dyn)}))
    return std::nullopt;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_DEBUG) return entry.d_un.d_ptr;
  }
  return std::nullopt;
}

// Returns where an executed loader has its `struct r_debug`: 0 before it has relocated itself,
// nullopt if it is no loader. A static program has neither the symbol nor a library's dynamic
// section.
std::optional<Address> debug_of_loader(pid_t pid, const Executed& executed,
                                       const MemoryReader& reader) {
  if (executed.has_interpreter || executed.dynamic.empty() || executed.base == 0 ||
      debug_entry(executed.dynamic, reader))
    return std::nullopt;
  const auto file = ElfFile::open(process_folder(pid) + "/exe");
  if (!file) return std::nullopt;
  for (const Symbol& symbol : file->dynamic_symbols()) {
    const Address at = executed.base + symbol.address;
    if (symbol.name == "_r_debug") return at;  // glibc's
    Address debug = 0;
    if (symbol.name == "_dl_debug_addr" && reader(at, storage_of(debug))) return debug;  // musl's
  }
  return std::nullopt;
}

std::optional<Address> debug_address(pid_t pid, const MemoryReader& reader) {
  const auto executed = read_executed(pid, reader);
  if (!executed) return std::nullopt;
  return executed->has_interpreter ? debug_entry(executed->dynamic, reader)
                                   : debug_of_loader(pid, *executed, reader);
}

}  // namespace

Address loader_base(pid_t pid, const MemoryReader& reader) {
  if (const Address base = AuxiliaryVector::read(pid).value(AT_BASE); base != 0) return base;
  const auto executed = read_executed(pid, reader);
  return executed && debug_of_loader(pid, *executed, reader) ? executed->base : 0;
}

Address address_in_program(pid_t pid, const MemoryReader& reader) {
  const Address headers = AuxiliaryVector::read(pid).value(AT_PHDR);
  const auto executed = read_executed(pid, reader);
  if (!executed) return headers;
  const Address at = debug_of_loader(pid, *executed, reader).value_or(0);
  r_debug debug;
  link_map program;
  const bool is_there = at != 0 && reader(at, storage_of(debug)) && debug.r_map != nullptr &&
                        reader(reinterpret_cast<Address>(debug.r_map), storage_of(program));
  return is_there ? reinterpret_cast<Address>(program.l_ld) : headers;
}

bool loader_is_at_work(pid_t pid, const MemoryReader& reader) {
  const auto at = debug_address(pid, reader);
  if (!at) return false;
  if (*at == 0) return true;  // the loader fills it in before it maps the first object
  // Each namespace (dlmopen) has its own state, from glibc 2.35 on.
  struct Namespace {
    r_debug debug;
    Address next;
  } one;
  constexpr int kMostNamespaces = 64, kHasNext = 2;
  Address next = *at;
  for (int i = 0; i < kMostNamespaces && next != 0; ++i) {
    if (!reader(next, storage_of(one.debug))) return false;
    if (one.debug.r_state != r_debug::RT_CONSISTENT) return true;
    if (i == 0 && one.debug.r_map == nullptr) return true;
    if (one.debug.r_version < kHasNext || !reader(next, storage_of(one))) return false;
    next = one.next;
  }
  return false;
}

std::optional<Address> loader_notifies_at(pid_t pid, const MemoryReader& reader) {
  const auto at = debug_address(pid, reader);
  r_debug debug;
  if (!at || *at == 0 || !reader(*at, storage_of(debug)) || debug.r_brk == 0) return std::nullopt;
  return debug.r_brk;
}

}  // namespace pinprick::image
