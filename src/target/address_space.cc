#include "target/address_space.h"

#include <algorithm>
#include <cstdlib>

#include "base/fd.h"

namespace pinprick::target {
namespace {

constexpr Address kHighest = 0x7fff'ffff'f000;
constexpr uint64_t kReach = uint64_t{1} << 31;
// Displacements are relative to the end of an instruction, and operands have a size.
constexpr uint64_t kReachMargin = 2 * kPageSize;
// Left free around our mappings, so that they never merge with or block a neighbour that grows.
constexpr uint64_t kGap = kPageSize;

std::vector<Range> without(const std::vector<Range>& ranges, Range taken) {
  std::vector<Range> rest;
  for (Range range : ranges) {
    if (!range.overlaps(taken)) {
      rest.push_back(range);
      continue;
    }
    if (range.begin < taken.begin) rest.push_back({range.begin, taken.begin});
    if (taken.end < range.end) rest.push_back({taken.end, range.end});
  }
  return rest;
}

}  // namespace

AddressSpace::AddressSpace(const std::vector<image::Mapping>& maps, Address lowest,
                           uint64_t variation)
    : free_(image::free_ranges(maps, lowest, kHighest)), variation_(variation) {}

std::vector<Range> AddressSpace::parts_within(const std::vector<Range>& free, Range within,
                                              uint64_t size) {
  std::vector<Range> parts;
  for (Range range : free) {
    const Address begin = align_up(std::max(range.begin + kGap, within.begin), kPageSize);
    const Address end = std::min(range.end - std::min(range.end, kGap), within.end);
    if (begin < end && end - begin >= size) parts.push_back({begin, end});
  }
  return parts;
}

Address AddressSpace::take_middle(const std::vector<Range>& parts, uint64_t size) {
  const Range largest = *std::max_element(parts.begin(), parts.end(),
                                          [](Range a, Range b) { return a.size() < b.size(); });
  const uint64_t room = largest.size() - size;
  uint64_t offset = room / 2;
  if (variation_ != 0) {
    // A linear congruential generator, so that each call gets another offset.
    variation_ = variation_ * 0x9e37'79b9'7f4a'7c15 + 1;
    offset = room / 4 + (variation_ >> 16) % (room / 2 + 1);
  }
  const Address at = align_down(largest.begin + offset, kPageSize);
  take({at, at + size});
  return at;
}

void AddressSpace::take(Range taken) {
  free_ = without(free_, taken);
}

std::optional<Address> AddressSpace::take_near(Range object, uint64_t size, Range reach) {
  const auto at = take_near(object, size, reach, unwished());
  return at || wishes_.empty() ? at : take_near(object, size, reach, free_);
}

std::optional<Address> AddressSpace::take_near(Range object, uint64_t size, Range reach,
                                               const std::vector<Range>& free) {
  if (size > kReach) return std::nullopt;
  size = align_up(size, kPageSize);
  const Address lowest =
      reach.end > kReach - kReachMargin ? reach.end - (kReach - kReachMargin) : 0;
  const Address highest = reach.begin + kReach - kReachMargin;
  const auto below = parts_within(free, {lowest, std::min(object.begin, highest)}, size);
  if (!below.empty()) return take_middle(below, size);
  const auto above = parts_within(free, {std::max(object.end, lowest), highest}, size);
  if (above.empty()) return std::nullopt;
  const Address at = align_down(above.back().end - size, kPageSize);
  take({at, at + size});
  return at;
}

bool AddressSpace::take_at(Range wanted) {
  const bool is_free =
      std::any_of(free_.begin(), free_.end(), [&](Range range) { return range.contains(wanted); });
  if (is_free) take(wanted);
  return is_free;
}

std::optional<Address> AddressSpace::take_anywhere(uint64_t size) {
  const auto at = take_anywhere(size, unwished());
  return at || wishes_.empty() ? at : take_anywhere(size, free_);
}

std::optional<Address> AddressSpace::take_anywhere(uint64_t size, const std::vector<Range>& free) {
  if (size > kHighest) return std::nullopt;
  size = align_up(size, kPageSize);
  const auto all = parts_within(free, {0, kHighest}, size);
  if (all.empty()) return std::nullopt;
  return take_middle(all, size);
}

std::vector<Range> AddressSpace::unwished() const {
  std::vector<Range> ranges = free_;
  for (Range wish : wishes_) ranges = without(ranges, wish);
  return ranges;
}

Address lowest_mappable_address() {
  static const Address lowest = [] {
    constexpr Address kUsual = 65536;
    auto text = read_file("/proc/sys/vm/mmap_min_addr");
    if (!text) return kUsual;
    return align_up(std::max<Address>(std::strtoull(text->c_str(), nullptr, 10), kPageSize),
                    kPageSize);
  }();
  return lowest;
}

}  // namespace pinprick::target
