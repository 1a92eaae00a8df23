// Machine code in tests: bytes with the assembly beside them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace pinprick {

using Bytes = std::vector<uint8_t>;

// Instructions one after the other.
inline Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

inline Bytes repeated(uint8_t byte, size_t count) {
  return Bytes(count, byte);
}

// The value's bytes, lowest first, as displacements and immediates are written.
template <class T>
Bytes little_endian(T value) {
  Bytes bytes;
  for (size_t i = 0; i < sizeof value; ++i)
    bytes.push_back(static_cast<uint8_t>(static_cast<uint64_t>(value) >> (8 * i)));
  return bytes;
}

}  // namespace pinprick
