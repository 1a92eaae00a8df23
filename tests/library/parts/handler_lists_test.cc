#include "library/probes/handler_lists.h"

#include <gtest/gtest.h>

#include "library/parts/made_sites.h"

namespace pinprick::library {
namespace {

constexpr Modes kUsual;
constexpr Modes kDisarmed = {.armed = false};

bool does_nothing(Registers&, void*, void*) noexcept {
  return true;
}

// Retires the published lists at the end, as they are not freed otherwise.
class HandlerLists : public testing::Test {
 protected:
  ~HandlerLists() override { publish(site, kDisarmed, retired); }
  detail::ProbeState& add(void* closure, bool integer_only) {
    auto& probe = made.attach<detail::ProbeState>(site);
    probe.pre = Handler(&does_nothing, closure, integer_only);
    return probe;
  }
  const runtime::HandlerList* before() const { return site.before.handlers.load(); }

  MadeSites made;
  Site& site = made.add(planned_jump(kText));
  Retired retired;
};

TEST_F(HandlerLists, HoldTheEnabledHandlersInTheOrderInWhichTheyAreAttached) {
  int first = 0, second = 0, third = 0;
  add(&first, true);
  add(&second, true).enabled = false;
  add(&third, false);
  publish(site, kUsual, retired);
  ASSERT_NE(before(), nullptr);
  ASSERT_EQ(before()->count, 2u);
  EXPECT_EQ(before()->entries[0].handler.closure, &first);
  EXPECT_EQ(before()->entries[1].handler.closure, &third);
  EXPECT_FALSE(before()->integer_only);
  EXPECT_EQ(before()->only.call, nullptr);
  EXPECT_EQ(site.after.handlers.load(), nullptr);
}

TEST_F(HandlerLists, NameTheOnlyHandlerIfItUsesIntegersOnly) {
  int closure = 0;
  add(&closure, true);
  publish(site, kUsual, retired);
  ASSERT_NE(before(), nullptr);
  EXPECT_TRUE(before()->integer_only);
  EXPECT_EQ(before()->only.closure, &closure);
}

TEST_F(HandlerLists, AreRetiredAndNotDestroyedWhenOthersArePublished) {
  add(nullptr, true);
  publish(site, kUsual, retired);
  const auto* const former = before();
  EXPECT_TRUE(retired.empty());
  add(nullptr, true);
  publish(site, kUsual, retired);
  ASSERT_EQ(retired.handlers.size(), 1u);
  EXPECT_EQ(retired.handlers.front().get(), former);
  EXPECT_EQ(former->count, 1u);
}

TEST_F(HandlerLists, AreNoneWhileAllProbesAreDisarmed) {
  add(nullptr, true);
  publish(site, kUsual, retired);
  publish(site, kDisarmed, retired);
  EXPECT_EQ(before(), nullptr);
  EXPECT_EQ(retired.handlers.size(), 1u);
}

TEST_F(HandlerLists, HoldReturnProbesWithTheGenerationTheyWereAttachedIn) {
  runtime::ReturnProbeState state = {};
  auto& probe = made.attach<detail::ReturnState>(site);
  probe.shared = &state;
  probe.generation = 7;
  publish(site, kUsual, retired);
  const runtime::ReturnList* const list = site.before.returns.load();
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->count, 1u);
  EXPECT_EQ(list->entries[0].probe, &state);
  EXPECT_EQ(list->entries[0].generation, 7u);
}

}  // namespace
}  // namespace pinprick::library
