#include "cli/measure/event_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace pinprick::cli {
namespace {

struct Kept {
  uint64_t tsc = 0;
  int number = 0;
};

// The numbers of the events that are due, as many as `most`.
std::vector<int> due(EventOrder<Kept>& order, size_t most = SIZE_MAX) {
  std::vector<int> numbers;
  order.take_due([&](const Kept& event) {
    numbers.push_back(event.number);
    return numbers.size() < most;
  });
  return numbers;
}

TEST(EventOrder, EventsFromBeforeATurnAreDueInItSortedByTime) {
  EventOrder<Kept> order;
  order.begin_turn(EventTurn::one_of_many);
  order.add({30, 3});
  order.add({10, 1});
  order.add({20, 2});
  EXPECT_EQ(due(order), (std::vector{1, 2, 3}));
  EXPECT_EQ(order.size(), 0U);
}

TEST(EventOrder, AnEventThatIsYoungerThanTheTurnWaits) {
  EventOrder<Kept> order;
  order.begin_turn(EventTurn::one_of_many);
  order.add({read_tsc(), 2});
  order.add({1, 1});
  EXPECT_EQ(due(order), (std::vector{1}));
  order.begin_turn(EventTurn::last);
  EXPECT_EQ(due(order), (std::vector{2}));
}

TEST(EventOrder, AnEventFromJustBeforeATurnWaitsForTheNextOneUnlessItIsTheLast) {
  EventOrder<Kept> order;
  const uint64_t before = read_tsc();
  order.begin_turn(EventTurn::one_of_many);
  order.add({before, 1});
  EXPECT_EQ(due(order).empty(), order.complete_tsc() <= before);
  order.begin_turn(EventTurn::last);
  EXPECT_LE(due(order).size(), 1U);
  EXPECT_EQ(order.size(), 0U);
}

TEST(EventOrder, EventsOfOneTimeKeepTheOrderInWhichTheyCame) {
  EventOrder<Kept> order;
  for (int i = 0; i < 100; ++i) order.add({uint64_t{7}, i});
  std::vector<int> numbers;
  order.take_all([&](const Kept& event) {
    numbers.push_back(event.number);
    return true;
  });
  ASSERT_EQ(numbers.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(numbers[static_cast<size_t>(i)], i);
}

TEST(EventOrder, WhatIsNotTakenStays) {
  EventOrder<Kept> order;
  order.begin_turn(EventTurn::one_of_many);
  for (int i = 1; i <= 3; ++i) order.add({static_cast<uint64_t>(i), i});
  EXPECT_EQ(due(order, 2), (std::vector{1, 2}));
  EXPECT_EQ(due(order), (std::vector{3}));
}

}  // namespace
}  // namespace pinprick::cli
