// Hits and calls that are in no count and in no histogram, by cause. Each cause is one entry of one
// list: sums, texts and records follow from it.
//
// Pure; a plain value. Sums and differences do not fail: what another process has written may have
// any number, so a difference is at least 0.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>

namespace pinprick::layout {

enum class Loss : uint8_t {
  missed,          // there was no slot, no block of memory, or no entry for the thread
  unwound,         // an exception or a cancellation ended the call
  abandoned,       // longjmp left the call, as far as that is known
  ended,           // the thread has ended in the call; known once the probes are out
  from_generated,  // generated code made the call, which is not timed then
  repeated,        // the start of a span that had started already
  unmatched,       // the end of a span or gap that had not started
  unread,          // what a pointer leads to, and a hit needs, could not be read
  dropped,         // an event for which there was no room
};

struct LossWords {
  const char* key;   // the field of a record (docs/json.md)
  const char* text;  // in front of their number, for people
};
// By Loss.
inline constexpr std::array<LossWords, 9> kLossWords = {{
    {"missed", "missed"},
    {"unwound", "left by exception"},
    {"abandoned", "left by longjmp"},
    {"ended", "ended with their thread"},
    {"from_generated", "from generated code"},
    {"repeated_starts", "repeated starts"},
    {"unmatched_ends", "ends without a start"},
    {"unread", "unread"},
    {"dropped", "dropped"},
}};
inline constexpr size_t kLosses = kLossWords.size();
static_assert(kLosses == static_cast<size_t>(Loss::dropped) + 1);

class Losses {
 public:
  uint64_t& operator[](Loss loss) { return counts_[static_cast<size_t>(loss)]; }
  uint64_t operator[](Loss loss) const { return counts_[static_cast<size_t>(loss)]; }
  uint64_t total() const { return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}); }

  Losses& operator+=(const Losses& other) {
    std::transform(counts_.begin(), counts_.end(), other.counts_.begin(), counts_.begin(),
                   std::plus<>());
    return *this;
  }
  // Returns what came after `before`.
  Losses since(const Losses& before) const {
    Losses later;
    std::transform(counts_.begin(), counts_.end(), before.counts_.begin(), later.counts_.begin(),
                   [](uint64_t now, uint64_t then) { return now - std::min(now, then); });
    return later;
  }
  friend bool operator==(const Losses&, const Losses&) = default;

  // Calls `f` with the words and the number of each loss.
  template <class F>
  void for_each(F&& f) const {
    for (size_t i = 0; i < kLosses; ++i) f(kLossWords[i], counts_[i]);
  }

 private:
  std::array<uint64_t, kLosses> counts_ = {};
};

}  // namespace pinprick::layout
