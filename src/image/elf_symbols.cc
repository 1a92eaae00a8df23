// The symbols of an ElfFile, and its relocations, which name some of them.
#include <elf.h>
#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "arch/elf.h"
#include "base/bytes.h"
#include "image/elf_file.h"
#include "image/elf_sections.h"

namespace pinprick::image {
namespace {

Symbol::Kind kind_of(unsigned char info) {
  switch (GELF_ST_TYPE(info)) {
    case STT_FUNC:
      return Symbol::Kind::function;
    case STT_GNU_IFUNC:
      return Symbol::Kind::ifunc;
    default:
      return Symbol::Kind::other;
  }
}

bool is_code_or_data(const GElf_Sym& symbol) {
  const auto type = GELF_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS && type != STT_SECTION &&
         type != STT_FILE && type != STT_TLS;
}

Symbol to_symbol(const GElf_Sym& raw, std::string_view name) {
  return {raw.st_value, raw.st_size, name, kind_of(raw.st_info),
          GELF_ST_BIND(raw.st_info) != STB_LOCAL};
}

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

}  // namespace

template <class F>
void ElfFile::visit_symbols(uint32_t section_type, F&& visit) const {
  for (const auto& [section, header] : Sections(elf_.get())) {
    if (header.sh_type != section_type || header.sh_entsize != sizeof(Elf64_Sym) ||
        header.sh_size > kLargestTable || !bring(section) ||
        !bring(elf_getscn(elf_.get(), header.sh_link)))
      continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) continue;
    const auto count = static_cast<int>(data->d_size / header.sh_entsize);
    for (int i = 0; i < count; ++i) {
      GElf_Sym raw;
      if (gelf_getsym(data, i, &raw) == nullptr) continue;
      const char* name = elf_strptr(elf_.get(), header.sh_link, raw.st_name);
      if (name != nullptr && *name != '\0' && !visit(raw, name)) return;
    }
  }
}

std::vector<Symbol> ElfFile::symbols_of_sections(uint32_t type) const {
  std::vector<Symbol> symbols;
  visit_symbols(type, [&](const GElf_Sym& raw, std::string_view name) {
    if (is_code_or_data(raw)) symbols.push_back(to_symbol(raw, name));
    return true;
  });
  return symbols;
}

std::vector<SymbolName> ElfFile::symbol_names() const {
  std::vector<SymbolName> names;
  for (const uint32_t type : {SHT_SYMTAB, SHT_DYNSYM})
    visit_symbols(type, [&](const GElf_Sym& raw, std::string_view name) {
      names.push_back({name, raw.st_shndx != SHN_UNDEF});
      return true;
    });
  return names;
}

// Mostly one of the first symbols shows it: the tables of a large library take megabytes.
bool ElfFile::has_symbols() const {
  const auto has = [&](const GElf_Shdr& section) {
    return section.sh_offset <= file_size() && section.sh_size <= file_size() - section.sh_offset;
  };
  for (const auto& [section, header] : Sections(elf_.get())) {
    GElf_Shdr names;
    if (header.sh_type != SHT_SYMTAB || header.sh_entsize != sizeof(Elf64_Sym) ||
        header.sh_size > kLargestTable || header.sh_size % sizeof(Elf64_Sym) != 0 || !has(header) ||
        gelf_getshdr(elf_getscn(elf_.get(), header.sh_link), &names) == nullptr ||
        names.sh_type != SHT_STRTAB || !has(names))
      continue;
    std::array<Elf64_Sym, 64> first;
    const auto some = std::span(first).first(
        std::min<uint64_t>(first.size(), header.sh_size / sizeof(Elf64_Sym)));
    const std::span<uint8_t> bytes(reinterpret_cast<uint8_t*>(some.data()), some.size_bytes());
    if (!bytes_.read(bytes, header.sh_offset)) continue;
    const auto one = std::find_if(some.begin(), some.end(), [&](const Elf64_Sym& symbol) {
      return is_code_or_data(symbol) && symbol.st_name != 0 && symbol.st_name < names.sh_size;
    });
    uint8_t letter = 0;
    if (one != some.end() && bytes_.read({&letter, 1}, names.sh_offset + one->st_name) &&
        letter != 0)
      return true;
  }
  bool any = false;
  visit_symbols(SHT_SYMTAB, [&](const GElf_Sym& raw, std::string_view) {
    any = is_code_or_data(raw);
    return !any;
  });
  return any;
}

