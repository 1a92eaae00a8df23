#include "image/elf/go_table.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/bytes.h"
#include "base/task.h"

namespace pinprick::image {
namespace {

constexpr uint64_t kWord = sizeof(uint64_t);
// The header before its first word: the version, two zeros, the size of the smallest instruction,
// and that of a pointer.
constexpr size_t kHead = 8;
constexpr uint32_t kVersion2 = 0xfffffffb, kVersion16 = 0xfffffffa, kVersion18 = 0xfffffff0,
                   kVersion20 = 0xfffffff1;
// No function's name is longer.
constexpr size_t kLongestGoName = 16384;
// No segment of a real program with such a table is larger.
constexpr uint64_t kLargestSegment = uint64_t{1} << 30;

uint32_t table_version(std::span<const uint8_t> bytes) {
  ByteReader reader(bytes);
  const uint32_t version = reader.u32();
  const bool is_known = version == kVersion2 || version == kVersion16 || version == kVersion18 ||
                        version == kVersion20;
  const uint16_t zeros = reader.u16();
  const uint8_t smallest_instruction = reader.u8(), pointer = reader.u8();
  return reader.ok() && is_known && zeros == 0 && smallest_instruction == 1 && pointer == kWord
             ? version
             : 0;
}

// Where the parts of the table are, from its start.
struct Parts {
  uint64_t count = 0;      // of functions
  uint64_t text_word = 0;  // the offset of the word with the start of the text; 0: none
  uint64_t names = 0;
  uint64_t end_of_names = 0;
  uint64_t functions = 0;
  uint64_t details = 0;        // what the functions' offsets count from
  bool has_distances = false;  // 32-bit ones, not addresses
};

std::optional<Parts> parts_of(std::span<const uint8_t> table) {
  const uint32_t version = table_version(table);
  if (version == 0) return std::nullopt;
  ByteReader reader(table, kHead);
  Parts parts;
  parts.count = reader.u64();
  if (version == kVersion2) {
    parts.end_of_names = table.size();
    parts.functions = kHead + kWord;
  } else {
    reader.u64();  // number of source files
    parts.has_distances = version != kVersion16;
    if (parts.has_distances) {
      parts.text_word = reader.position();
      reader.u64();
    }
    parts.names = reader.u64();
    parts.end_of_names = reader.u64();
    reader.u64();  // names of source files
    reader.u64();  // line numbers
    parts.functions = parts.details = reader.u64();
  }
  const uint64_t entry = parts.has_distances ? kWord : 2 * kWord;
  if (!reader.ok() || parts.count == 0 || parts.names > parts.end_of_names ||
      parts.end_of_names > table.size() || parts.functions > table.size() ||
      parts.count >= (table.size() - parts.functions) / entry)
    return std::nullopt;
  return parts;
}

// What a file's words are once it has been loaded.
class LoadedWords {
 public:
  explicit LoadedWords(const ElfFile& object) : object_(object) {
    for (const Relocation& one : object.relocations())
      if (one.kind == Relocation::Kind::relative)
        relocated_.emplace_back(one.address, static_cast<Address>(one.addend));
    std::sort(relocated_.begin(), relocated_.end());
  }

  std::optional<uint64_t> at(Address address) const {
    const auto found =
        std::lower_bound(relocated_.begin(), relocated_.end(), std::pair(address, Address{0}));
    if (found != relocated_.end() && found->first == address) return found->second;
    const auto bytes = object_.read({address, address + kWord});
    uint64_t word = 0;
    if (bytes.size() != kWord) return std::nullopt;
    std::memcpy(&word, bytes.data(), kWord);
    return word;
  }

  // Returns where words may have this value, as the loader or the file sets them.
  std::vector<Address> with_value(uint64_t value) const {
    std::vector<Address> found;
    for (const auto& [address, word] : relocated_)
      if (word == value) found.push_back(address);
    for (const Segment& segment : object_.segments()) {
      if (segment.executable || segment.file_size > kLargestSegment) continue;
      const auto bytes = object_.read(segment.range);
      for (size_t at = -segment.range.begin % kWord; at + kWord <= bytes.size(); at += kWord)
        if (std::memcmp(bytes.data() + at, &value, kWord) == 0)
          found.push_back(segment.range.begin + at);
    }
    return found;
  }

