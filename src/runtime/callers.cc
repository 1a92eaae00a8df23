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
