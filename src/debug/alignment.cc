#include "debug/alignment.h"

#include <algorithm>

namespace pinprick::debug {
namespace {

std::optional<uint64_t> alignment_within(DebugInfo& info, const Type& type, int depth,
                                         int& budget) {
  constexpr int kMostNested = 16;
  if (--budget < 0 || depth > kMostNested) return std::nullopt;
  if (is_number(type) || type.kind == Type::Kind::floating_point)
    return std::max(type.bytes, type.alignment);
  if (type.kind == Type::Kind::array) {
    const auto element = info.target_of(type);
    return element ? alignment_within(info, *element, depth + 1, budget) : std::nullopt;
  }
  if (type.kind != Type::Kind::structure) return std::nullopt;
  uint64_t largest = std::max(uint64_t{1}, type.alignment);
  for (const Member& one : info.members_of(type)) {
    const auto own = alignment_within(info, one.type, depth + 1, budget);
    if (!own) return std::nullopt;
    largest = std::max(largest, *own);
  }
  return largest;
}

}  // namespace

std::optional<uint64_t> alignment_of(DebugInfo& info, const Type& type) {
  int budget = 1000;  // members
  return alignment_within(info, type, 0, budget);
}

}  // namespace pinprick::debug
