#include "image/branch_targets.h"

#include <algorithm>
#include <atomic>

namespace pinprick::image {

BranchTargets::BranchTargets(const std::vector<Range>& text) {
  for (Range range : text) {
    const size_t words = (range.size() + 63) / 64;
    chunks_.push_back({range, std::vector<uint64_t>(words), std::vector<uint64_t>(words)});
  }
}

void BranchTargets::set(std::vector<uint64_t>& bits, uint64_t at) {
  const std::atomic_ref<uint64_t> word(bits[at / 64]);
  const uint64_t bit = uint64_t{1} << (at % 64);
  // Most are there already, and to look is cheaper than to write.
  if ((word.load(std::memory_order_relaxed) & bit) == 0)
    word.fetch_or(bit, std::memory_order_relaxed);
}

void BranchTargets::add(Address address) {
  for (Chunk& chunk : chunks_)
    if (chunk.range.contains(address)) set(chunk.targets, address - chunk.range.begin);
}

void BranchTargets::add_callee(Address address) {
  add(address);
  for (Chunk& chunk : chunks_)
    if (chunk.range.contains(address)) set(chunk.callees, address - chunk.range.begin);
}

bool BranchTargets::is_callee(Address address) const {
  return std::any_of(chunks_.begin(), chunks_.end(), [&](const Chunk& chunk) {
    const uint64_t at = address - chunk.range.begin;
    return chunk.range.contains(address) && (chunk.callees[at / 64] >> (at % 64) & 1) != 0;
  });
}

bool BranchTargets::any_in(Address begin, Address end) const {
  for (const Chunk& chunk : chunks_) {
    const Address first = std::max(begin, chunk.range.begin);
    const Address last = std::min(end, chunk.range.end);
    for (Address a = first; a < last; ++a) {
      const uint64_t at = a - chunk.range.begin;
      if (chunk.targets[at / 64] >> (at % 64) & 1) return true;
    }
  }
  return false;
}

}  // namespace pinprick::image
