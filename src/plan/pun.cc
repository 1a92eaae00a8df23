#include "plan/pun.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "arch/jump.h"

namespace pinprick::plan {
namespace {

using arch::kJumpLength;

constexpr unsigned kDistanceSize = 4;
constexpr uint8_t kMostWritten = kMostPrefixes + 1;

// The instruction at the site. Its first `room` bytes may be changed, except for the first `kept`.
struct Candidate {
  arch::Instruction instruction;
  uint8_t kept = 0;
  uint8_t room = 0;
  bool at_start = false;  // of its function

  bool is_followed(uint8_t prefixes) const { return at_start && prefixes == 0; }

  // Numbers of prefixes before the opcode, in the order in which they are tried. At a function's
  // first byte a jump without one comes last, as code generators follow it (with_prefix()).
  std::vector<uint8_t> prefixes() const {
    std::vector<uint8_t> numbers;
    for (uint8_t n = kept; n < std::min<uint8_t>(room, kMostPrefixes + 1); ++n)
      numbers.push_back(n);
    if (at_start && numbers.front() == 0)
      std::rotate(numbers.begin(), numbers.begin() + 1, numbers.end());
    return numbers;
  }
};

// Returns none, one or two.
std::vector<Candidate> candidates_at(const FunctionCode& function, Address site) {
  std::vector<Candidate> candidates;
  const bool is_known = !function.has_tables || site == entry_site(function);
  if (function.is_go || function.is_managed || !is_known || !is_boundary(function, site))
    return candidates;
  const auto instruction = instruction_at(function, site);
  if (!instruction || instruction->end() > function.range.end ||
      why_not_displaceable(function, *instruction))
    return candidates;
  for (Range reserved : function.reserved)
    if (reserved.overlaps({site, instruction->end()})) return candidates;
  const auto add = [&](uint8_t kept, uint64_t most) {
    auto room = static_cast<uint8_t>(std::min<uint64_t>(instruction->length, most));
    while (room > 1 && function.targets->any_in(site + 1, site + room)) --room;
    if (room > kept) candidates.push_back({*instruction, kept, room, site == function.range.begin});
  };
  const uint64_t in_page = align_down(site, kPageSize) + kPageSize - site;
  // A jump after the instruction's own REX prefix, which does not change it, lies only in the next
  // page.
  if (in_page == 1 && arch::is_rex(function.bytes[site - function.range.begin]))
    add(1, 1 + kJumpLength);
  add(0, std::min<uint64_t>(in_page, kMostWritten));
  return candidates;
}

// Returns the possible targets of a jump that ends at `end`. The first `chosen` bytes of its
// distance can be chosen, those up to `known` are the bytes of `value`, and the rest can be chosen
// again.
Candidates candidates(Address end, uint32_t value, unsigned chosen, unsigned known) {
  const auto bytes = [](unsigned n) { return uint64_t{1} << (8 * n); };
  const Address lowest = end - bytes(kDistanceSize) / 2;
  if (chosen == known) return {lowest, bytes(kDistanceSize)};
  const uint64_t distance = value % bytes(known) / bytes(chosen) * bytes(chosen);
  if (known == kDistanceSize)
    return {end + static_cast<uint64_t>(int64_t{static_cast<int32_t>(distance)}), bytes(chosen)};
  return {lowest + distance, bytes(chosen), bytes(known), bytes(kDistanceSize - known)};
}

bool has_breakpoint(std::span<const uint8_t> bytes) {
  return std::find(bytes.begin(), bytes.end(), arch::kBreakpoint) != bytes.end();
}

PlannedPatch patch_of(const Candidate& candidate, Tactic tactic, uint8_t length, Address island,
                      std::span<const uint8_t> original) {
  PlannedPatch planned;
  planned.points = {0};
  planned.island = island;
  planned.patch.tactic = tactic;
  planned.patch.site = candidate.instruction.address;
  planned.patch.at_start = candidate.at_start;
  planned.patch.written = length;
  planned.patch.displaced = candidate.instruction.length;
  planned.patch.original.assign(original.begin(), original.end());
  return planned;
}

std::optional<PlannedPatch> plan_pun_at(const Candidate& candidate, std::span<const uint8_t> text,
                                        const std::function<bool(Range)>& is_free,
                                        const TakeIsland& take) {
  const Address site = candidate.instruction.address;
  for (const uint8_t prefixes : candidate.prefixes()) {
    const auto length = static_cast<uint8_t>(kJumpLength + prefixes);
    const Range touched = {site, site + std::max(candidate.instruction.length, length)};
    if (text.size() < touched.size() || !is_free(touched)) continue;
    const auto original = text.first(touched.size());
    if (has_breakpoint(original.subspan(candidate.room))) continue;
    uint32_t distance;
    std::memcpy(&distance, text.data() + length - kDistanceSize, sizeof distance);
    const unsigned chosen = kDistanceSize - (length - candidate.room);
    auto wanted = candidates(site + length, distance, chosen, kDistanceSize);
    wanted.is_followed = candidate.is_followed(prefixes);
    if (const auto island = take(wanted))
      return patch_of(candidate, Tactic::pun, length, *island, original);
  }
  return std::nullopt;
}

// Takes an address for the first island, and one that it leaves possible for the other jump's.
template <class Others>
std::optional<std::pair<Address, Address>> take_both(
    const Candidates& first, Others&& others, const TakeIsland& take,
    const std::function<void(Address)>& give_back) {
  // All candidates that one first island leaves may have the same offset in their pages, too near
  // the end. Of the first islands that follow, those on the same page, 16 at most, leave offsets
  // next to that one; those on other pages leave any offset.
  constexpr int kAttempts = 64;
  std::optional<std::pair<Address, Address>> both;
  std::vector<Address> in_vain;
  for (int i = 0; i < kAttempts && !both; ++i) {
    const auto one = take(first);
    if (!one) break;
    if (const auto other = take(others(*one)))
      both = std::pair(*one, *other);
    else
      in_vain.push_back(*one);
  }
  for (Address island : in_vain) give_back(island);
  return both;
}

// `original` has the bytes of the instruction.
std::optional<EvictingPun> plan_evicting_pun_at(const Candidate& candidate,
                                                std::span<const uint8_t> original,
                                                const TakeIsland& take,
                                                const std::function<void(Address)>& give_back) {
  const Address next = candidate.instruction.end();
  if (has_breakpoint(original.subspan(candidate.room))) return std::nullopt;
  for (const uint8_t prefixes : candidate.prefixes()) {
    const auto length = static_cast<uint8_t>(kJumpLength + prefixes);
    const Address end = candidate.instruction.address + length;
    if (next >= end) continue;
    // The first bytes of its distance are the instruction's. Then come the opcode of the next jump,
    // and the first bytes of that jump's distance.
    const auto first = static_cast<size_t>(prefixes) + 1;
    const auto before = static_cast<unsigned>(original.size() - first);
    uint32_t value = uint32_t{arch::kJumpOpcode} << (8 * before);
    for (unsigned i = 0; i < before; ++i) value |= uint32_t{original[first + i]} << (8 * i);
    const auto chosen = static_cast<unsigned>(candidate.room - first);
    auto wanted = candidates(end, value, chosen, before + 1);
    wanted.is_followed = candidate.is_followed(prefixes);
    const auto islands = take_both(
        wanted,
        [&](Address island) {
          const uint64_t distance = static_cast<uint32_t>(island - end);
          const auto shared = static_cast<uint32_t>(distance >> (8 * (before + 1)));
          return candidates(next + kJumpLength, shared, 0, kDistanceSize - before - 1);
        },
        take, give_back);
    if (!islands) continue;
    EvictingPun planned;
    planned.pun = patch_of(candidate, Tactic::evict, length, islands->first, original);
    planned.pun.ends_in_next_jump = true;
    planned.island = islands->second;
    return planned;
  }
  return std::nullopt;
}

}  // namespace

std::optional<PlannedPatch> plan_pun(const FunctionCode& function, Address site,
                                     std::span<const uint8_t> text,
                                     const std::function<bool(Range)>& is_free,
                                     const TakeIsland& take) {
  for (const Candidate& candidate : candidates_at(function, site))
    if (auto planned = plan_pun_at(candidate, text, is_free, take)) return planned;
  return std::nullopt;
}

std::optional<EvictingPun> plan_evicting_pun(const FunctionCode& function, Address site,
                                             const std::function<bool(Range)>& is_free,
                                             const TakeIsland& take,
                                             const std::function<void(Address)>& give_back) {
  for (const Candidate& candidate : candidates_at(function, site)) {
    const Range range = {site, candidate.instruction.end()};
    if (!is_free(range)) return std::nullopt;
    const auto original = function.bytes.subspan(site - function.range.begin, range.size());
    if (auto planned = plan_evicting_pun_at(candidate, original, take, give_back)) return planned;
  }
  return std::nullopt;
}

}  // namespace pinprick::plan
