#include "probe/landing_space.h"

#include <algorithm>

#include "plan/pun.h"

namespace pinprick::probe {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr Address kLowest = kMiB;  // vm.mmap_min_addr is no more
constexpr Address kHighest = 0x7fff'ffff'f000;
constexpr uint64_t kGap = 16 * kPageSize;  // to anything
constexpr uint64_t kHeapGrows = 256 * kMiB;
constexpr uint64_t kStackGrows = 128 * kMiB;  // the kernel keeps as much free of mappings
// A file that is not running, if it is position-independent, and what may lie around it.
constexpr Address kFileLiesAt = 0x7f00'0000'0000;
constexpr uint64_t kNeighbours = 16 * kMiB;

// The last offset in a page.
constexpr uint64_t kLastOffset = kPageSize - kLandingMarkSize - plan::kLandingSize;

}  // namespace

LandingSpace LandingSpace::around(const image::ProcessImage& image) {
  if (image.objects.empty()) return {};
  image::Object& first = *image.objects.front();
  LandingSpace space;
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
  // The heap grows from where it ends, or from behind the program as long as there is none.
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

std::optional<Address> LandingSpace::take(Range wanted, uint64_t bias) {
  bias += file_bias_;
  const Range range = {wanted.begin + bias, wanted.end + bias};
  if (range.begin >= range.end || range.end > kHighest) return std::nullopt;
  // Into a page that is there already.
  for (auto page = used_.lower_bound(align_down(range.begin, kPageSize));
       page != used_.end() && page->first < range.end; ++page) {
    auto& [begin, taken] = *page;
    for (Address at = std::max(begin, range.begin); at < range.end && at <= begin + kLastOffset;) {
      const auto there = std::find_if(taken.begin(), taken.end(), [&](Address other) {
        return other < at + plan::kLandingSize && at < other + plan::kLandingSize;
      });
      if (there == taken.end()) {
        taken.push_back(at);
        return at - bias;
      }
      at = *there + plan::kLandingSize;
    }
  }
  if (used_.size() >= kMostPages) return std::nullopt;
  for (const Range free : free_) {
    const Range both = {std::max(free.begin, range.begin), std::min(free.end, range.end)};
    if (both.empty()) continue;
    for (Address page = align_down(both.begin, kPageSize); page < both.end; page += kPageSize) {
      const Address at = std::max(page, both.begin);
      if (at > page + kLastOffset || used_.contains(page)) continue;
      used_[page] = {at};
      return at - bias;
    }
  }
  return std::nullopt;
}

}  // namespace pinprick::probe