 private:
  const ElfFile& object_;
  std::vector<std::pair<Address, Address>> relocated_;  // by address
};

// Returns the start of the text from the runtime's moduledata, which begins with the address of the
// table and slices of its parts.
std::optional<Address> text_by_moduledata(const LoadedWords& words, const GoTableBytes& table,
                                          const Parts& parts) {
  constexpr uint64_t kSlice = 3 * kWord, kNames = kWord, kFunctions = kNames + 5 * kSlice,
                     kText = kFunctions + kSlice + 3 * kWord;
  for (const Address module : words.with_value(table.address))
    if (words.at(module + kNames) == table.address + parts.names &&
        words.at(module + kFunctions) == table.address + parts.functions)
      return words.at(module + kText);
  return std::nullopt;
}

std::string_view text_at(std::span<const uint8_t> names, uint64_t offset) {
  if (offset >= names.size()) return {};
  const auto rest = names.subspan(offset).first(std::min(kLongestGoName, names.size() - offset));
  const void* const end = std::memchr(rest.data(), 0, rest.size());
  if (end == nullptr) return {};
  return {reinterpret_cast<const char*>(rest.data()),
          static_cast<size_t>(static_cast<const uint8_t*>(end) - rest.data())};
}

}  // namespace

std::optional<GoTableBytes> find_go_table(const ElfFile& object) {
  if (object.has_section_headers()) {
    const auto section = object.go_table();
    if (table_version(section.bytes) == 0) return std::nullopt;
    return GoTableBytes{section.address, {section.bytes.begin(), section.bytes.end()}};
  }
  for (const Segment& segment : object.segments()) {
    if (segment.executable || segment.file_size > kLargestSegment) continue;
    auto bytes = object.read(segment.range);
    // All but the first byte, which differs between the versions.
    constexpr std::array<uint8_t, kHead - 1> kRest = {0xff, 0xff, 0xff, 0, 0, 1, kWord};
    for (size_t from = 1; from < bytes.size();) {
      const void* const found =
          ::memmem(bytes.data() + from, bytes.size() - from, kRest.data(), kRest.size());
      if (found == nullptr) break;
      const auto at = static_cast<uint64_t>(static_cast<const uint8_t*>(found) - bytes.data()) - 1;
      if ((segment.range.begin + at) % kWord == 0 && parts_of(std::span(bytes).subspan(at))) {
        bytes.erase(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(at));
        return GoTableBytes{segment.range.begin + at, std::move(bytes)};
      }
      from = at + 2;
    }
  }
  return std::nullopt;
}

std::vector<Symbol> parse_go_table(const GoTableBytes& table, const GoWord& word,
                                   const std::function<std::optional<Address>()>& text) {
  const std::span<const uint8_t> bytes = table.bytes;
  const auto parts = parts_of(bytes);
  if (!parts) return {};
  std::optional<Address> start = 0;
  if (parts->text_word != 0) {
    start = word(table.address + parts->text_word);
    if (!start || *start == 0) start = text();
    if (!start) return {};
  }
  const auto names = bytes.first(parts->end_of_names).subspan(parts->names);
  // An entry has two fields: the function's start, and the offset of its details.
  const uint64_t field = parts->has_distances ? sizeof(uint32_t) : kWord;
  const auto address_of = [&](uint64_t index) -> std::optional<Address> {
    const uint64_t at = parts->functions + index * 2 * field;
    if (!parts->has_distances) return word(table.address + at);
    return *start + ByteReader(bytes, at).u32();
  };
  std::vector<Symbol> symbols;
  symbols.reserve(parts->count);
  size_t size_of_names = 0;
  auto next = address_of(0);
  for (uint64_t i = 0; i < parts->count; ++i) {
    check_cancelled();
    const auto begin = next;
    next = address_of(i + 1);
    if (!begin || !next || *next < *begin) return {};
    ByteReader entry(bytes, parts->functions + i * 2 * field + field);
    const uint64_t details = parts->has_distances ? entry.u32() : entry.u64();
    if (details > bytes.size() - parts->details) return {};
    ByteReader reader(bytes, parts->details + details);
    reader.skip(field);  // its start once more
    const auto name = text_at(names, reader.u32());
    if (!reader.ok() || name.empty()) continue;
    // Real functions share few names.
    size_of_names += name.size();
    if (size_of_names > 2 * bytes.size()) return {};
    symbols.push_back({*begin, *next - *begin, name, Symbol::Kind::function, true});
  }
  return symbols;
}

GoFunctions::GoFunctions(const ElfFile& object) {
  if (!object.is_go() || !(table_ = find_go_table(object))) return;
  const LoadedWords words(object);
  symbols_ = parse_go_table(
      *table_, [&](Address address) { return words.at(address); },
      [&]() -> std::optional<Address> {
        const auto parts = parts_of(table_->bytes);
        return parts ? text_by_moduledata(words, *table_, *parts) : std::nullopt;
      });
}

}  // namespace pinprick::image
