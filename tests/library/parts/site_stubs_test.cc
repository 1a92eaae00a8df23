#include "library/probes/site_stubs.h"

#include <gtest/gtest.h>

#include <array>
#include <variant>

#include "library/parts/made_sites.h"
#include "runtime/handlers.h"

namespace pinprick::library {
namespace {

constexpr Address kEnter = 0x1234;
constexpr std::array<uint8_t, 5> kMoveAndNop = {0x48, 0x89, 0xe5, 0x90, 0x90};  // mov %rsp,%rbp

std::vector<arch::StubAction> actions_of(const Site& site, const StubFeatures& features) {
  return stub_actions(site, features, {site.address, kMoveAndNop}, kEnter);
}

TEST(StubActions, CountThenRunHandlersThenTimeAndRunPostHandlersAfterTheInstruction) {
  MadeSites made;
  Site& site = made.add(planned_jump(kText));
  site.counter = 16;
  site.metric = arch::Metric{};
  const auto actions =
      actions_of(site, {.counts = true, .before = true, .after = true, .times = true});
  ASSERT_EQ(actions.size(), 4u);
  EXPECT_EQ(std::get<arch::CountHit>(actions[0].what).counter, 16u);
  const auto& before = std::get<arch::CallHandlers>(actions[1].what);
  EXPECT_EQ(before.handlers, reinterpret_cast<uint64_t>(&site.before));
  EXPECT_EQ(std::get<arch::TimeCall>(actions[2].what).enter, kEnter);
  const auto& after = std::get<arch::CallHandlers>(actions[3].what);
  EXPECT_EQ(after.handlers, reinterpret_cast<uint64_t>(&site.after));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(actions[i].offset, 0);
  EXPECT_EQ(actions[3].offset, 3);
}

TEST(StubActions, KeepTheRedZoneWhereThereMayBeOne) {
  MadeSites made;
  Site& site = made.add(planned_jump(kText));
  const auto routine = [&](size_t i) {
    return std::get<arch::CallHandlers>(actions_of(site, {.before = true, .after = true})[i].what)
        .routine;
  };
  EXPECT_EQ(routine(0), reinterpret_cast<Address>(pp_hit));
  EXPECT_EQ(routine(1), reinterpret_cast<Address>(pp_hit_inside));
  site.stack = arch::StackUse::keep_red_zone;
  EXPECT_EQ(routine(0), reinterpret_cast<Address>(pp_hit_inside));
}

TEST(StubActions, MayEnterASlotOnlyIfCallsAreMeasured) {
  MadeSites made;
  Site& site = made.add(planned_jump(kText));
  const auto may = [&](const StubFeatures& features) {
    return std::get<arch::CallHandlers>(actions_of(site, features)[0].what).may_enter_slot;
  };
  EXPECT_FALSE(may({.before = true}));
  EXPECT_TRUE(may({.before = true, .measures = true}));
}

// A batch that failed may have prepared no stub for what is left to do.
TEST(LeadTo, TakesAStubThatDoesMoreIfThereIsNoOther) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  put_in_place(site, *site.jump, {.before = true});
  put_in_place(site, *site.jump, {.counts = true, .before = true});
  site.in_place = nullptr;
  site.jump->in_use = 0;
  EXPECT_TRUE(lead_to(site, *site.jump));
  EXPECT_EQ(site.jump->in_use, 1u);
}

TEST(LeadTo, TakesNoStubThatDoesLess) {
  MadeSites made;
  Site& site = made.add_probed(planned_jump(kText));
  EXPECT_FALSE(lead_to(site, *site.jump));
  put_in_place(site, *site.jump, {.before = true});
  site.in_place = nullptr;
  EXPECT_FALSE(lead_to(site, *site.jump));
}

}  // namespace
}  // namespace pinprick::library
