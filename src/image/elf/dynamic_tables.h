// What the dynamic section of an object leads to: the tables that the loader reads. They are there
// without section headers, and in memory. For ElfFile alone.
//
// Addresses and sizes are not trusted: what the file does not have reads as missing. Pure.
#pragma once

#include <elf.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/address.h"

namespace pinprick::image {

// From the generic ABI of 2022 on; older headers lack them.
inline constexpr int64_t kTagRelrSize = 35, kTagRelr = 36;

// A table of relocations. RELR has relative ones only.
struct RelocationTable {
  enum class Encoding : uint8_t { rela, rel, relr } encoding = Encoding::rela;
  Range range;
};

class DynamicTables {
 public:
  // Returns the bytes of the file for a range of addresses: fewer if the file has fewer.
  using Read = std::function<std::vector<uint8_t>(Range)>;

  // Addresses in the entries are the file's own.
  explicit DynamicTables(std::span<const Elf64_Dyn> entries);

  const std::vector<RelocationTable>& relocations() const { return relocations_; }
  bool has_names() const { return names_ != 0; }
  // Returns the names of symbols, one after the other, each with a terminating zero; none if they
  // cannot be read.
  std::vector<char> read_names(const Read& read) const;
  // Returns the symbols. Their number follows from the hash tables. If no symbol is hashed, as in
  // most programs, these are the symbols up to the last one that a relocation refers to.
  std::vector<Elf64_Sym> read_symbols(const Read& read) const;
  // Is this address in the table of addresses of imported functions where the loader's own function
  // and its argument are? Stubs of the procedure linkage table push and jump to these.
  bool is_for_loader(Address address) const {
    return got_ != 0 && (address == got_ + 8 || address == got_ + 16);
  }

 private:
  uint64_t count_by_sysv_hash(const Read& read) const;
  uint64_t count_by_gnu_hash(const Read& read) const;
  uint64_t count_by_relocations(const Read& read) const;

  Address symbols_ = 0;
  Address names_ = 0;
  uint64_t size_of_names_ = 0;
  Address sysv_hash_ = 0;
  Address gnu_hash_ = 0;
  Address got_ = 0;
  std::vector<RelocationTable> relocations_;
};

}  // namespace pinprick::image
