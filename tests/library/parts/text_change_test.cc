#include "library/probes/text_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "arch/code.h"
#include "library/api/error.h"
#include "library/parts/made_sites.h"

namespace pinprick::library {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

TEST(Pieces, AreInOrderAndNoneIsTooLarge) {
  MadeSites made;
  Site& site = made.add(planned_jump(kText));
  std::vector<TextChange> changes(2 * kMostInPiece + 1, {&site, nullptr, {}});
  for (size_t i = 0; i < changes.size(); ++i) changes[i].edit.site = i;
  std::vector<size_t> sizes, starts;
  EXPECT_TRUE(in_pieces(changes, [&](std::span<const TextChange> piece) -> Result<void, Error> {
    sizes.push_back(piece.size());
    starts.push_back(piece.front().edit.site);
    return {};
  }));
  EXPECT_THAT(sizes, ElementsAre(kMostInPiece, kMostInPiece, 1));
  EXPECT_THAT(starts, ElementsAre(0, kMostInPiece, 2 * kMostInPiece));
}

TEST(Pieces, EndWithTheFirstThatFails) {
  MadeSites made;
  Site& site = made.add(planned_jump(kText));
  const std::vector<TextChange> changes(3 * kMostInPiece, {&site, nullptr, {}});
  int calls = 0;
  const auto done = in_pieces(changes, [&](auto) -> Result<void, Error> {
    if (++calls == 2) return fail(error_of(Cause::signal_blocked, {}));
    return {};
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().cause, Cause::signal_blocked);
  EXPECT_EQ(calls, 2);
}

TEST(TextChange, PlacesAJumpToTheStubInUseOverTheOriginalBytes) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  put_in_place(site, *site.jump, {.counts = true});
  const TextChange change = placement(site, *site.jump, 0);
  const Address stub = site.jump->stubs.front().stub.begin;
  EXPECT_EQ(change.to, &*site.jump);
  EXPECT_EQ(change.edit.site, kText);
  EXPECT_EQ(change.edit.length, arch::kJumpLength);
  EXPECT_THAT(change.edit.jump, ElementsAreArray(*arch::encode_jump(kText, stub)));
  EXPECT_THAT(change.edit.original, ElementsAre(0x50, 0x51, 0x52, 0x53, 0x54));
  EXPECT_THAT(change.edit.boundaries, ElementsAre(1, 2, 3, 4));
}

TEST(TextChange, RemovesTheEncodingInPlaceAndLeavesABreakpointIfWanted) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  put_in_place(site, *site.jump, {.counts = true});
  const TextChange to_own_text = removal(site, nullptr);
  EXPECT_EQ(to_own_text.to, nullptr);
  EXPECT_FALSE(to_own_text.edit.to_breakpoint);
  const TextChange to_breakpoint = removal(site, &site.breakpoint);
  EXPECT_EQ(to_breakpoint.to, &site.breakpoint);
  EXPECT_TRUE(to_breakpoint.edit.to_breakpoint);
  EXPECT_EQ(to_breakpoint.edit.length, arch::kJumpLength);  // of what is in place
}

TEST(TextChange, OfABreakpointIsOneByte) {
  MadeSites made;
  Site& site = made.add_probed(planned_breakpoint(kText));
  const TextChange change = placement(site, site.breakpoint, 0);
  EXPECT_EQ(change.edit.length, 1);
  EXPECT_EQ(change.edit.jump[0], arch::kBreakpoint);
  EXPECT_EQ(change.edit.original[0], 0x50);
}

// Nothing is mapped at the site, so nothing can be written there.
TEST(TextChange, ThatFailedLeavesTheFormerStubInUse) {
  MadeSites made;
  SitePlan planned = planned_jump(kText);
  planned.jump->boundaries.clear();
  Site& site = made.add_probed(std::move(planned));
  put_in_place(site, *site.jump, {.counts = true});
  put_in_place(site, *site.jump, {.counts = true, .before = true});
  ASSERT_EQ(site.jump->in_use, 1u);
  const TextChange changes[] = {placement(site, *site.jump, 0)};
  const auto self = target::SelfTarget::open();
  ASSERT_TRUE(self.ok());
  EXPECT_FALSE(put_in(*self, changes));
  EXPECT_EQ(site.jump->in_use, 0u);
}

}  // namespace
}  // namespace pinprick::library