std::optional<bool> ElfFile::names_any(std::span<const std::string_view> names,
                                       std::initializer_list<uint32_t> tables) const {
  bool is_there = false;
  for (const auto& [section, header] : Sections(elf_.get())) {
    if (std::find(tables.begin(), tables.end(), header.sh_type) == tables.end()) continue;
    Elf_Scn* const strings = elf_getscn(elf_.get(), header.sh_link);
    GElf_Shdr strings_header;
    if (strings == nullptr || gelf_getshdr(strings, &strings_header) == nullptr ||
        strings_header.sh_size > kLargestTable)
      return true;
    const auto text = raw_bytes(strings);
    if (text.size() != strings_header.sh_size) return true;
    if (std::any_of(names.begin(), names.end(), [&](std::string_view name) {
          return ::memmem(text.data(), text.size(), name.data(), name.size()) != nullptr;
        }))
      return true;
    is_there = true;
  }
  return is_there ? std::optional(false) : std::nullopt;
}

bool ElfFile::may_name_any(std::span<const std::string_view> names) const {
  const bool has_sections = elf_nextscn(elf_.get(), nullptr) != nullptr;
  return names_any(names, {SHT_SYMTAB, SHT_DYNSYM}).value_or(!has_sections);
}

bool ElfFile::may_import_any(std::span<const std::string_view> names) const {
  return names_any(names, {SHT_DYNSYM}).value_or(true);
}

bool ElfFile::has_symtab() const {
  for (const auto& section : Sections(elf_.get()))
    if (section.header.sh_type == SHT_SYMTAB) return true;
  return false;
}

std::vector<Symbol> ElfFile::symtab() const {
  return symbols_of_sections(SHT_SYMTAB);
}

std::vector<Symbol> ElfFile::dynamic_symbols() const {
  auto symbols = symbols_of_sections(SHT_DYNSYM);
  return symbols.empty() && bytes_.is_in_memory() ? symbols_of_dynamic_section() : symbols;
}

// Without section headers, the number of symbols is derived from the hash tables.
std::vector<Symbol> ElfFile::symbols_of_dynamic_section() const {
  uint64_t table = 0, strings = 0, strings_size = 0, hash = 0, gnu_hash = 0;
  for (const Elf64_Dyn& entry : dynamic_entries()) {
    const auto tag = entry.d_tag;
    uint64_t value = entry.d_un.d_val;
    const bool is_address =
        tag == DT_SYMTAB || tag == DT_STRTAB || tag == DT_HASH || tag == DT_GNU_HASH;
    if (is_address && bias_ != 0 && value >= bias_) value -= bias_;
    if (tag == DT_SYMTAB) table = value;
    if (tag == DT_STRTAB) strings = value;
    if (tag == DT_STRSZ) strings_size = value;
    if (tag == DT_HASH) hash = value;
    if (tag == DT_GNU_HASH) gnu_hash = value;
  }
  if (table == 0 || strings == 0 || strings_size > kLargestTable) return {};

  uint64_t count = 0;
  if (hash != 0) {
    const auto head = read({hash, hash + 8});
    ByteReader words(head);
    words.u32();
    count = words.u32();
  } else if (gnu_hash != 0) {
    const auto bytes = read({gnu_hash, gnu_hash + kLargestTable});
    ByteReader words(bytes);
    const uint32_t buckets = words.u32();
    const uint32_t first = words.u32();
    const uint32_t bloom = words.u32();
    words.u32();
    words.skip(uint64_t{bloom} * 8);
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets && words.ok(); ++i) last = std::max(last, words.u32());
    if (words.ok() && last >= first) {
      words.skip(uint64_t{last - first} * 4);
      count = last;
      while (words.ok() && count < kLargestTable) {
        ++count;
        if (words.u32() & 1) break;
      }
    }
  }

  const auto raw_strings = read({strings, strings + strings_size});
  const auto raw_symbols = read({table, table + count * sizeof(Elf64_Sym)});
  // Names must outlive this call: point into the file in memory, which holds the same strings.
  std::vector<Symbol> symbols;
  ByteReader entries(raw_symbols);
  for (uint64_t i = 0; i < count && entries.remaining() >= sizeof(Elf64_Sym); ++i) {
    const auto raw = entries.read<Elf64_Sym>();
    if (!is_code_or_data(raw) || raw.st_name >= raw_strings.size()) continue;
    for (const Segment& segment : segments_) {
      if (!segment.range.contains(strings)) continue;
      const uint64_t at = segment.offset + (strings - segment.range.begin);
      ByteReader names(bytes_.memory().subspan(at, raw_strings.size()), raw.st_name);
      const std::string_view name = names.c_string();
      if (names.ok() && !name.empty()) symbols.push_back(to_symbol(raw, name));
      break;
    }
  }
  return symbols;
}

