#include "image/elf/dynamic_tables.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "image/elf/elf_sections.h"

namespace pinprick::image {
namespace {

uint64_t largest_symbol_in(const RelocationTable& table, std::span<const uint8_t> bytes) {
  const size_t size =
      table.encoding == RelocationTable::Encoding::rela ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel);
  uint64_t largest = 0;
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    Elf64_Rel relocation;
    std::memcpy(&relocation, bytes.data() + at, sizeof relocation);
    largest = std::max<uint64_t>(largest, ELF64_R_SYM(relocation.r_info));
  }
  return largest;
}

}  // namespace

DynamicTables::DynamicTables(std::span<const Elf64_Dyn> entries) {
  using Encoding = RelocationTable::Encoding;
  Range rela, rel, relr, plt;
  Encoding encoding_of_plt = Encoding::rela;
  const auto size = [&](uint64_t value) { return value <= kLargestTable ? value : 0; };
  for (const Elf64_Dyn& entry : entries) {
    const uint64_t value = entry.d_un.d_val;
    switch (entry.d_tag) {
      case DT_SYMTAB:
        symbols_ = value;
        break;
      case DT_STRTAB:
        names_ = value;
        break;
      case DT_STRSZ:
        size_of_names_ = value;
        break;
      case DT_HASH:
        sysv_hash_ = value;
        break;
      case DT_GNU_HASH:
        gnu_hash_ = value;
        break;
      case DT_PLTGOT:
        got_ = value;
        break;
      case DT_RELA:
        rela.begin = value;
        break;
      case DT_RELASZ:
        rela.end = size(value);
        break;
      case DT_REL:
        rel.begin = value;
        break;
      case DT_RELSZ:
        rel.end = size(value);
        break;
      case kTagRelr:
        relr.begin = value;
        break;
      case kTagRelrSize:
        relr.end = size(value);
        break;
      case DT_JMPREL:
        plt.begin = value;
        break;
      case DT_PLTRELSZ:
        plt.end = size(value);
        break;
      case DT_PLTREL:
        encoding_of_plt = value == DT_REL ? Encoding::rel : Encoding::rela;
        break;
      default:
        break;
    }
  }
  // So far, ends are sizes.
  const auto add = [&](Encoding encoding, Range table) {
    table.end += table.begin;
    // Some linkers count the relocations of the linkage table among the others.
    const bool is_known =
        std::any_of(relocations_.begin(), relocations_.end(), [&](const RelocationTable& other) {
          return other.encoding == encoding && other.range.contains(table);
        });
    if (table.begin != 0 && table.begin < table.end && !is_known)
      relocations_.push_back({encoding, table});
  };
  add(Encoding::rela, rela);
  add(Encoding::rel, rel);
  add(encoding_of_plt, plt);
  add(Encoding::relr, relr);
}

std::vector<char> DynamicTables::read_names(const Read& read) const {
  if (names_ == 0 || size_of_names_ == 0 || size_of_names_ > kLargestTable) return {};
  const auto bytes = read({names_, names_ + size_of_names_});
  if (bytes.size() != size_of_names_) return {};
  std::vector<char> names(bytes.begin(), bytes.end());
  if (names.back() != '\0') names.push_back('\0');
  return names;
}

uint64_t DynamicTables::count_by_sysv_hash(const Read& read) const {
  if (sysv_hash_ == 0) return 0;
  const auto head = read({sysv_hash_, sysv_hash_ + 8});
  ByteReader words(head);
  words.u32();
  return words.u32();
}

// The table has the symbols from `first` on. Each bucket has the first of a chain, and the last of
// a chain has an odd hash.
uint64_t DynamicTables::count_by_gnu_hash(const Read& read) const {
  if (gnu_hash_ == 0) return 0;
  constexpr uint64_t kWord = sizeof(uint32_t), kHead = 4 * kWord, kAtOnce = 16 << 10;
  const auto head = read({gnu_hash_, gnu_hash_ + kHead});
  ByteReader words(head);
  const uint64_t buckets = words.u32();
  const uint64_t first = words.u32();
  const uint64_t bloom = words.u32();
  if (!words.ok() || buckets * kWord > kLargestTable || bloom * 8 > kLargestTable) return 0;
  const Address at = gnu_hash_ + kHead + bloom * 8;
  const auto firsts = read({at, at + buckets * kWord});
  if (firsts.size() != buckets * kWord) return 0;
  uint64_t last = 0;
  ByteReader chains(firsts);
  while (chains.remaining() != 0) last = std::max<uint64_t>(last, chains.u32());
  if (last < first) return 0;  // no symbol is hashed, so the table says nothing
  Address next = at + buckets * kWord + (last - first) * kWord;
  while (last < kLargestTable) {
    const auto hashes = read({next, next + kAtOnce});
    ByteReader chain(hashes);
    while (chain.remaining() >= kWord) {
      ++last;
      if (chain.u32() & 1) return last;
    }
    if (hashes.size() < kAtOnce) break;
    next += kAtOnce;
  }
  return last;
}

uint64_t DynamicTables::count_by_relocations(const Read& read) const {
  uint64_t largest = 0;
  for (const RelocationTable& table : relocations_)
    if (table.encoding != RelocationTable::Encoding::relr)
      largest = std::max(largest, largest_symbol_in(table, read(table.range)));
  return largest + 1;
}

std::vector<Elf64_Sym> DynamicTables::read_symbols(const Read& read) const {
  if (symbols_ == 0) return {};
  uint64_t count = std::max(count_by_sysv_hash(read), count_by_gnu_hash(read));
  if (count == 0) count = count_by_relocations(read);
  count = std::min(count, kLargestTable / sizeof(Elf64_Sym));
  const auto bytes = read({symbols_, symbols_ + count * sizeof(Elf64_Sym)});
  std::vector<Elf64_Sym> symbols(bytes.size() / sizeof(Elf64_Sym));
  if (!symbols.empty())
    std::memcpy(symbols.data(), bytes.data(), symbols.size() * sizeof(Elf64_Sym));
  return symbols;
}

}  // namespace pinprick::image
