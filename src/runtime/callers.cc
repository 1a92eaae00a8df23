#include "runtime/callers.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "layout/runtime_offsets.h"

namespace pinprick::runtime {
namespace {

constexpr uint64_t kUnit = 64 << 10;
constexpr uint64_t kEntries = 1 << 16;
constexpr uint64_t kTableSize = kEntries * sizeof(uint32_t);
constexpr uint64_t kFirst = PP_CALLERS_FIRST;
constexpr uint64_t kAfterFirst = kFirst + kTableSize;
constexpr uint64_t kMapSize = kEntries;
constexpr uint64_t kMost = 16 << 20;
constexpr uint64_t kSpareMaps = 64;
constexpr unsigned kFirstShift = 40, kSecondShift = 24, kByteShift = 8;

static_assert(kFirst == kTableSize);  // the zeros are as long as the longest table

uint64_t low_bits(uint64_t value) {
  return value & (kEntries - 1);
}

// The ranges extended to whole pages and sorted, with those that touch merged.
std::vector<Range> merged(std::span<const Range> ranges) {
  std::vector<Range> all(ranges.begin(), ranges.end());
  std::erase_if(all, [](Range range) { return range.empty(); });
  for (Range& range : all)
    range = {align_down(range.begin, kPageSize), align_up(range.end, kPageSize)};
  std::sort(all.begin(), all.end(), [](Range a, Range b) { return a.begin < b.begin; });
  std::vector<Range> out;
  for (Range range : all) {
    if (!out.empty() && range.begin <= out.back().end)
      out.back().end = std::max(out.back().end, range.end);
    else
      out.push_back(range);
  }
  return out;
}

// The parts of `from` that are not in `without`; both as merged() returns them.
std::vector<Range> difference(std::span<const Range> from, std::span<const Range> without) {
  std::vector<Range> out;
  for (Range range : from) {
    for (Range hole : without) {
      if (hole.end <= range.begin || hole.begin >= range.end) continue;
      if (hole.begin > range.begin) out.push_back({range.begin, hole.begin});
      range.begin = std::min(hole.end, range.end);
    }
    if (!range.empty()) out.push_back(range);
  }
  return out;
}

}  // namespace

uint64_t CallerTable::size_for(std::span<const Range> code) {
  std::set<uint64_t> seconds, maps;
  for (Range range : merged(code))
    for (uint64_t map = range.begin >> kSecondShift; map <= (range.end - 1) >> kSecondShift;
         ++map) {
      maps.insert(map);
      seconds.insert(map >> (kFirstShift - kSecondShift));
    }
  constexpr uint64_t kSpareSeconds = 2;
  return std::min(kMost, kAfterFirst + (seconds.size() + kSpareSeconds) * kTableSize +
                             (maps.size() + kSpareMaps) * kMapSize);
}

// Each entry leads to a table of its own, so there are no more tables than units of 64 KiB, and the
// walk ends.
std::optional<CallerTable> CallerTable::read(Address begin, std::span<const uint8_t> bytes) {
  if (bytes.size() < kAfterFirst || bytes.size() > kMost) return std::nullopt;
  CallerTable table(begin, bytes.size());
  std::set<uint32_t> tables;
  // Calls `each` with the index and the offset of the table to which an entry of `of` leads.
  const auto each_entry = [&](uint64_t of, uint64_t size, const auto& each) {
    for (uint64_t i = 0; i < kEntries; ++i) {
      const uint64_t at = of + i * sizeof(uint32_t);
      uint32_t entry = 0;
      std::memcpy(&entry, bytes.data() + at, sizeof entry);
      if (entry == 0) continue;
      if (entry < kAfterFirst || entry % kUnit != 0 || entry + size > bytes.size() ||
          !tables.insert(entry).second)
        return false;
      table.entries_.emplace(at, entry);
      table.used_ = std::max(table.used_, entry + align_up(size, kUnit) - kAfterFirst);
      if (!each(i, entry)) return false;
    }
    return true;
  };
  std::vector<Range> code;
  const bool is_valid = each_entry(kFirst, kTableSize, [&](uint64_t high, uint64_t second) {
    return each_entry(second, kMapSize, [&](uint64_t middle, uint64_t map) {
      const Address first = high << kFirstShift | middle << kSecondShift;
      constexpr uint64_t kStep = kPageSize >> kByteShift;
      for (uint64_t i = 0; i < kEntries; i += kStep)
        if (bytes[map + i] != 0)
          code.push_back({first + (i << kByteShift), first + ((i + kStep) << kByteShift)});
      return true;
    });
  });
  if (!is_valid) return std::nullopt;
  table.code_ = merged(code);
  // A controller that died may have filled a table to which nothing leads. It is not used again.
  const auto last =
      std::find_if(bytes.rbegin(), bytes.rend(), [](uint8_t byte) { return byte != 0; });
  const auto filled = static_cast<uint64_t>(bytes.rend() - last);
  if (filled > kAfterFirst)
    table.used_ = std::max(table.used_, align_up(filled - kAfterFirst, kUnit));
  return table;
}

uint32_t CallerTable::table_of(uint64_t entry_offset, uint64_t size, std::vector<Piece>& links) {
  const auto known = entries_.find(entry_offset);
  if (known != entries_.end()) return known->second;
  const uint64_t offset = kAfterFirst + used_;
  if (offset + size > size_) return 0;
  used_ += align_up(size, kUnit);
  const auto entry = static_cast<uint32_t>(offset);
  entries_.emplace(entry_offset, entry);
  Piece link = {begin_ + entry_offset, std::vector<uint8_t>(sizeof entry)};
  std::memcpy(link.bytes.data(), &entry, sizeof entry);
  links.push_back(std::move(link));
  return entry;
}

std::vector<Piece> CallerTable::mark(Range code, uint8_t value) {
  std::vector<Piece> pieces;
  constexpr uint64_t kBytesOfMap = uint64_t{1} << kSecondShift;
  while (!code.empty()) {
    const Address end = std::min(code.end, align_down(code.begin, kBytesOfMap) + kBytesOfMap);
    std::vector<Piece> links;
    const uint64_t first = kFirst + low_bits(code.begin >> kFirstShift) * sizeof(uint32_t);
    const uint32_t second = table_of(first, kTableSize, links);
    const uint64_t entry = second + low_bits(code.begin >> kSecondShift) * sizeof(uint32_t);
    const uint32_t map = second == 0 ? 0 : table_of(entry, kMapSize, links);
    if (map != 0)
      pieces.push_back({begin_ + map + low_bits(code.begin >> kByteShift),
                        std::vector<uint8_t>((end - code.begin) >> kByteShift, value)});
    // The entry in the first table comes last.
    std::move(links.rbegin(), links.rend(), std::back_inserter(pieces));
    code.begin = end;
  }
  return pieces;
}

std::vector<Piece> CallerTable::update(std::span<const Range> code) {
  std::vector<Range> wanted = merged(code);
  std::vector<Piece> pieces;
  const auto mark_all = [&](std::span<const Range> ranges, uint8_t value) {
    for (Range range : ranges) {
      auto some = mark(range, value);
      std::move(some.begin(), some.end(), std::back_inserter(pieces));
    }
  };
  mark_all(difference(code_, wanted), 0);
  mark_all(difference(wanted, code_), 1);
  code_ = std::move(wanted);
  return pieces;
}

}  // namespace pinprick::runtime
