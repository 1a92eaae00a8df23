// Ranges of indices, and optional indices, in 8 and 4 bytes: for tables with millions of elements
// that refer to each other. A vector that they index must have fewer than 2^32 - 1 elements, which
// is asserted.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace pinprick {

// The indices from `first` to `first + count - 1`, in ascending order. It can be iterated over.
struct IndexRange {
  struct Iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = size_t;
    using difference_type = ptrdiff_t;
    using pointer = const size_t*;
    using reference = size_t;

    size_t at = 0;
    size_t operator*() const { return at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    Iterator operator++(int) { return {at++}; }
    bool operator==(const Iterator&) const = default;
  };

  IndexRange() = default;
  IndexRange(size_t begin, size_t size)
      : first(static_cast<uint32_t>(begin)), count(static_cast<uint32_t>(size)) {
    assert(begin + size <= UINT32_MAX);
  }

  uint32_t first = 0;
  uint32_t count = 0;

  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  size_t operator[](size_t i) const { return size_t{first} + i; }
  Iterator begin() const { return {first}; }
  Iterator end() const { return {size_t{first} + count}; }
};
static_assert(sizeof(IndexRange) == 8);

// An index, or none. Takes no more space than an index.
class OptionalIndex {
 public:
  OptionalIndex() = default;
  OptionalIndex(size_t index) : index_(static_cast<uint32_t>(index)) { assert(index < kNone); }

  explicit operator bool() const { return index_ != kNone; }
  size_t operator*() const { return index_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t index_ = kNone;
};
static_assert(sizeof(OptionalIndex) == 4);

}  // namespace pinprick
