// An object that the loader has loaded, read from memory: the names that it defines and imports.
//
// To be used within dl_iterate_phdr only, whose lock keeps the object from being unloaded.
// Allocates nothing. Tables that do not lie in a loaded segment that can be read count as empty.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "arch/elf.h"
#include "base/address.h"

namespace pinprick::library {

class LoadedObject {
 public:
  explicit LoadedObject(const dl_phdr_info& info);

  Range extent() const { return extent_; }
  bool is_library(std::string_view name) const {
    const std::string_view path = info_.dlpi_name;
    return path.substr(path.rfind('/') + 1).starts_with(name);
  }
  // Where it keeps the address of another object's function; nullptr if it imports none of that
  // name.
  Address* import_of(std::string_view name) const;
  // Returns 0 if it defines no such name.
  Address definition_of(std::string_view name) const;

  // Calls f(name, where it keeps the address) for all functions that it imports.
  template <class F>
  void for_each_import(F&& f) const {
    for (const auto table : {lazy_relocations_, other_relocations_})
      for (const ElfW(Rela) & one : table) {
        const Address at = info_.dlpi_addr + one.r_offset;
        const std::string_view name = name_of(ELF64_R_SYM(one.r_info));
        if (imports(one) && !name.empty() && extent_.contains(at) &&
            extent_.end - at >= sizeof(Address))
          f(name, reinterpret_cast<Address*>(at));
      }
  }

 private:
  std::span<const ElfW(Phdr)> segments() const { return {info_.dlpi_phdr, info_.dlpi_phnum}; }
  void read_dynamic(const ElfW(Phdr) & segment);
  // The loader adds the object's address to those in the dynamic section, unless the section cannot
  // be written (`ld.lld -z rodynamic`, and the vDSO).
  Address address_of(Address in_dynamic) const;
  // Returns the rest of the loaded segment, if it can be read, from there on; else an empty range.
  Range readable_from(Address from) const;
  template <class T>
  std::span<const T> table(Address at, uint64_t size) const {
    if (at % alignof(T) != 0 || size > readable_from(at).size()) return {};
    return {reinterpret_cast<const T*>(at), size / sizeof(T)};
  }
  // Returns an empty name for a symbol that is not there.
  std::string_view name_of(size_t symbol) const;
  static bool imports(const ElfW(Rela) & one) {
    const auto type = ELF64_R_TYPE(one.r_info);
    return type == arch::kRelocationJumpSlot || type == arch::kRelocationGlobal;
  }

  const dl_phdr_info& info_;
  Range extent_ = {~Address{0}, 0};
  std::span<const ElfW(Sym)> symbols_;  // and what follows them in their segment
  std::span<const char> names_;
  std::span<const ElfW(Rela)> lazy_relocations_, other_relocations_;
  Address hash_ = 0;  // of the hash table
};

// Makes an import of an object lead to `to`; does nothing if `import` is nullptr. The page may be
// read-only, as the loader may protect it after setting the pointers in it. The loader must have
// relocated the object (loader_state.h).
void lead(Address* import, Address to);

}  // namespace pinprick::library
