#include "library/process/loaded_object.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "image/maps.h"

namespace pinprick::library {

LoadedObject::LoadedObject(const dl_phdr_info& info) : info_(info) {
  for (const ElfW(Phdr) & segment : segments()) {
    const Address at = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD)
      extent_ = {std::min(extent_.begin, at), std::max(extent_.end, at + segment.p_memsz)};
  }
  for (const ElfW(Phdr) & segment : segments())
    if (segment.p_type == PT_DYNAMIC) read_dynamic(segment);
}

void LoadedObject::read_dynamic(const ElfW(Phdr) & segment) {
  std::array<Address, DT_NUM> dynamic = {};
  Address hash = 0;
  for (const auto& entry : table<ElfW(Dyn)>(info_.dlpi_addr + segment.p_vaddr, segment.p_memsz)) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_GNU_HASH) hash = entry.d_un.d_ptr;
    if (entry.d_tag > 0 && entry.d_tag < DT_NUM)
      dynamic[static_cast<size_t>(entry.d_tag)] = entry.d_un.d_val;
  }
  const Address symbols = address_of(dynamic[DT_SYMTAB]);
  symbols_ = table<ElfW(Sym)>(symbols, readable_from(symbols).size());
  names_ = table<char>(address_of(dynamic[DT_STRTAB]), dynamic[DT_STRSZ]);
  lazy_relocations_ = table<ElfW(Rela)>(address_of(dynamic[DT_JMPREL]), dynamic[DT_PLTRELSZ]);
  other_relocations_ = table<ElfW(Rela)>(address_of(dynamic[DT_RELA]), dynamic[DT_RELASZ]);
  hash_ = address_of(hash);
}

Address LoadedObject::address_of(Address in_dynamic) const {
  if (in_dynamic == 0) return 0;
  return extent_.contains(in_dynamic) ? in_dynamic : info_.dlpi_addr + in_dynamic;
}

Range LoadedObject::readable_from(Address from) const {
  for (const ElfW(Phdr) & segment : segments()) {
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_R) == 0) continue;
    const Address begin = info_.dlpi_addr + segment.p_vaddr;
    const Range loaded = {begin, begin + segment.p_memsz};
    if (loaded.contains(from)) return {from, loaded.end};
  }
  return {};
}

std::string_view LoadedObject::name_of(size_t symbol) const {
  if (symbol >= symbols_.size() || symbols_[symbol].st_name >= names_.size()) return {};
  const auto rest = names_.subspan(symbols_[symbol].st_name);
  return {rest.data(), ::strnlen(rest.data(), rest.size())};
}

Address* LoadedObject::import_of(std::string_view name) const {
  Address* found = nullptr;
  for_each_import([&](std::string_view other, Address* import) {
    if (found == nullptr && other == name) found = import;
  });
  return found;
}

// Uses the hash table of section .gnu.hash: the number of chains, the index of the first symbol in
// a chain, the number of words of a filter, and a shift; then the filter; then where each chain
// starts; then each symbol's hash, whose lowest bit ends a chain.
Address LoadedObject::definition_of(std::string_view name) const {
  const auto words = table<uint32_t>(hash_, readable_from(hash_).size());
  if (words.size() < 4) return 0;
  const uint32_t chains = words[0], first = words[1];
  const size_t starts = 4 + size_t{2} * words[2], hashes = starts + chains;
  if (chains == 0 || hashes > words.size()) return 0;
  uint32_t hash = 5381;
  for (char c : name) hash = hash * 33 + static_cast<uint8_t>(c);
  size_t i = words[starts + hash % chains];
  if (i < first) return 0;
  for (; hashes + (i - first) < words.size(); ++i) {
    const uint32_t other = words[hashes + (i - first)];
    if ((other | 1) == (hash | 1) && name_of(i) == name)
      return info_.dlpi_addr + symbols_[i].st_value;
    if ((other & 1) != 0) return 0;
  }
  return 0;
}

void lead(Address* import, Address to) {
  if (import == nullptr || __atomic_load_n(import, __ATOMIC_RELAXED) == to) return;
  const auto at = reinterpret_cast<Address>(import);
  const auto maps = image::read_maps(::getpid());
  if (!maps) return;
  const auto mapping = std::find_if(maps->begin(), maps->end(), [&](const image::Mapping& one) {
    return one.range.contains(at);
  });
  if (mapping == maps->end() || mapping->executable) return;
  void* const page = reinterpret_cast<void*>(align_down(at, kPageSize));
  if (!mapping->writable && ::mprotect(page, kPageSize, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(import, to, __ATOMIC_RELEASE);
  if (!mapping->writable) ::mprotect(page, kPageSize, PROT_READ);
}

}  // namespace pinprick::library
