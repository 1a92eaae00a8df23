// Arrays in a file of the cache: their length, then their bytes as in memory. For types without
// padding, so that the bytes depend on the value only. Pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include "base/bytes.h"

namespace pinprick::image {

template <class T>
void append(std::vector<uint8_t>& bytes, const T& value) {
  static_assert(std::has_unique_object_representations_v<T>);
  const auto* begin = reinterpret_cast<const uint8_t*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

template <class T>
void append_all(std::vector<uint8_t>& bytes, std::span<const T> values) {
  static_assert(std::has_unique_object_representations_v<T>);
  append(bytes, uint64_t{values.size()});
  const auto* begin = reinterpret_cast<const uint8_t*>(values.data());
  bytes.insert(bytes.end(), begin, begin + values.size_bytes());
}
template <class T>
void append_all(std::vector<uint8_t>& bytes, std::span<T> values) {
  append_all(bytes, std::span<const T>(values));
}

// Returns false if the file ends too early. Allocates no more than there are bytes.
template <class T>
bool read_values(ByteReader& reader, std::vector<T>& values) {
  static_assert(std::has_unique_object_representations_v<T>);
  const uint64_t count = reader.u64();
  if (!reader.ok() || count > reader.remaining() / sizeof(T)) return false;
  values.resize(count);
  const auto bytes = reader.take(count * sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return reader.ok();
}

}  // namespace pinprick::image
