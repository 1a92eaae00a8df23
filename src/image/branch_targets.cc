#include "image/branch_targets.h"

#include <algorithm>
#include <atomic>

namespace pinprick::image {

BranchTargets::BranchTargets(std::vector<Range> text) {
  for (Range range : text)
    chunks_.push_back({range, std::vector<uint64_t>((range.size() + 63) / 64)});
}

void BranchTargets::add(Address address) {
  for (Chunk& chunk : chunks_) {
    if (!chunk.range.contains(address)) continue;
    const uint64_t at = address - chunk.range.begin;
    const std::atomic_ref<uint64_t> word(chunk.bits[at / 64]);
    const uint64_t bit = uint64_t{1} << (at % 64);
    // Most are there already, and to look is cheaper than to write.
    if ((word.load(std::memory_order_relaxed) & bit) == 0)
      word.fetch_or(bit, std::memory_order_relaxed);
  }
}

bool BranchTargets::any_in(Address begin, Address end) const {
  for (const Chunk& chunk : chunks_) {
    const Address first = std::max(begin, chunk.range.begin);
    const Address last = std::min(end, chunk.range.end);
    for (Address a = first; a < last; ++a) {
      const uint64_t at = a - chunk.range.begin;
      if (chunk.bits[at / 64] >> (at % 64) & 1) return true;
    }
  }
  return false;
}

}  // namespace pinprick::image
