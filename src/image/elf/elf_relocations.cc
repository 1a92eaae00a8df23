// The relocations of an ElfFile.
#include <elf.h>
#include <libelf.h>

#include <algorithm>
#include <cstring>

#include "arch/elf.h"
#include "image/elf/elf_file.h"
#include "image/elf/elf_sections.h"

namespace pinprick::image {
namespace {

constexpr uint64_t kFieldSize = sizeof(uint64_t);

Relocation::Kind relocation_kind(uint64_t type) {
  switch (type) {
    case arch::kRelocationRelative:
      return Relocation::Kind::relative;
    case arch::kRelocationIndirect:
      return Relocation::Kind::irelative;
    case arch::kRelocationJumpSlot:
    case arch::kRelocationGlobal:
    case arch::kRelocationAddress:
      return Relocation::Kind::symbol;
    default:
      return Relocation::Kind::other;
  }
}

// Words of the file, by their addresses, which mostly ascend.
class Words {
 public:
  explicit Words(const ElfFile& file) : file_(file) {}
  // Returns nullopt for a word that the file does not have.
  std::optional<uint64_t> at(Address address) {
    constexpr uint64_t kReadAtOnce = 64 << 10;
    if (address < begin_ || address - begin_ + kFieldSize > bytes_.size()) {
      begin_ = address;
      bytes_ = file_.read({address, address + kReadAtOnce});
      if (bytes_.size() < kFieldSize) return std::nullopt;
    }
    uint64_t word = 0;
    std::memcpy(&word, bytes_.data() + (address - begin_), kFieldSize);
    return word;
  }

 private:
  const ElfFile& file_;
  std::vector<uint8_t> bytes_;
  Address begin_ = 0;
};

// Calls `visit(address)` for each word that the table relocates. An even entry is the address of a
// word. An odd one is a bitmap of the next 63 words: which of them are relocated as well. Addresses
// ascend; others are invalid.
template <class F>
void visit_packed(std::span<const uint8_t> table, F&& visit) {
  constexpr unsigned kWordsOfMap = 63;
  Address next = 0, last = 0;
  const auto visit_ascending = [&](Address address) {
    if (address <= last) return;
    last = address;
    visit(address);
  };
  for (size_t at = 0; at + kFieldSize <= table.size(); at += kFieldSize) {
    uint64_t entry = 0;
    std::memcpy(&entry, table.data() + at, kFieldSize);
    if ((entry & 1) == 0) {
      visit_ascending(entry);
      next = entry + kFieldSize;
      continue;
    }
    for (unsigned word = 0; word < kWordsOfMap; ++word)
      if (entry >> (word + 1) & 1) visit_ascending(next + word * kFieldSize);
    next += kWordsOfMap * kFieldSize;
  }
}

}  // namespace

// A static program has no dynamic section. Its startup code finds the only table that it has, for
// IFUNCs, by symbols; a section header says the same.
std::vector<RelocationTable> ElfFile::relocation_tables() const {
  using Encoding = RelocationTable::Encoding;
  const auto& tables = dynamic().tables.relocations();
  if (!tables.empty()) return tables;
  std::vector<RelocationTable> of_sections;
  for (const auto& [section, header] : Sections(elf_.get())) {
    const bool is_table = header.sh_type == SHT_RELA && header.sh_entsize == sizeof(Elf64_Rela);
    const Range range = {header.sh_addr, header.sh_addr + header.sh_size};
    if (is_table && (header.sh_flags & SHF_ALLOC) != 0 && header.sh_size <= kLargestTable &&
        range.begin < range.end)
      of_sections.push_back({Encoding::rela, range});
  }
  return of_sections;
}

std::vector<Relocation> ElfFile::relocations() const {
  using Encoding = RelocationTable::Encoding;
  std::vector<Relocation> relocations;
  Words words(*this);
  // In memory, the loader has added the bias, if it has come to this word.
  const auto addend_at = [&](Address address) {
    const auto word = words.at(address);
    return word && bias_ != 0 && *word >= bias_ ? std::optional(*word - bias_) : word;
  };
  for (const RelocationTable& table : relocation_tables()) {
    const auto bytes = read(table.range);
    if (table.encoding == Encoding::relr) {
      visit_packed(bytes, [&](Address address) {
        if (const auto addend = addend_at(address))
          relocations.push_back(
              {address, Relocation::Kind::relative, static_cast<int64_t>(*addend), {}});
      });
      continue;
    }
    const bool has_addends = table.encoding == Encoding::rela;
    const size_t size = has_addends ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
    relocations.reserve(relocations.size() + bytes.size() / size);
    for (size_t at = 0; at + size <= bytes.size(); at += size) {
      Elf64_Rela raw = {};
      std::memcpy(&raw, bytes.data() + at, size);
      const auto kind = relocation_kind(ELF64_R_TYPE(raw.r_info));
      if (!has_addends && kind != Relocation::Kind::symbol)
        raw.r_addend = static_cast<int64_t>(addend_at(raw.r_offset).value_or(0));
      Relocation& one = relocations.emplace_back(Relocation{raw.r_offset, kind, raw.r_addend, {}});
      const uint64_t symbol = ELF64_R_SYM(raw.r_info);
      if (const auto symbols = symbol != 0 ? dynamic_symbol_table() : std::span<const Elf64_Sym>();
          symbol < symbols.size())
        one.symbol = name_of(symbols[symbol]);
    }
  }
  return relocations;
}

}  // namespace pinprick::image
