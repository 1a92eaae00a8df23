#include "library/api/no_jump.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace pinprick {
namespace {

using plan::Reason;

struct Pair {
  NoJump why;
  Reason reason;
};
constexpr Pair kPairs[] = {
    {NoJump::too_short, Reason::too_short},
    {NoJump::branch_inside, Reason::branch_inside},
    {NoJump::call_inside, Reason::call_inside},
    {NoJump::indirect_jumps, Reason::indirect_jumps},
    {NoJump::undecodable, Reason::undecodable},
    {NoJump::privileged, Reason::privileged},
    {NoJump::inexact, Reason::inexact},
    {NoJump::foreign_breakpoint, Reason::foreign_breakpoint},
    {NoJump::page_edge, Reason::page_edge},
    {NoJump::reserved, Reason::reserved},
    {NoJump::neighbour, Reason::neighbour},
    {NoJump::out_of_reach, Reason::out_of_reach},
};

const Pair* find(NoJump why) {
  const auto* const found = std::find_if(std::begin(kPairs), std::end(kPairs),
                                         [&](const Pair& one) { return one.why == why; });
  return found == std::end(kPairs) ? nullptr : found;
}

}  // namespace

std::string_view name(NoJump why) {
  if (why == NoJump::switched_off) return "switched_off";
  const Pair* const pair = find(why);
  return pair == nullptr ? "none" : plan::name(pair->reason);
}

std::string_view sentence(NoJump why) {
  if (why == NoJump::switched_off) return "jumps are switched off";
  const Pair* const pair = find(why);
  return pair == nullptr ? "" : plan::sentence(pair->reason);
}

}  // namespace pinprick

namespace pinprick::library {

NoJump no_jump_of(plan::Reason reason) {
  const auto* const found = std::find_if(std::begin(kPairs), std::end(kPairs),
                                         [&](const Pair& one) { return one.reason == reason; });
  assert(found != std::end(kPairs));
  return found == std::end(kPairs) ? NoJump::inexact : found->why;
}

}  // namespace pinprick::library
