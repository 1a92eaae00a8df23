// An object that the loader has loaded, read from memory: the names that it defines and imports.
//
// To be used within dl_iterate_phdr only, whose lock keeps the object from being unloaded.
// Allocates nothing.
#pragma once

#include <elf.h>
#include <link.h>

#include <array>
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
  // Does the loader make this address read-only when the object is loaded?
  bool is_protected_when_loaded(Address address) const;
  // Where it keeps the address of another object's function; nullptr if it imports none of that
  // name.
  Address* import_of(std::string_view name) const;
  // Returns 0 if it defines no such name.
  Address definition_of(std::string_view name) const;

  // Calls f(name, where it keeps the address) for all functions that it imports.
  template <class F>
  void for_each_import(F&& f) const {
    if (!has_names()) return;
    for (const auto table : {lazy_relocations(), other_relocations()})
      for (const ElfW(Rela) & one : table)
        if (imports(one)) f(name_of(symbol(ELF64_R_SYM(one.r_info))), address_of(one));
  }

 private:
  std::span<const ElfW(Phdr)> segments() const { return {info_.dlpi_phdr, info_.dlpi_phnum}; }
  const ElfW(Sym) & symbol(size_t i) const {
    return reinterpret_cast<const ElfW(Sym)*>(dynamic_[DT_SYMTAB])[i];
  }
  std::string_view name_of(const ElfW(Sym) & symbol) const {
    return reinterpret_cast<const char*>(dynamic_[DT_STRTAB]) + symbol.st_name;
  }
  bool has_names() const { return dynamic_[DT_SYMTAB] != 0 && dynamic_[DT_STRTAB] != 0; }
  std::span<const ElfW(Rela)> lazy_relocations() const {
    return relocations(dynamic_[DT_JMPREL], dynamic_[DT_PLTRELSZ]);
  }
  std::span<const ElfW(Rela)> other_relocations() const {
    return relocations(dynamic_[DT_RELA], dynamic_[DT_RELASZ]);
  }
  static std::span<const ElfW(Rela)> relocations(Address table, uint64_t size) {
    const auto* const first = reinterpret_cast<const ElfW(Rela)*>(table);
    return {first, size / sizeof *first};
  }
  static bool imports(const ElfW(Rela) & one) {
    const auto type = ELF64_R_TYPE(one.r_info);
    return type == arch::kRelocationJumpSlot || type == arch::kRelocationGlobal;
  }
  Address* address_of(const ElfW(Rela) & one) const {
    return reinterpret_cast<Address*>(info_.dlpi_addr + one.r_offset);
  }

  const dl_phdr_info& info_;
  Range extent_ = {~Address{0}, 0};
  std::array<Address, DT_NUM> dynamic_{};
  Address hash_ = 0;
};

// Makes an import of the object lead to `to`; does nothing if `import` is nullptr. The page may be
// read-only, as the loader may protect it after setting the pointers in it.
void lead(const LoadedObject& object, Address* import, Address to);

}  // namespace pinprick::library
