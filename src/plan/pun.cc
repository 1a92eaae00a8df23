#include "plan/pun.h"

#include <algorithm>
#include <cstring>

namespace pinprick::plan {
namespace {

using arch::kJumpLength;

constexpr unsigned kDistanceSize = 4;
constexpr uint8_t kMostWritten = kJumpLength - 1;

// Where jumps of `length` bytes lead of which the first `written` can be chosen, with these bytes
// in their place.
Range candidates(Address site, std::span<const uint8_t> text, uint8_t length, uint8_t written) {
  const unsigned own = kDistanceSize - (length - written);
  uint32_t distance;
  std::memcpy(&distance, text.data() + length - kDistanceSize, sizeof distance);
  distance = static_cast<uint32_t>(uint64_t{distance} >> (8 * own) << (8 * own));
  const Address first =
      site + length + static_cast<uint64_t>(int64_t{static_cast<int32_t>(distance)});
  return {first, first + (uint64_t{1} << (8 * own))};
}

}  // namespace

std::optional<PlannedPatch> plan_pun(const FunctionCode& function, Address site,
                                     std::span<const uint8_t> text,
                                     const std::function<bool(Range)>& is_free,
                                     const std::function<std::optional<Address>(Range)>& take) {
  if (function.is_go || !is_boundary(function, site)) return std::nullopt;
  const auto instruction = instruction_at(function, site);
  if (!instruction || instruction->end() > function.range.end ||
      why_not_displaceable(function, *instruction))
    return std::nullopt;
  const Range displaced = {site, instruction->end()};
  for (Range reserved : function.reserved)
    if (reserved.overlaps(displaced)) return std::nullopt;
  auto room = static_cast<uint8_t>(std::min<uint64_t>(
      {instruction->length, kMostWritten, align_down(site, kPageSize) + kPageSize - site}));
  while (room > 1 && function.targets->any_in(site + 1, site + room)) --room;

  for (uint8_t prefixes = 0; prefixes < room; ++prefixes) {
    const auto length = static_cast<uint8_t>(kJumpLength + prefixes);
    const Range touched = {site, site + std::max(instruction->length, length)};
    if (text.size() < touched.size() || !is_free(touched)) return std::nullopt;
    const auto others = text.first(touched.size()).subspan(room);
    if (std::find(others.begin(), others.end(), arch::kBreakpoint) != others.end())
      return std::nullopt;
    const auto landing = take(candidates(site, text, length, room));
    if (!landing) continue;
    PlannedPatch planned;
    planned.points = {0};
    planned.landing = *landing;
    planned.patch.tactic = Tactic::pun;
    planned.patch.site = site;
    planned.patch.written = length;
    planned.patch.displaced = instruction->length;
    const auto original = text.first(touched.size());
    planned.patch.original.assign(original.begin(), original.end());
    return planned;
  }
  return std::nullopt;
}

}  // namespace pinprick::plan
