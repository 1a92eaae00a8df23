#include "image/elf/exports.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "base/bytes.h"

namespace pinprick::image {
namespace {

// Linkers make chains of a few symbols. A hostile file could make one of all its symbols.
constexpr size_t kLongestChain = 4096;
// No real table has a gigabyte.
constexpr uint64_t kMostWords = uint64_t{1} << 28;

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

template <class T>
std::vector<T> read_words(const ElfFile& elf, Address at, uint64_t count) {
  if (count > kMostWords) return {};
  const auto bytes = elf.read({at, at + count * sizeof(T)});
  if (bytes.size() != count * sizeof(T)) return {};
  std::vector<T> words(count);
  if (!words.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  return words;
}

}  // namespace

HashedName::HashedName(std::string_view given) : name(given), gnu(5381) {
  for (const char letter : given) {
    const auto byte = static_cast<uint8_t>(letter);
    gnu = gnu * 33 + byte;
    sysv = (sysv << 4) + byte;
    sysv ^= (sysv >> 24) & 0xf0;
    sysv &= 0x0fffffff;
  }
}

Exports::Exports(const ElfFile& elf) : elf_(elf) {
  Address gnu = 0, sysv = 0;
  for (const Elf64_Dyn& entry : elf.dynamic_entries()) {
    const uint64_t value = entry.d_un.d_val;
    if (entry.d_tag == DT_SYMTAB) symbols_ = value;
    if (entry.d_tag == DT_STRTAB) strings_ = value;
    if (entry.d_tag == DT_GNU_HASH) gnu = value;
    if (entry.d_tag == DT_HASH) sysv = value;
    if (entry.d_tag == DT_SONAME) soname_ = elf.dynamic_string(value);
    if (entry.d_tag == DT_NEEDED) needed_.push_back(base_name(elf.dynamic_string(value)));
  }
  if (gnu != 0) read_gnu_table(gnu);
  if (bloom_.empty() && sysv != 0) read_sysv_table(sysv);
}

void Exports::read_gnu_table(Address at) {
  constexpr size_t kHead = 4;
  const auto head = read_words<uint32_t>(elf_, at, kHead);
  if (head.size() != kHead) return;
  const uint32_t buckets = head[0], bloom = head[2];
  first_hashed_ = head[1];
  bloom_shift_ = head[3] % 32;
  at += kHead * sizeof(uint32_t);
  buckets_ = read_words<uint32_t>(elf_, at + uint64_t{bloom} * sizeof(uint64_t), buckets);
  if (!buckets_.empty()) bloom_ = read_words<uint64_t>(elf_, at, bloom);
  chains_ = at + uint64_t{bloom} * sizeof(uint64_t) + uint64_t{buckets} * sizeof(uint32_t);
}

void Exports::read_sysv_table(Address at) {
  constexpr size_t kHead = 2;
  const auto head = read_words<uint32_t>(elf_, at, kHead);
  if (head.size() != kHead) return;
  at += kHead * sizeof(uint32_t);
  buckets_ = read_words<uint32_t>(elf_, at, head[0]);
  chain_ = read_words<uint32_t>(elf_, at + uint64_t{head[0]} * sizeof(uint32_t), head[1]);
}

std::vector<Definition> Exports::find(const HashedName& name) const {
  std::vector<Definition> found;
  if (name.name.empty() || buckets_.empty()) return found;
  if (!bloom_.empty())
    find_by_gnu_table(name, found);
  else
    find_by_sysv_table(name, found);
  return found;
}

void Exports::find_by_gnu_table(const HashedName& name, std::vector<Definition>& found) const {
  constexpr uint32_t kBits = 64;
  const uint64_t filter = bloom_[name.gnu / kBits % bloom_.size()];
  if ((filter >> (name.gnu % kBits) & filter >> ((name.gnu >> bloom_shift_) % kBits) & 1) == 0)
    return;
  uint32_t symbol = buckets_[name.gnu % buckets_.size()];
  if (symbol < first_hashed_) return;
  constexpr uint64_t kAtOnce = 16;
  for (size_t seen = 0; seen < kLongestChain; seen += kAtOnce) {
    const Address at = chains_ + uint64_t{symbol - first_hashed_} * sizeof(uint32_t);
    const auto bytes = elf_.read({at, at + kAtOnce * sizeof(uint32_t)});
    for (ByteReader hashes(bytes); hashes.remaining() >= sizeof(uint32_t); ++symbol) {
      const uint32_t hash = hashes.u32();
      if ((hash | 1) == (name.gnu | 1)) add_if_named(symbol, name.name, found);
      if ((hash & 1) != 0) return;
    }
    if (bytes.size() < kAtOnce * sizeof(uint32_t)) return;
  }
}

void Exports::find_by_sysv_table(const HashedName& name, std::vector<Definition>& found) const {
  uint32_t symbol = buckets_[name.sysv % buckets_.size()];
  for (size_t seen = 0; symbol != STN_UNDEF && symbol < chain_.size() && seen < kLongestChain;
       ++seen) {
    add_if_named(symbol, name.name, found);
    symbol = chain_[symbol];
  }
}

void Exports::add_if_named(uint32_t symbol, std::string_view name,
                           std::vector<Definition>& found) const {
  const Address at = symbols_ + uint64_t{symbol} * sizeof(Elf64_Sym);
  const auto bytes = elf_.read({at, at + sizeof(Elf64_Sym)});
  if (bytes.size() != sizeof(Elf64_Sym)) return;
  const auto raw = ByteReader(bytes).read<Elf64_Sym>();
  const auto type = ELF64_ST_TYPE(raw.st_info);
  const bool may_be_function = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
  if (!may_be_function || ELF64_ST_BIND(raw.st_info) == STB_LOCAL || raw.st_shndx == SHN_UNDEF ||
      raw.st_shndx == SHN_ABS || !elf_.in_executable_segment(raw.st_value))
    return;
  const Address text = strings_ + raw.st_name;
  const auto letters = elf_.read({text, text + name.size() + 1});
  if (letters.size() == name.size() + 1 && letters.back() == 0 &&
      std::memcmp(letters.data(), name.data(), name.size()) == 0)
    found.push_back({raw.st_value, type == STT_GNU_IFUNC});
}

}  // namespace pinprick::image
