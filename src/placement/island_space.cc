#include "placement/island_space.h"

#include <algorithm>

namespace pinprick::placement {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr Address kLowest = kMiB;  // vm.mmap_min_addr is not higher
constexpr Address kHighest = 0x7fff'ffff'f000;
constexpr uint64_t kGap = 16 * kPageSize;  // to any mapping
constexpr uint64_t kHeapGrows = 256 * kMiB;
constexpr uint64_t kStackGrows = 128 * kMiB;  // the kernel keeps as much free of mappings
// Where a position-independent file that is not running might be loaded, and the space around it
// that may be used.
constexpr Address kFileLiesAt = 0x7f00'0000'0000;
constexpr uint64_t kNeighbours = 16 * kMiB;

// The last offset of an island in a page.
constexpr uint64_t kLastOffset = kPageSize - kIslandMarkSize - plan::kIslandSize;

// Calls `f` for the part of each candidate range that lies within `part`, until it finds something,
// and returns that.
template <class F>
std::optional<Address> first_of(const plan::Candidates& wanted, uint64_t bias, Range part, F&& f) {
  // Signed, as candidates may lie below 0.
  const auto first = static_cast<int64_t>(wanted.first + bias);
  const auto width = static_cast<int64_t>(wanted.width);
  const auto step = static_cast<int64_t>(wanted.step);
  const auto begin = static_cast<int64_t>(part.begin);
  const auto end = static_cast<int64_t>(part.end);
  const int64_t gap = begin - first - width;  // from the end of the first range to the part
  for (int64_t i = gap < 0 ? 0 : gap / step + 1; i < static_cast<int64_t>(wanted.count); ++i) {
    const int64_t at = first + i * step;
    if (at >= end) break;
    const Range both = {static_cast<Address>(std::max(at, begin)),
                        static_cast<Address>(std::min(at + width, end))};
    if (const auto found = f(both)) return found;
  }
  return std::nullopt;
}

}  // namespace

IslandSpace IslandSpace::around(const image::ProcessImage& image) {
  if (image.objects.empty()) return {};
  image::Object& first = *image.objects.front();
  IslandSpace space;
  if (image.maps.empty()) {
    const bool moves = first.elf().position_independent();
    if (moves) space.file_bias_ = kFileLiesAt;
    const Range file = {first.extent().begin + space.file_bias_,
                        first.extent().end + space.file_bias_};
    const uint64_t below = std::min(file.begin, moves ? kNeighbours : kGap);
    space.free_ = {{kLowest, std::max(kLowest, file.begin - below)},
                   {file.end + (moves ? kNeighbours : kHeapGrows), kHighest}};
    return space;
  }
  space.kept_ = image.kept_stubs;
  // The heap grows from its end, or from the program's end as long as there is none.
  Address heap = first.extent().end;
  Address stack = kHighest;
  for (const image::Mapping& mapping : image.maps) {
    if (mapping.path == "[heap]") heap = mapping.range.end;
    if (mapping.path == "[stack]") stack = mapping.range.begin;
  }
  for (Range range : image::free_ranges(image.maps, kLowest, kHighest)) {
    range = {range.begin + kGap, range.end - std::min(range.end, kGap)};
    if (range.begin < heap + kHeapGrows && range.end > heap)
      range.begin = std::max(range.begin, heap + kHeapGrows);
    if (range.begin < stack && range.end + kStackGrows > stack)
      range.end = std::min(range.end, stack - kStackGrows);
    if (!range.empty()) space.free_.push_back(range);
  }
  return space;
}

std::optional<Address> IslandSpace::take(const plan::Candidates& wanted, uint64_t bias) {
  bias += file_bias_;
  for (const Choice choice : {Choice::best, Choice::any}) {
    auto at = take_on_used_page(wanted, bias, choice);
    if (!at) at = take_on_free_page(wanted, bias, choice);
    if (at) return *at - bias;
  }
  return std::nullopt;
}

std::optional<Address> IslandSpace::take_on_used_page(const plan::Candidates& wanted, uint64_t bias,
                                                      Choice choice) {
  for (auto& [begin, on_page] : used_) {
    if (choice == Choice::best && on_page.may_stay != wanted.is_followed) continue;
    std::vector<Address>& taken = on_page.islands;
    const Range page = {begin + first_offset(wanted, choice), begin + kLastOffset + 1};
    const auto at = first_of(wanted, bias, page, [&](Range range) -> std::optional<Address> {
      for (Address free = range.begin; free < range.end;) {
        const auto there = std::find_if(taken.begin(), taken.end(), [&](Address other) {
          return other < free + plan::kIslandSize && free < other + plan::kIslandSize;
        });
        if (there == taken.end()) return free;
        free = *there + plan::kIslandSize;
      }
      return std::nullopt;
    });
    if (!at) continue;
    taken.push_back(*at);
    on_page.may_stay |= wanted.is_followed;
    return at;
  }
  return std::nullopt;
}

std::optional<Address> IslandSpace::take_on_free_page(const plan::Candidates& wanted, uint64_t bias,
                                                      Choice choice) {
  if (used_.size() >= kMostPages) return std::nullopt;
  for (const Range free : free_) {
    const auto at = first_of(wanted, bias, free, [&](Range range) -> std::optional<Address> {
      for (Address page = align_down(range.begin, kPageSize); page < range.end; page += kPageSize) {
        const Address first = std::max(page + first_offset(wanted, choice), range.begin);
        if (first < range.end && first <= page + kLastOffset && !used_.contains(page)) return first;
      }
      return std::nullopt;
    });
    if (!at) continue;
    used_[align_down(*at, kPageSize)] = {{*at}, wanted.is_followed};
    return at;
  }
  return std::nullopt;
}

uint64_t IslandSpace::first_offset(const plan::Candidates& wanted, Choice choice) {
  return choice == Choice::best && wanted.is_followed ? kKeptMarkSize : 0;
}

std::optional<Address> IslandSpace::take(const plan::Candidates& wanted, uint64_t bias,
                                         Address site) {
  const auto kept = wanted.is_followed ? kept_.find(site + bias) : kept_.end();
  if (kept != kept_.end() && wanted.contains(kept->second - bias)) {
    const Address stub = kept->second - bias;
    kept_.erase(kept);
    return stub;
  }
  return take(wanted, bias);
}

void IslandSpace::give_back(Address island, uint64_t bias) {
  const auto page = used_.find(align_down(island + bias + file_bias_, kPageSize));
  if (page == used_.end()) return;  // a kept stub
  std::erase(page->second.islands, island + bias + file_bias_);
  if (page->second.islands.empty()) used_.erase(page);
}

}  // namespace pinprick::placement
