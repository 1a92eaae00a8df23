// Whether the code that measures costs runs what it is to measure: how long that takes is a matter
// of the machine. scripts/check-budget compares it with a program.
#include <gtest/gtest.h>

#include "runtime/probe_cost.h"

namespace pinprick::runtime {
namespace {

TEST(CrowdedCost, IsThatOfProbesAndMoreForATimedCall) {
  const auto costs = crowded_probe_costs();
  ASSERT_TRUE(costs);
  EXPECT_GT(costs->count, 0);
  EXPECT_LT(costs->count, 1000);
  EXPECT_GT(costs->locked_count, 0);
  // It reads the clock twice.
  EXPECT_GT(costs->call, costs->count);
  EXPECT_LT(costs->call, 10'000);
}

}  // namespace
}  // namespace pinprick::runtime
