// Addresses of a target. They are numbers, not pointers, so that they cannot be dereferenced here.
#pragma once

#include <compare>
#include <cstdint>

namespace pinprick {

using Address = uint64_t;

inline constexpr uint64_t kPageSize = 4096;

constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr uint64_t align_down(uint64_t value, uint64_t alignment) {
  return value & ~(alignment - 1);
}

// [begin, end). Empty when begin == end.
struct Range {
  Address begin = 0;
  Address end = 0;

  constexpr uint64_t size() const { return end - begin; }
  constexpr bool empty() const { return begin >= end; }
  constexpr bool contains(Address a) const { return begin <= a && a < end; }
  constexpr bool contains(Range r) const { return begin <= r.begin && r.end <= end; }
  constexpr bool overlaps(Range r) const { return begin < r.end && r.begin < end; }
  friend constexpr bool operator==(Range, Range) = default;
  friend constexpr auto operator<=>(Range, Range) = default;
};

}  // namespace pinprick
