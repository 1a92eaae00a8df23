#include "image/loader.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "image/process.h"

namespace pinprick::image {
namespace {

template <class T>
std::span<uint8_t> bytes_of(T& value) {
  return {reinterpret_cast<uint8_t*>(&value), sizeof value};
}

struct Program {
  Range dynamic;  // empty: none
  bool has_loader = false;
};

std::optional<Program> read_program(pid_t pid, const MemoryReader& reader) {
  constexpr uint64_t kMostHeaders = 1000;
  const auto auxiliary = AuxiliaryVector::read(pid);
  const Address at = auxiliary.value(AT_PHDR);
  std::vector<Elf64_Phdr> headers(std::min(auxiliary.value(AT_PHNUM), kMostHeaders));
  if (headers.empty() || !reader(at, {reinterpret_cast<uint8_t*>(headers.data()),
                                      headers.size() * sizeof(Elf64_Phdr)}))
    return std::nullopt;
  Program program;
  uint64_t bias = 0;
  for (const Elf64_Phdr& header : headers)
    if (header.p_type == PT_PHDR) bias = at - header.p_vaddr;
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type == PT_INTERP) program.has_loader = true;
    if (header.p_type == PT_DYNAMIC)
      program.dynamic = {header.p_vaddr + bias, header.p_vaddr + bias + header.p_memsz};
  }
  return program;
}

// Returns what the program's dynamic section points to as `struct r_debug`: 0 before the loader has
// filled it in, nullopt without a loader.
std::optional<Address> debug_address(pid_t pid, const MemoryReader& reader) {
  constexpr uint64_t kMostEntries = 1000;
  const auto program = read_program(pid, reader);
  if (!program || !program->has_loader) return std::nullopt;
  const Range dynamic = program->dynamic;
  if (dynamic.empty()) return std::nullopt;
  std::vector<Elf64_Dyn> entries(std::min(dynamic.size() / sizeof(Elf64_Dyn), kMostEntries));
  if (!reader(dynamic.begin,
              {reinterpret_cast<uint8_t*>(entries.data()), entries.size() * sizeof(Elf64_Dyn)}))
    return std::nullopt;
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_DEBUG) return entry.d_un.d_ptr;
  }
  return std::nullopt;
}

}  // namespace

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
    if (!reader(next, bytes_of(one.debug))) return false;
    if (one.debug.r_state != r_debug::RT_CONSISTENT) return true;
    if (i == 0 && one.debug.r_map == nullptr) return true;
    if (one.debug.r_version < kHasNext || !reader(next, bytes_of(one))) return false;
    next = one.next;
  }
  return false;
}

std::optional<Address> loader_notifies_at(pid_t pid, const MemoryReader& reader) {
  const auto at = debug_address(pid, reader);
  r_debug debug;
  if (!at || *at == 0 || !reader(*at, bytes_of(debug)) || debug.r_brk == 0) return std::nullopt;
  return debug.r_brk;
}

}  // namespace pinprick::image
