#include "plan/pun.h"

#include <algorithm>
#include <cstring>

#include "arch/x86_64/emit.h"

namespace pinprick::plan {
namespace {

using arch::kJumpLength;

constexpr unsigned kDistanceSize = 4;
constexpr uint8_t kMostWritten = kJumpLength - 1;
constexpr uint64_t kReach = uint64_t{1} << 31;

// The instruction at the site. Of its bytes `room` may be changed, from the first, but for the
// first `kept`.
struct Place {
  arch::Instruction instruction;
  uint8_t kept = 0;
  uint8_t room = 0;
};

// None, one or two.
std::vector<Place> places_at(const FunctionCode& function, Address site) {
  std::vector<Place> places;
  if (function.is_go || !is_boundary(function, site)) return places;
  const auto instruction = instruction_at(function, site);
  if (!instruction || instruction->end() > function.range.end ||
      why_not_displaceable(function, *instruction))
    return places;
  for (Range reserved : function.reserved)
    if (reserved.overlaps({site, instruction->end()})) return places;
  const auto add = [&](uint8_t kept, uint64_t most) {
    auto room = static_cast<uint8_t>(std::min<uint64_t>(instruction->length, most));
    while (room > 1 && function.targets->any_in(site + 1, site + room)) --room;
    if (room > kept) places.push_back({*instruction, kept, room});
  };
  const uint64_t in_page = align_down(site, kPageSize) + kPageSize - site;
  // A jump behind the instruction's own REX prefix, which means nothing to it, lies in the next
  // page alone.
  if (in_page == 1 && arch::is_rex(function.bytes[site - function.range.begin]))
    add(1, 1 + kJumpLength);
  add(0, std::min<uint64_t>(in_page, kMostWritten));
  return places;
}

// Where jumps of `length` bytes lead of which the first `written` can be chosen, with these bytes
// in their place.
Range candidates(Address site, std::span<const uint8_t> text, uint8_t length, uint8_t written) {
  const unsigned own = kDistanceSize - (length - written);
  if (own == kDistanceSize) return {site + length - kReach, site + length + kReach};
  uint32_t distance;
  std::memcpy(&distance, text.data() + length - kDistanceSize, sizeof distance);
  distance = static_cast<uint32_t>(uint64_t{distance} >> (8 * own) << (8 * own));
  const Address first =
      site + length + static_cast<uint64_t>(int64_t{static_cast<int32_t>(distance)});
  return {first, first + (uint64_t{1} << (8 * own))};
}

std::optional<PlannedPatch> plan_pun_at(const Place& place, std::span<const uint8_t> text,
                                        const std::function<bool(Range)>& is_free,
                                        const std::function<std::optional<Address>(Range)>& take) {
  const arch::Instruction& instruction = place.instruction;
  const Address site = instruction.address;
  for (uint8_t prefixes = place.kept; prefixes < place.room; ++prefixes) {
    const auto length = static_cast<uint8_t>(kJumpLength + prefixes);
    const Range touched = {site, site + std::max(instruction.length, length)};
    if (text.size() < touched.size() || !is_free(touched)) return std::nullopt;
    const auto others = text.first(touched.size()).subspan(place.room);
    if (std::find(others.begin(), others.end(), arch::kBreakpoint) != others.end())
      return std::nullopt;
    const auto landing = take(candidates(site, text, length, place.room));
    if (!landing) continue;
    PlannedPatch planned;
    planned.points = {0};
    planned.landing = *landing;
    planned.patch.tactic = Tactic::pun;
    planned.patch.site = site;
    planned.patch.written = length;
    planned.patch.displaced = instruction.length;
    const auto original = text.first(touched.size());
    planned.patch.original.assign(original.begin(), original.end());
    return planned;
  }
  return std::nullopt;
}

}  // namespace

std::optional<PlannedPatch> plan_pun(const FunctionCode& function, Address site,
                                     std::span<const uint8_t> text,
                                     const std::function<bool(Range)>& is_free,
                                     const std::function<std::optional<Address>(Range)>& take) {
  for (const Place& place : places_at(function, site))
    if (auto planned = plan_pun_at(place, text, is_free, take)) return planned;
  return std::nullopt;
}

}  // namespace pinprick::plan
