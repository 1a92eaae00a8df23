#include "image/elf/debugger_file.h"

#include <elf.h>

#include <algorithm>
#include <string_view>

#include "arch/elf.h"

namespace pinprick::image {
namespace {

void append_bytes(std::vector<uint8_t>& to, std::span<const uint8_t> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

template <class T>
std::span<const uint8_t> raw_bytes(const T& value) {
  return {reinterpret_cast<const uint8_t*>(&value), sizeof value};
}

std::span<const uint8_t> raw_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Names of sections and symbols, one after the other.
constexpr char kNameBytes[] =
    "\0.text\0.eh_frame\0.symtab\0.strtab\0pinprick_timed_call\0pinprick_probe";
constexpr std::string_view kStringTable(kNameBytes, sizeof kNameBytes);

uint32_t name_offset(std::string_view name) {
  return static_cast<uint32_t>(kStringTable.find(name));
}

}  // namespace

std::vector<uint8_t> debugger_file(std::span<const EmittedCode> code,
                                   std::span<const uint8_t> tables) {
  std::vector<Elf64_Shdr> sections(1);
  std::vector<uint8_t> bytes(sizeof(Elf64_Ehdr));
  const auto add = [&](std::string_view name, uint32_t type, std::span<const uint8_t> contents) {
    bytes.resize(align_up(bytes.size(), 8));
    Elf64_Shdr section = {};
    section.sh_name = name_offset(name);
    section.sh_type = type;
    section.sh_offset = bytes.size();
    section.sh_size = contents.size();
    section.sh_addralign = 8;
    append_bytes(bytes, contents);
    sections.push_back(section);
    return &sections.back();
  };

  std::vector<uint8_t> symbols(sizeof(Elf64_Sym));
  Address end = 0;
  for (const auto& [range, kind] : code) {
    Elf64_Shdr* text = add(".text", SHT_NOBITS, {});
    text->sh_flags = SHF_ALLOC | SHF_EXECINSTR;
    text->sh_addr = range.begin;
    text->sh_size = range.size();
    Elf64_Sym symbol = {};
    symbol.st_name =
        name_offset(kind == arch::RangeKind::slots ? "pinprick_timed_call" : "pinprick_probe");
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = static_cast<Elf64_Section>(sections.size() - 1);
    symbol.st_value = range.begin;
    symbol.st_size = range.size();
    append_bytes(symbols, raw_bytes(symbol));
    end = std::max(end, range.end);
  }
  Elf64_Shdr* frames = add(".eh_frame", SHT_PROGBITS, tables);
  frames->sh_flags = SHF_ALLOC;
  // Any address will do: nothing in it depends on its address.
  frames->sh_addr = end;
  Elf64_Shdr* symbol_table = add(".symtab", SHT_SYMTAB, symbols);
  symbol_table->sh_entsize = sizeof(Elf64_Sym);
  symbol_table->sh_info = 1;
  symbol_table->sh_link = static_cast<uint32_t>(sections.size());
  add(".strtab", SHT_STRTAB, raw_bytes(kStringTable));

  bytes.resize(align_up(bytes.size(), 8));
  Elf64_Ehdr header = {};
  std::copy_n(ELFMAG, SELFMAG, header.e_ident);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = arch::kElfMachine;
  header.e_version = EV_CURRENT;
  header.e_ehsize = sizeof header;
  header.e_shoff = bytes.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<uint16_t>(sections.size());
  header.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
  std::copy_n(raw_bytes(header).begin(), sizeof header, bytes.begin());
  for (const Elf64_Shdr& section : sections) append_bytes(bytes, raw_bytes(section));
  return bytes;
}

}  // namespace pinprick::image
