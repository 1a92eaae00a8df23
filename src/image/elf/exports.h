// The functions that an object offers to others by name. They are looked up as the loader does it,
// by the hash tables of the dynamic section: that takes a microsecond, however many there are.
//
// The file is not trusted: a broken table reads as missing. Not thread-safe. Addresses are the
// object's own.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "image/elf/elf_file.h"

namespace pinprick::image {

// A name with the numbers by which it is looked up, for many objects.
struct HashedName {
  explicit HashedName(std::string_view name);
  std::string_view name;
  uint32_t gnu = 0;   // as in DT_GNU_HASH
  uint32_t sysv = 0;  // as in DT_HASH
};

struct Definition {
  Address address = 0;
  bool is_resolver = false;  // of an IFUNC: it returns the address that the loader takes

  friend bool operator==(const Definition&, const Definition&) = default;
};

class Exports {
 public:
  // `elf` must outlive it.
  explicit Exports(const ElfFile& elf);

  // Returns the functions of that name, one for each of its versions.
  std::vector<Definition> find(const HashedName& name) const;
  // Returns the names of the libraries that the object needs (DT_NEEDED), without folders.
  const std::vector<std::string_view>& needed() const { return needed_; }
  // Returns its own name as a library (DT_SONAME); empty if it has none.
  std::string_view soname() const { return soname_; }

 private:
  void read_gnu_table(Address at);
  void read_sysv_table(Address at);
  void find_by_gnu_table(const HashedName& name, std::vector<Definition>& found) const;
  void find_by_sysv_table(const HashedName& name, std::vector<Definition>& found) const;
  void add_if_named(uint32_t symbol, std::string_view name, std::vector<Definition>& found) const;

  const ElfFile& elf_;
  Address symbols_ = 0, strings_ = 0;
  // DT_GNU_HASH; empty if there is none.
  std::vector<uint64_t> bloom_;
  uint32_t bloom_shift_ = 0, first_hashed_ = 0;
  Address chains_ = 0;
  // DT_HASH is read where there is no other; `chain_` is its own.
  std::vector<uint32_t> buckets_, chain_;
  std::vector<std::string_view> needed_;
  std::string_view soname_;
};

}  // namespace pinprick::image
