// Numbers that follow each other, as of things that lie side by side in a vector.
#pragma once

#include <cstddef>

namespace pinprick {

struct IndexRange {
  struct Iterator {
    size_t at = 0;
    size_t operator*() const { return at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };

  size_t first = 0;
  size_t count = 0;

  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  size_t operator[](size_t i) const { return first + i; }
  Iterator begin() const { return {first}; }
  Iterator end() const { return {first + count}; }
};

}  // namespace pinprick
