#include "image/scan/branch_targets.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "image/store/packed.h"

namespace pinprick::image {

BranchTargets::BranchTargets(const std::vector<Range>& text) : facts_(std::make_shared<Facts>()) {
  for (Range range : text) {
    const size_t words = (range.size() + 63) / 64;
    facts_->chunks.push_back({range, std::vector<uint64_t>(words), std::vector<uint64_t>(words)});
  }
}

void BranchTargets::set(std::vector<uint64_t>& bits, uint64_t at) {
  const std::atomic_ref<uint64_t> word(bits[at / 64]);
  const uint64_t bit = uint64_t{1} << (at % 64);
  // Most bits are set already, and a check is cheaper than a write.
  if ((word.load(std::memory_order_relaxed) & bit) == 0)
    word.fetch_or(bit, std::memory_order_relaxed);
}

BranchTargets::Facts& BranchTargets::own() {
  if (facts_.use_count() != 1) facts_ = std::make_shared<Facts>(*facts_);
  return *facts_;
}

void BranchTargets::mark_unresolved_jump(Address function_start) {
  own().unresolved.insert(function_start);
}

void BranchTargets::add(Address address) {
  for (Chunk& chunk : own().chunks)
    if (chunk.range.contains(address)) set(chunk.targets, address - chunk.range.begin);
}

void BranchTargets::add_callee(Address address) {
  add(address);
  for (Chunk& chunk : own().chunks)
    if (chunk.range.contains(address)) set(chunk.callees, address - chunk.range.begin);
}

bool BranchTargets::is_callee(Address address) const {
  return std::any_of(facts_->chunks.begin(), facts_->chunks.end(), [&](const Chunk& chunk) {
    const uint64_t at = address - chunk.range.begin;
    return chunk.range.contains(address) && (chunk.callees[at / 64] >> (at % 64) & 1) != 0;
  });
}

bool BranchTargets::any_in(Address begin, Address end) const {
  for (const Chunk& chunk : facts_->chunks) {
    const Address first = std::max(begin, chunk.range.begin);
    const Address last = std::min(end, chunk.range.end);
    for (Address a = first; a < last; ++a) {
      const uint64_t at = a - chunk.range.begin;
      if (chunk.targets[at / 64] >> (at % 64) & 1) return true;
    }
  }
  if (more_.empty()) return false;
  const auto first = std::lower_bound(more_.begin(), more_.end(), begin);
  return first != more_.end() && *first < end;
}

void BranchTargets::mark_unresolved_jump_if_entered(Address function_start, Range inside) {
  if (any_in(inside.begin, inside.end)) return mark_unresolved_jump(function_start);
  own().straight.push_back({function_start, inside});
}

bool BranchTargets::covers(Address address) const {
  return std::any_of(facts_->chunks.begin(), facts_->chunks.end(),
                     [&](const Chunk& chunk) { return chunk.range.contains(address); });
}

BranchTargets BranchTargets::with(std::span<const Address> more) const {
  BranchTargets copy = *this;
  for (Address address : more)
    if (covers(address) && !contains(address)) copy.more_.push_back(address);
  std::sort(copy.more_.begin(), copy.more_.end());
  copy.more_.erase(std::unique(copy.more_.begin(), copy.more_.end()), copy.more_.end());
  for (const StraightCode& straight : facts_->straight)
    if (copy.any_in(straight.inside.begin, straight.inside.end))
      copy.more_unresolved_.insert(straight.function_start);
  return copy;
}

bool operator==(const BranchTargets& a, const BranchTargets& b) {
  return *a.facts_ == *b.facts_ && a.more_ == b.more_ && a.more_unresolved_ == b.more_unresolved_;
}

// Layout: for each range of the text its bits; functions with unresolved control flow, ascending;
// those that may become such.
void BranchTargets::append_to(std::vector<uint8_t>& bytes) const {
  for (const Chunk& chunk : facts_->chunks) {
    append(bytes, chunk.range);
    append_all(bytes, std::span(chunk.targets));
    append_all(bytes, std::span(chunk.callees));
  }
  std::vector<Address> unresolved(facts_->unresolved.begin(), facts_->unresolved.end());
  std::sort(unresolved.begin(), unresolved.end());
  append_all(bytes, std::span<const Address>(unresolved));
  append_all(bytes, std::span<const StraightCode>(facts_->straight));
}

std::optional<BranchTargets> BranchTargets::parse(ByteReader& reader,
                                                  const std::vector<Range>& text) {
  BranchTargets targets({});
  for (Range range : text) {
    Chunk chunk;
    chunk.range = reader.read<Range>();
    const uint64_t words = (range.size() + 63) / 64;
    if (chunk.range != range || !read_values(reader, chunk.targets) ||
        !read_values(reader, chunk.callees) || chunk.targets.size() != words ||
        chunk.callees.size() != words)
      return std::nullopt;
    targets.facts_->chunks.push_back(std::move(chunk));
  }
  std::vector<Address> unresolved;
  if (!read_values(reader, unresolved) || !read_values(reader, targets.facts_->straight))
    return std::nullopt;
  targets.facts_->unresolved.insert(unresolved.begin(), unresolved.end());
  return targets;
}

}  // namespace pinprick::image
