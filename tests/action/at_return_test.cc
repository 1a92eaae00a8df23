#include "action/at_return.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace pinprick::action {
namespace {

using select::Expression;
using select::Node;
using select::Operator;
using testing::ElementsAre;
using testing::IsEmpty;

Action action_of(std::string_view condition, std::string_view value = {}, bool at_return = true) {
  const auto arguments = at_return ? select::Arguments::of_return : select::Arguments::of_function;
  Action action = {.at_return = at_return};
  for (auto [text, to] : {std::pair(condition, &action.condition), {value, &action.value}}) {
    if (text.empty()) continue;
    auto parsed = select::parse_expression(text, arguments);
    EXPECT_TRUE(parsed) << text;
    if (parsed) *to = {*std::move(parsed), std::string(text)};
  }
  return action;
}

// Returns the value of an expression for these arguments, this result and this time.
struct Call {
  std::vector<uint64_t> arguments;
  int64_t result;
  int64_t latency;
};
int64_t meaning(const Expression& all, const Node& node, const Call& call) {
  const auto left = [&] { return meaning(all, all.nodes[node.left], call); };
  const auto right = [&] { return meaning(all, all.nodes[node.right], call); };
  switch (node.what) {
    case Operator::number:
      return static_cast<int64_t>(node.number);
    case Operator::value:
      if (node.value.is_latency) return call.latency;
      return node.value.argument != 0
                 ? static_cast<int64_t>(call.arguments[node.value.argument - 1u])
                 : call.result;
    case Operator::is_zero:
      return left() == 0;
    case Operator::add:
      return left() + right();
    case Operator::subtract:
      return left() - right();
    case Operator::equal:
      return left() == right();
    case Operator::less:
      return left() < right();
    case Operator::greater:
      return left() > right();
    case Operator::both:
      return left() != 0 && right() != 0;
    case Operator::either:
      return left() != 0 || right() != 0;
    default:
      ADD_FAILURE() << "not used by these tests";
      return 0;
  }
}
bool holds(const Expression& expression, const Call& call) {
  return expression.empty() || meaning(expression, expression.nodes.back(), call) != 0;
}

bool knows_return(const Expression& expression) {
  return std::any_of(expression.nodes.begin(), expression.nodes.end(), [](const Node& node) {
    return node.what == Operator::value && node.value.argument == 0;
  });
}

TEST(AtReturn, DecidesAtTheEntryWhatConcernsArgumentsAloneAndMeansTheSame) {
  const char* const conditions[] = {
      "$arg1==1",
      "$retval<0",
      "$arg1==1 && $retval<0",
      "$retval<0 && $arg1==1 && $latency>5",
      "$arg1==1 || $retval<0",
      "($arg1==1 || $arg2==2) && ($retval<0 || $arg1==0)",
      "!($arg1==1 && $retval<0)",
      "$retval<$arg1+$arg2 && $arg2",
      "1 && $retval",
      "0 && $arg1==1",
      "($arg1==1 && ($arg2==2 && ($retval==1 && $latency>1)))",
  };
  for (const char* const text : conditions) {
    const Action action = action_of(text);
    const WhenComputed when = when_computed(action);
    EXPECT_FALSE(knows_return(when.at_entry)) << text;
    for (const uint64_t one : {0, 1, 2})
      for (const uint64_t two : {0, 1, 2})
        for (const int64_t result : {-1, 0, 1, 3})
          for (const int64_t latency : {1, 7}) {
            const Call call = {{one, two}, result, latency};
            EXPECT_EQ(holds(when.at_entry, call) && holds(when.at_return, call),
                      holds(action.condition.expression, call))
                << text;
          }
  }
}

TEST(AtReturn, LeavesNothingForTheReturnIfOnlyArgumentsMatter) {
  EXPECT_TRUE(when_computed(action_of("$arg1==1 && $arg2>2")).at_return.empty());
  EXPECT_TRUE(when_computed(action_of("$retval==1 && $latency>2")).at_entry.empty());
  EXPECT_TRUE(when_computed(action_of("")).at_entry.empty());
  EXPECT_TRUE(when_computed(action_of("")).at_return.empty());
}

TEST(AtReturn, DecidesEverythingAtTheEntryIfTheActionIsThere) {
  const Action action = action_of("%rdi==1 && $arg1==1", {}, false);
  EXPECT_EQ(when_computed(action).at_entry, action.condition.expression);
  EXPECT_TRUE(when_computed(action).at_return.empty());
}

TEST(AtReturn, DecidesEverythingAtTheReturnIfTheEntryIsSharedWithOthers) {
  const Action action = action_of("$arg1==1 && $retval<0");
  const WhenComputed when = when_computed(action, Entry::does_not_decide);
  EXPECT_TRUE(when.at_entry.empty());
  EXPECT_EQ(when.at_return, action.condition.expression);
}

TEST(AtReturn, ReadsAtTheReturnWhatIsAtAnAddressThatIsKnownAnyway) {
  const auto kept_of = [](const char* value) {
    std::vector<Expression> kept;
    add_kept(action_of("", value), Entry::decides, kept);
    return kept.size();
  };
  EXPECT_EQ(kept_of("*(u32*)(0x4010+8)"), 0u);
  EXPECT_EQ(kept_of("*(u32*)(0x4010+8*$arg1)"), 1u);
  EXPECT_EQ(kept_of("$stack1"), 0u);
  EXPECT_EQ(kept_of("$arg7"), 1u);
  EXPECT_TRUE(when_computed(action_of("*(u32*)0x4010==1")).at_entry.empty());
}

TEST(AtReturn, KeepsTheArgumentsThatTheReturnNeedsEachOnce) {
  const auto kept = [](const Action& action, Entry entry = Entry::decides) {
    std::vector<select::Expression> values;
    add_kept(action, entry, values);
    std::vector<int> arguments;
    for (const select::Expression& one : values)
      arguments.push_back(one.nodes.size() == 1 ? one.nodes.front().value.argument : -1);
    return arguments;
  };
  EXPECT_THAT(kept(action_of("$arg1==1 && $retval<0")), IsEmpty());
  EXPECT_THAT(kept(action_of("$arg1==1 || $retval<0")), ElementsAre(1));
  EXPECT_THAT(kept(action_of("$retval<$arg3 && $arg3:u32==$retval")), ElementsAre(3));
  EXPECT_THAT(kept(action_of("$retval<$arg3", "$arg1-$retval")), ElementsAre(3, 1));
  EXPECT_THAT(kept(action_of("", "$arg2")), ElementsAre(2));
  EXPECT_THAT(kept(action_of("$arg1==1", "$arg2", false)), IsEmpty());
  EXPECT_THAT(kept(action_of("$arg1==1 && $retval<0"), Entry::does_not_decide), ElementsAre(1));
}

TEST(AtReturn, KeepsWhatPointersLedToAtTheEntryUnlessItIsToBeReadAtTheReturn) {
  const auto kept = [](const Action& action) {
    std::vector<select::Expression> values;
    add_kept(action, Entry::decides, values);
    return values;
  };
  const auto parsed = [](std::string_view text) {
    return *select::parse_expression(text, select::Arguments::of_return);
  };
  const std::vector<select::Expression> read = {parsed("*(u32*)($arg1+8)")};
  EXPECT_EQ(kept(action_of("*(u32*)($arg1+8)==$retval")), read);
  EXPECT_EQ(kept(action_of("*(u32*)($arg1+8)+1==$retval || *(u32*)($arg1+8)>$retval")).size(), 2u)
      << "each is computed as a whole";
  EXPECT_EQ(kept(action_of("*(u32*)$arg1==1")).size(), 0u) << "it is decided at the entry";
  EXPECT_EQ(kept(action_of("*(u32*)$arg1@ret==1")), std::vector{parsed("$arg1")});
  EXPECT_EQ(kept(action_of("*(u32*)$retval==1")).size(), 0u);
  ASSERT_EQ(kept(action_of("$caller==$retval")).size(), 1u);
  EXPECT_TRUE(select::is_caller(kept(action_of("$caller==$retval")).front()));
  const select::Expression whole = parsed("$retval-*(u32*)($arg1+8)");
  const select::Node& difference = whole.nodes.back();
  EXPECT_EQ(kept_at(read, whole, whole.nodes[difference.right]), 0);
  EXPECT_EQ(kept_at(read, whole, whole.nodes[difference.left]), std::nullopt);
}

}  // namespace
}  // namespace pinprick::action
