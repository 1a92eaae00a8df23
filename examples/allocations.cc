// Which sizes does this program allocate? Puts a handler on malloc while the program sorts some
// words.
#include <pinprick/probe.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <string>
#include <vector>

namespace {

std::array<unsigned long, 65> by_log2;

// It uses no vector registers, and is declared so: a hit costs a few nanoseconds.
PINPRICK_INTEGER_ONLY void note_size(size_t size) noexcept {
  __atomic_fetch_add(&by_log2[static_cast<size_t>(std::bit_width(size))], 1, __ATOMIC_RELAXED);
}

void work() {
  std::vector<std::string> words;
  for (int i = 0; i < 1000; ++i) words.push_back(std::string(static_cast<size_t>(i) % 100, 'x'));
  std::sort(words.begin(), words.end());
}

}  // namespace

int main() {
  {
    const auto probe = pinprick::Probe::place(
        {.where = "libc:malloc", .pre = pinprick::integer_call<&note_size>()});
    if (!probe) {
      std::fprintf(stderr, "%s\n", probe.error().message().c_str());
      return 1;
    }
    work();
  }
  for (size_t i = 0; i < by_log2.size(); ++i)
    if (by_log2[i] != 0) std::printf("below 2^%-2zu %8lu\n", i, by_log2[i]);
}
