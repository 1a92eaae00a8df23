// Runs a fuzzer without libFuzzer.
//
//     fuzz_NAME_smoke                 the seeds, and mutations of them, the same every time
//     fuzz_NAME_smoke FILE...         these inputs, e.g. what made libFuzzer stop
//     fuzz_NAME_smoke --seeds FOLDER  writes the seeds, as a corpus to begin with
#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "fuzzer.h"

namespace {

constexpr int kMutants = 10000;
constexpr std::chrono::seconds kLongest(5);  // on a slow machine, and with sanitizers

using Random = std::mt19937_64;

size_t below(Random& random, size_t limit) {
  return limit == 0 ? 0 : random() % limit;
}

void mutate(Input& input, const Input& other, Random& random) {
  static constexpr uint64_t kInteresting[] = {0,
                                              1,
                                              7,
                                              0x7f,
                                              0x80,
                                              0xff,
                                              0x7fff,
                                              0xffff,
                                              0x7fff'ffff,
                                              0x8000'0000,
                                              0xffff'ffff,
                                              0x7fff'ffff'ffff'ffff,
                                              0x8000'0000'0000'0000,
                                              0xffff'ffff'ffff'f000,
                                              UINT64_MAX};
  const size_t at = below(random, input.size());
  const auto position = input.begin() + static_cast<ptrdiff_t>(at);
  const size_t length = std::min(input.size() - at, size_t{1} << below(random, 8));
  switch (random() % 7) {
    case 0:
      if (!input.empty()) input[at] ^= static_cast<uint8_t>(1u << random() % 8);
      break;
    case 1:
      if (!input.empty()) input[at] = static_cast<uint8_t>(random());
      break;
    case 2: {
      const uint64_t value = kInteresting[below(random, std::size(kInteresting))];
      const size_t size = size_t{1} << below(random, 4);
      if (size <= input.size() - at) std::memcpy(input.data() + at, &value, size);
      break;
    }
    case 3:
      input.erase(position, position + static_cast<ptrdiff_t>(length));
      break;
    case 4: {
      const Input part(position, position + static_cast<ptrdiff_t>(length));
      input.insert(input.begin() + static_cast<ptrdiff_t>(below(random, input.size() + 1)),
                   part.begin(), part.end());
      break;
    }
    case 5:
      if (random() % 8 == 0) input.resize(at);
      break;
    default:
      if (!other.empty()) {
        const size_t from = below(random, other.size());
        const size_t size = std::min({length, other.size() - from, input.size() - at});
        std::copy_n(other.begin() + static_cast<ptrdiff_t>(from), size, position);
      }
  }
}

void run(const Input& input) {
  // Of exactly its size, so that a sanitizer sees reads past the end.
  const std::vector<uint8_t> copy(input.begin(), input.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

int write_seeds(const std::string& folder) {
  size_t number = 0;
  for (const Input& input : seeds()) {
    std::ofstream out(folder + "/seed-" + std::to_string(number++), std::ios::binary);
    out.write(reinterpret_cast<const char*>(input.data()),
              static_cast<std::streamsize>(input.size()));
  }
  return number == 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--seeds") return write_seeds(argv[2]);
  if (argc > 1) {
    for (int i = 1; i < argc; ++i) run(pinprick::fuzz::file(argv[i]));
    return 0;
  }
  const std::vector<Input> all = seeds();
  if (all.empty()) {
    std::fprintf(stderr, "no seeds\n");
    return 1;
  }
  for (const Input& input : all) run(input);
  Random random(20080407);
  const auto begin = std::chrono::steady_clock::now();
  int mutants = 0;
  for (; mutants < kMutants && std::chrono::steady_clock::now() - begin < kLongest; ++mutants) {
    Input input = all[below(random, all.size())];
    for (size_t i = 0, n = 1 + below(random, 6); i < n; ++i)
      mutate(input, all[below(random, all.size())], random);
    run(input);
  }
  std::printf("%zu seeds, %d mutants\n", all.size(), mutants);
  return 0;
}
