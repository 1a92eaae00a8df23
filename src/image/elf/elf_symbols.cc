// The symbols of an ElfFile.
#include <elf.h>
#include <gelf.h>
#include <libelf.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "image/elf/elf_file.h"
#include "image/elf/elf_sections.h"

namespace pinprick::image {
namespace {

Symbol::Kind kind_of(unsigned char info) {
  switch (GELF_ST_TYPE(info)) {
    case STT_FUNC:
      return Symbol::Kind::function;
    case STT_GNU_IFUNC:
      return Symbol::Kind::ifunc;
    case STT_NOTYPE:
      return Symbol::Kind::untyped;
    case STT_OBJECT:
      return Symbol::Kind::data;
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

}  // namespace

template <class F>
void ElfFile::visit_symbols(F&& visit) const {
  for (const auto& [section, header] : Sections(elf_.get())) {
    if (header.sh_type != SHT_SYMTAB || header.sh_entsize != sizeof(Elf64_Sym) ||
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
      if (name != nullptr && *name != '\0') visit(raw, name);
    }
  }
}

ElfFile::Dynamic& ElfFile::dynamic() const {
  if (dynamic_tables_ == nullptr)
    dynamic_tables_ = std::make_unique<Dynamic>(Dynamic{DynamicTables(dynamic_entries()), {}, {}});
  return *dynamic_tables_;
}

std::span<const char> ElfFile::dynamic_names() const {
  Dynamic& known = dynamic();
  if (!known.names) known.names = known.tables.read_names([&](Range range) { return read(range); });
  return *known.names;
}

std::span<const Elf64_Sym> ElfFile::dynamic_symbol_table() const {
  Dynamic& known = dynamic();
  if (!known.symbols)
    known.symbols = known.tables.read_symbols([&](Range range) { return read(range); });
  return *known.symbols;
}

std::string_view ElfFile::dynamic_string(uint64_t offset) const {
  const auto strings = dynamic_names();
  return offset < strings.size() ? std::string_view(strings.data() + offset) : std::string_view();
}

std::string_view ElfFile::name_of(const Elf64_Sym& dynamic_symbol) const {
  return dynamic_string(dynamic_symbol.st_name);
}

std::vector<Symbol> ElfFile::symtab() const {
  std::vector<Symbol> symbols;
  visit_symbols([&](const GElf_Sym& raw, std::string_view name) {
    if (is_code_or_data(raw)) symbols.push_back(to_symbol(raw, name));
  });
  return symbols;
}

std::vector<Symbol> ElfFile::dynamic_symbols() const {
  std::vector<Symbol> symbols;
  for (const Elf64_Sym& raw : dynamic_symbol_table())
    if (const auto name = name_of(raw); is_code_or_data(raw) && !name.empty())
      symbols.push_back(to_symbol(raw, name));
  return symbols;
}

std::vector<SymbolName> ElfFile::symbol_names() const {
  std::vector<SymbolName> names;
  visit_symbols([&](const GElf_Sym& raw, std::string_view name) {
    names.push_back({name, raw.st_shndx != SHN_UNDEF});
  });
  for (const Elf64_Sym& raw : dynamic_symbol_table())
    if (const auto name = name_of(raw); !name.empty())
      names.push_back({name, raw.st_shndx != SHN_UNDEF});
  return names;
}

namespace {

bool contains_any(std::span<const char> text, std::span<const std::string_view> names) {
  // memmem() takes no null pointer.
  if (text.empty()) return false;
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    return ::memmem(text.data(), text.size(), name.data(), name.size()) != nullptr;
  });
}

}  // namespace

bool ElfFile::may_name_any(std::span<const std::string_view> names) const {
  for (const auto& [section, header] : Sections(elf_.get())) {
    if (header.sh_type != SHT_SYMTAB) continue;
    Elf_Scn* const strings = elf_getscn(elf_.get(), header.sh_link);
    GElf_Shdr strings_header;
    if (strings == nullptr || gelf_getshdr(strings, &strings_header) == nullptr ||
        strings_header.sh_size > kLargestTable)
      return true;
    const auto text = raw_bytes(strings);
    if (text.size() != strings_header.sh_size ||
        contains_any({reinterpret_cast<const char*>(text.data()), text.size()}, names))
      return true;
  }
  return may_import_any(names);
}

bool ElfFile::may_import_any(std::span<const std::string_view> names) const {
  const auto text = dynamic_names();
  return text.empty() ? dynamic().tables.has_names() : contains_any(text, names);
}

bool ElfFile::has_debug_information() const {
  return find_section(".debug_info") != nullptr || find_section(".zdebug_info") != nullptr;
}

bool ElfFile::has_symtab() const {
  for (const auto& section : Sections(elf_.get()))
    if (section.header.sh_type == SHT_SYMTAB) return true;
  return false;
}

// A program's block of them ends at the thread pointer.
std::optional<int64_t> ElfFile::thread_local_offset(std::string_view name, uint64_t bytes) const {
  const uint64_t alignment = std::max<uint64_t>(thread_local_alignment_, 1);
  if (!thread_local_ || !std::has_single_bit(alignment) || alignment > kPageSize ||
      thread_local_->begin % alignment != 0 || thread_local_->size() > INT32_MAX)
    return std::nullopt;
  std::optional<uint64_t> found;
  bool is_one = true;
  const auto look_at = [&](const Elf64_Sym& raw, std::string_view symbol) {
    if (ELF64_ST_TYPE(raw.st_info) != STT_TLS || raw.st_shndx == SHN_UNDEF || symbol != name)
      return;
    is_one = is_one && (!found || *found == raw.st_value);
    found = raw.st_value;
  };
  visit_symbols(look_at);
  for (const Elf64_Sym& raw : dynamic_symbol_table()) look_at(raw, name_of(raw));
  if (!found || !is_one || *found > thread_local_->size() || bytes > thread_local_->size() - *found)
    return std::nullopt;
  return static_cast<int64_t>(*found) -
         static_cast<int64_t>(align_up(thread_local_->size(), alignment));
}

}  // namespace pinprick::image
