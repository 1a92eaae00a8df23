// The sections of an ELF file that libelf has opened, as its headers say. For ElfFile alone.
#pragma once

#include <gelf.h>
#include <libelf.h>

#include <cstdint>
#include <span>
#include <string_view>

namespace pinprick::image {

// No real table of symbols, names or relocations has a gigabyte.
inline constexpr uint64_t kLargestTable = uint64_t{1} << 30;

inline std::span<const uint8_t> bytes_of(const Elf_Data* data) {
  if (data == nullptr || data->d_buf == nullptr) return {};
  return {static_cast<const uint8_t*>(data->d_buf), data->d_size};
}

// A range over the sections whose headers can be read.
class Sections {
 public:
  struct Section {
    Elf_Scn* handle = nullptr;
    GElf_Shdr header = {};
  };
  class Iterator {
   public:
    explicit Iterator(Elf* elf) : elf_(elf) {
      if (elf != nullptr) ++*this;
    }
    const Section& operator*() const { return section_; }
    Iterator& operator++() {
      do section_.handle = elf_nextscn(elf_, section_.handle);
      while (section_.handle != nullptr &&
             gelf_getshdr(section_.handle, &section_.header) == nullptr);
      return *this;
    }
    bool operator==(const Iterator& other) const {
      return section_.handle == other.section_.handle;
    }

   private:
    Elf* elf_;
    Section section_;
  };

  explicit Sections(Elf* elf) : elf_(elf) {
    if (elf_getshdrstrndx(elf, &names_) != 0) names_ = 0;
  }
  Iterator begin() const { return Iterator(elf_); }
  Iterator end() const { return Iterator(nullptr); }
  // Returns nothing if the section has no name, or if it cannot be read.
  std::string_view name_of(const Section& section) const {
    const char* const name =
        names_ != 0 ? elf_strptr(elf_, names_, section.header.sh_name) : nullptr;
    return name != nullptr ? name : std::string_view();
  }

 private:
  Elf* elf_;
  size_t names_ = 0;
};

}  // namespace pinprick::image
