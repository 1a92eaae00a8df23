#include "library/loaded_object.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "image/maps.h"
#include "target/memory.h"

namespace pinprick::library {

LoadedObject::LoadedObject(const dl_phdr_info& info) : info_(info) {
  for (const ElfW(Phdr) & segment : segments()) {
    const Address at = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD)
      extent_ = {std::min(extent_.begin, at), std::max(extent_.end, at + segment.p_memsz)};
    if (segment.p_type != PT_DYNAMIC) continue;
    for (const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(at); entry->d_tag != DT_NULL;
         ++entry) {
      if (entry->d_tag == DT_GNU_HASH) hash_ = entry->d_un.d_ptr;
      if (entry->d_tag > 0 && entry->d_tag < DT_NUM)
        dynamic_[static_cast<size_t>(entry->d_tag)] = entry->d_un.d_val;
    }
  }
}

bool LoadedObject::is_protected_when_loaded(Address address) const {
  const auto segments = this->segments();
  return std::any_of(segments.begin(), segments.end(), [&](const ElfW(Phdr) & segment) {
    // Whole pages.
    const Address begin = info_.dlpi_addr + segment.p_vaddr;
    return segment.p_type == PT_GNU_RELRO && address >= begin &&
           address < align_down(begin + segment.p_memsz, kPageSize);
  });
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
  if (!has_names() || hash_ == 0) return 0;
  const auto* const table = reinterpret_cast<const uint32_t*>(hash_);
  const uint32_t chains = table[0], first = table[1], filter_words = table[2];
  const uint32_t* const starts = table + 4 + size_t{2} * filter_words;
  const uint32_t* const hashes = starts + chains;
  if (chains == 0) return 0;
  uint32_t hash = 5381;
  for (char c : name) hash = hash * 33 + static_cast<uint8_t>(c);
  uint32_t i = starts[hash % chains];
  if (i < first) return 0;
  for (;; ++i) {
    const uint32_t other = hashes[i - first];
    if ((other | 1) == (hash | 1) && name_of(symbol(i)) == name)
      return info_.dlpi_addr + symbol(i).st_value;
    if ((other & 1) != 0) return 0;
  }
}

void lead(const LoadedObject& object, Address* import, Address to) {
  if (import == nullptr || __atomic_load_n(import, __ATOMIC_RELAXED) == to) return;
  const auto at = reinterpret_cast<Address>(import);
  const auto maps = image::read_maps(::getpid());
  if (!maps) return;
  const auto mapping = std::find_if(maps->begin(), maps->end(), [&](const image::Mapping& one) {
    return one.range.contains(at);
  });
  if (mapping == maps->end() || mapping->executable) return;
  // Another thread is still loading the object, and protects the page when that is done. No code of
  // the object runs yet, so it does not matter that this is no atomic store.
  if (mapping->writable && object.is_protected_when_loaded(at)) {
    if (const auto memory = target::Memory::open(::getpid()))
      static_cast<void>(memory->write_value(at, to));
    return;
  }
  void* const page = reinterpret_cast<void*>(align_down(at, kPageSize));
  if (!mapping->writable && ::mprotect(page, kPageSize, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(import, to, __ATOMIC_RELEASE);
  if (!mapping->writable) ::mprotect(page, kPageSize, PROT_READ);
}

}  // namespace pinprick::library