std::vector<Relocation> ElfFile::relocations() const {
  std::vector<Relocation> relocations;
  for (const auto& [section, header] : Sections(elf_.get())) {
    if (header.sh_type != SHT_RELA || !(header.sh_flags & SHF_ALLOC) ||
        header.sh_entsize != sizeof(Elf64_Rela) || header.sh_size > kLargestTable ||
        !bring(section))
      continue;
    Elf_Data* data = elf_getdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr) continue;
    Elf_Scn* symbol_section = elf_getscn(elf_.get(), header.sh_link);
    GElf_Shdr symbol_header = {};
    Elf_Data* symbol_data = nullptr;
    if (symbol_section != nullptr && gelf_getshdr(symbol_section, &symbol_header) != nullptr &&
        bring(symbol_section) && bring(elf_getscn(elf_.get(), symbol_header.sh_link)))
      symbol_data = elf_getdata(symbol_section, nullptr);
    const auto count = static_cast<int>(data->d_size / header.sh_entsize);
    for (int i = 0; i < count; ++i) {
      GElf_Rela raw;
      if (gelf_getrela(data, i, &raw) == nullptr) continue;
      Relocation out = {raw.r_offset, relocation_kind(GELF_R_TYPE(raw.r_info)), raw.r_addend, {}};
      GElf_Sym symbol;
      const auto index = static_cast<int>(GELF_R_SYM(raw.r_info));
      if (index != 0 && symbol_data != nullptr &&
          gelf_getsym(symbol_data, index, &symbol) != nullptr) {
        const char* name = elf_strptr(elf_.get(), symbol_header.sh_link, symbol.st_name);
        if (name != nullptr) out.symbol = name;
      }
      relocations.push_back(out);
    }
  }
  append_packed_relocations(relocations);
  return relocations;
}

// SHT_RELR: only relative relocations, whose addends are in the words themselves. An even entry is
// the address of a word. An odd one is a bitmap of the next 63 words: which of them are relocated
// as well. Addresses ascend; others are invalid.
void ElfFile::append_packed_relocations(std::vector<Relocation>& relocations) const {
  constexpr uint64_t kWord = sizeof(uint64_t);
  constexpr unsigned kWordsOfMap = 63;
  constexpr uint64_t kReadAtOnce = 64 << 10;
  std::vector<uint8_t> words;  // what the file holds from `begin` on
  Address begin = 0, last = 0;
  const auto append = [&](Address address) {
    if (address <= last) return;
    last = address;
    if (address < begin || address - begin + kWord > words.size()) {
      begin = address;
      words = read({address, address + kReadAtOnce});
      if (words.size() < kWord) return;
    }
    int64_t addend = 0;
    std::memcpy(&addend, words.data() + (address - begin), kWord);
    relocations.push_back({address, Relocation::Kind::relative, addend, {}});
  };
  for (const auto& [section, header] : Sections(elf_.get())) {
    if (header.sh_type != SHT_RELR || !(header.sh_flags & SHF_ALLOC) ||
        header.sh_size > kLargestTable)
      continue;
    const auto table = read({header.sh_addr, header.sh_addr + header.sh_size});
    Address next = 0;
    for (size_t at = 0; at + kWord <= table.size(); at += kWord) {
      uint64_t entry = 0;
      std::memcpy(&entry, table.data() + at, kWord);
      if ((entry & 1) == 0) {
        append(entry);
        next = entry + kWord;
        continue;
      }
      for (unsigned word = 0; word < kWordsOfMap; ++word)
        if (entry >> (word + 1) & 1) append(next + word * kWord);
      next += kWordsOfMap * kWord;
    }
  }
}

}  // namespace pinprick::image
