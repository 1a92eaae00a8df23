// What a fuzzer is: one function that takes any bytes, and inputs to begin with.
//
// Each FUZZER.cc here is built twice: with libFuzzer (option PINPRICK_FUZZ, scripts/fuzz), which
// looks for inputs that reach new code, and with smoke.cc, which mutates the same seeds in a fixed
// way within seconds and needs no clang. A property that does not hold ends the process by CHECK.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using Input = std::vector<uint8_t>;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Valid inputs: files of this machine, or made by hand.
std::vector<Input> seeds();

namespace pinprick::fuzz {

#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

inline Input file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline Input text(std::string_view characters) {
  return {characters.begin(), characters.end()};
}

// Takes numbers from the front of an input; zeros when it is used up.
class Numbers {
 public:
  explicit Numbers(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  template <class T>
  T take() {
    T value = 0;
    for (size_t i = 0; i < sizeof value && !bytes_.empty(); ++i) {
      value = static_cast<T>(value | static_cast<T>(static_cast<T>(bytes_[0]) << (8 * i)));
      bytes_ = bytes_.subspan(1);
    }
    return value;
  }
  std::span<const uint8_t> rest() const { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
};

}  // namespace pinprick::fuzz
