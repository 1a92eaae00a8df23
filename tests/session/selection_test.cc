#include "session/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "action/at_return.h"
#include "arch/stub.h"
#include "layout/runtime_data.h"

namespace pinprick::session {
namespace {

using placement::Kind;
using testing::ElementsAre;

SelectionSpec spec_of(Kind kind, std::vector<std::string> wanted) {
  SelectionSpec spec;
  spec.measures = {{{}, kind, std::move(wanted)}};
  return spec;
}

std::vector<std::string> texts(const std::vector<image::Pattern>& patterns) {
  std::vector<std::string> texts;
  texts.reserve(patterns.size());
  for (const image::Pattern& pattern : patterns) texts.push_back(pattern.text());
  return texts;
}

template <class Cause>
Cause cause_of(Kind kind, std::vector<std::string> wanted) {
  const auto selection = parse_selection(spec_of(kind, std::move(wanted)));
  EXPECT_FALSE(selection);
  if (selection) return {};
  const Cause* const cause = std::get_if<Cause>(&selection.error());
  EXPECT_NE(cause, nullptr) << "another cause: " << selection.error().index();
  return cause != nullptr ? *cause : Cause{};
}

TEST(Selection, HasTwoPatternsForEachSpan) {
  const auto selection = parse_selection(spec_of(Kind::span, {"read..write", "libc:a..libc:b"}));
  ASSERT_TRUE(selection);
  EXPECT_THAT(texts(selection->wanted), ElementsAre("read", "write", "libc:a", "libc:b"));
  ASSERT_EQ(selection->spans.size(), 2u);
  EXPECT_EQ(selection->spans[0].text, "read..write");
  EXPECT_EQ(selection->spans[0].first, 0u);
  EXPECT_EQ(selection->spans[1].text, "libc:a..libc:b");
  EXPECT_EQ(selection->spans[1].first, 2u);
}

// Names and expressions.
std::vector<std::string> fields_of(const Selection& selection, uint32_t pattern) {
  std::vector<std::string> fields;
  for (const action::Field& one : selection.actions.of(pattern).fields)
    fields.push_back(one.name + "=" + one.value.text);
  return fields;
}

TEST(Selection, HasWhatEventsTellInTheOrderInWhichItIsGiven) {
  const auto selection = parse_selection(
      spec_of(Kind::event, {"write n=$arg3 $arg2:string  half=($arg3 / 2) if $arg1==1", "read",
                            "read%return buf=$arg2 $retval"}));
  ASSERT_TRUE(selection);
  EXPECT_THAT(fields_of(*selection, 0),
              ElementsAre("n=$arg3", "=$arg2:string", "half=($arg3 / 2)"));
  EXPECT_EQ(selection->actions.of(0).condition.text, "$arg1==1");
  EXPECT_TRUE(selection->actions.of(0).reads_texts());
  EXPECT_THAT(fields_of(*selection, 1), ElementsAre());
  EXPECT_TRUE(selection->actions.of(2).times_call());
  EXPECT_THAT(fields_of(*selection, 2), ElementsAre("buf=$arg2", "=$retval", "=$latency"))
      << "the time of a call is told without being asked for";
}

TEST(Selection, RefusesMoreThanAnEventHasRoomFor) {
  std::string values, of_entry;
  for (size_t i = 1; i <= arch::kMostEventValues; ++i) values += " %rax+" + std::to_string(i);
  EXPECT_TRUE(parse_selection(spec_of(Kind::event, {"f" + values})));
  EXPECT_EQ(cause_of<TooManyFields>(Kind::event, {"f" + values + " %rbx"}).point, "f");
  EXPECT_EQ(cause_of<TooManyFields>(Kind::event, {"f%return" + values}).point, "f%return");
  for (size_t i = 1; i <= action::kMostKept + 1; ++i)
    of_entry += " *(u8*)($arg1+" + std::to_string(i) + ")";
  EXPECT_EQ(cause_of<TooManyKept>(Kind::event, {"f%return" + of_entry}).point, "f%return");
}

TEST(Selection, HasAnArrayAsPartsThatAreShownTogether) {
  const auto selection = parse_selection(spec_of(Kind::event, {"f n=$arg1:x16[3] $arg2"}));
  ASSERT_TRUE(selection);
  const auto& fields = selection->actions.of(0).fields;
  ASSERT_EQ(fields.size(), 4u);
  EXPECT_EQ(fields[0].name, "n");
  ASSERT_TRUE(fields[0].layout);
  EXPECT_EQ(fields[0].layout->kind, action::ValueLayout::Kind::array);
  EXPECT_EQ(fields[0].layout->count, 3u);
  ASSERT_EQ(fields[0].layout->inner.size(), 3u);
  EXPECT_EQ(fields[0].layout->inner[2].part, 2);
  EXPECT_EQ(fields[0].layout->inner[2].bits, 16);
  EXPECT_EQ(fields[0].layout->inner[2].kind, action::ValueLayout::Kind::hexadecimal);
  for (const size_t part : {1, 2}) EXPECT_EQ(fields[part].shown, action::Field::Shown::part);
  EXPECT_EQ(fields[3].value.text, "$arg2");
}

TEST(Selection, HasNamesOfEventsAlone) {
  const auto selection = parse_selection(
      spec_of(Kind::event, {"a = f $arg1", "b = f $arg1", "c = f..g", "f..g", "f $arg1"}));
  ASSERT_TRUE(selection);
  std::vector<std::string> names;
  for (uint32_t i = 0; i < selection->wanted.size(); ++i)
    names.push_back(selection->actions.of(i).event);
  EXPECT_THAT(names, ElementsAre("a", "b", "c", "", "", "", ""));
  for (const Kind kind : {Kind::count, Kind::latency, Kind::value})
    EXPECT_EQ(cause_of<NamedPoint>(kind, {"a = f"}).name, "a");
}

TEST(Selection, SaysWhichOfSeveralValuesIsWrong) {
  const auto bad = cause_of<BadExpression>(Kind::event, {"f n=$arg1 m=$arg0"});
  EXPECT_EQ(bad.of, BadExpression::Of::field);
  EXPECT_EQ(bad.text, "$arg0");
}

TEST(Selection, KeepsTheMeasuresApartByTheirPatterns) {
  SelectionSpec spec;
  spec.measures = {{"hits", Kind::count, {"read", "write"}},
                   {"spans", Kind::span, {"read..write"}},
                   {"sizes", Kind::value, {"write $arg3"}}};
  const auto selection = parse_selection(spec);
  ASSERT_TRUE(selection);
  EXPECT_THAT(texts(selection->wanted), ElementsAre("read", "write", "read", "write", "write"));
  EXPECT_EQ(selection->spans.at(0).first, 2u);
  EXPECT_EQ(selection->actions.of(4).value.text, "$arg3");
  std::vector<size_t> measures;
  for (size_t i = 0; i < selection->wanted.size(); ++i)
    measures.push_back(selection->measure_of(i));
  EXPECT_THAT(measures, ElementsAre(0, 0, 1, 1, 2));
  EXPECT_EQ(selection->actions.of(4).kind, Kind::value);
  EXPECT_EQ(selection->actions.of(4).measure, 2u);
  EXPECT_TRUE(selection->has(Kind::span) && selection->has_others_than(Kind::span));
}

TEST(Selection, AcceptsDotsInTheNamesOfFunctions) {
  const auto selection = parse_selection(spec_of(Kind::count, {"read..write"}));
  ASSERT_TRUE(selection);
  EXPECT_THAT(texts(selection->wanted), ElementsAre("read..write"));
  EXPECT_TRUE(selection->spans.empty());
}

TEST(Selection, HasAValueForEachPattern) {
  const auto selection =
      parse_selection(spec_of(Kind::value, {"write $arg3", "libc:read+4 %rdi:u32"}));
  ASSERT_TRUE(selection);
  EXPECT_THAT(texts(selection->wanted), ElementsAre("write", "libc:read+4"));
  EXPECT_EQ(selection->actions.of(0).value.text, "$arg3");
  EXPECT_EQ(selection->actions.of(1).value.text, "%rdi:u32");
}

TEST(Selection, HasAnActionForEachValueAndConditionOfAMeasure) {
  SelectionSpec spec;
  spec.measures = {{"a", Kind::count, {"read", "write", "read if $arg1==1", "write if $arg1==1"}},
                   {"b", Kind::count, {"read if $arg1==1"}},
                   {"c", Kind::value, {"read $arg3 if $arg1==1", "write $arg3"}}};
  const auto selection = parse_selection(spec);
  ASSERT_TRUE(selection);
  std::vector<uint32_t> numbers;
  for (uint32_t i = 0; i < selection->wanted.size(); ++i)
    numbers.push_back(selection->actions.number_of(i));
  EXPECT_THAT(numbers, ElementsAre(0, 0, 1, 1, 2, 3, 4));
  EXPECT_EQ(selection->actions.of(0).condition.text, "");
  EXPECT_EQ(selection->actions.of(5).condition.text, "$arg1==1");
  EXPECT_EQ(selection->actions.of(5).value.text, "$arg3");
}

TEST(Selection, HasTheKeyOfATimedCallAtItsReturn) {
  SelectionSpec spec;
  spec.key = "$retval";
  spec.measures = {{"a", Kind::latency, {"read", "write if $arg1==1"}},
                   {"b", Kind::count, {"write%return"}}};
  const auto selection = parse_selection(spec);
  ASSERT_TRUE(selection);
  for (const uint32_t pattern : {0, 1, 2}) {
    const action::Action& action = selection->actions.of(pattern);
    EXPECT_EQ(action.key.text, "$retval");
    EXPECT_TRUE(action.computes_at_return());
    EXPECT_EQ(action.at_return, pattern == 2) << "the condition is of the entry";
  }
  for (const Kind kind : {Kind::count, Kind::value}) {
    spec.measures = {{"", kind, {kind == Kind::count ? "read" : "read $arg3"}}};
    EXPECT_FALSE(parse_selection(spec)) << "a hit knows no result";
  }
  spec.key = "$arg1";
  spec.measures = {{"", Kind::span, {"read..write"}}};
  const auto of_span = parse_selection(spec);
  ASSERT_FALSE(of_span);
  EXPECT_TRUE(std::holds_alternative<NoKeyOfSpan>(of_span.error()));
}

TEST(Selection, HasActionsAtTheReturnOfFunctions) {
  SelectionSpec spec;
  spec.measures = {{"a", Kind::count, {"read", "read%return", "libc:write%return if $retval<0"}},
                   {"b", Kind::value, {"read%return $retval", "read%return $latency if $arg1==1"}},
                   {"c", Kind::latency, {"read"}}};
  const auto selection = parse_selection(spec);
  ASSERT_TRUE(selection);
  EXPECT_THAT(texts(selection->wanted),
              ElementsAre("read", "read", "libc:write", "read", "read", "read"));
  std::vector<bool> at_return, times;
  for (uint32_t i = 0; i < selection->wanted.size(); ++i) {
    at_return.push_back(selection->actions.of(i).at_return);
    times.push_back(selection->actions.of(i).times_call());
  }
  EXPECT_THAT(at_return, ElementsAre(false, true, true, true, true, false));
  EXPECT_THAT(times, ElementsAre(false, true, true, true, true, true));
  EXPECT_NE(selection->actions.number_of(0), selection->actions.number_of(1));
  EXPECT_TRUE(selection->times_calls());
  EXPECT_FALSE(parse_selection(spec_of(Kind::count, {"read"}))->times_calls());
}

TEST(Selection, RefusesReturnsOfWhatDoesNotReturn) {
  const auto refused = [](Kind kind, const char* text, Sites sites, size_t error) {
    SelectionSpec spec = spec_of(kind, {text});
    spec.sites = sites;
    const auto selection = parse_selection(spec);
    return !selection && selection.error().index() == error;
  };
  const auto index_of = []<class T>(T cause) { return SelectionError(std::move(cause)).index(); };
  using enum Sites;
  EXPECT_TRUE(refused(Kind::count, "read+4%return", named, index_of(NoReturn{})));
  EXPECT_TRUE(refused(Kind::count, "usdt:p:x%return", named, index_of(NoReturn{})));
  EXPECT_TRUE(refused(Kind::count, "read%return", every_instruction, index_of(NoReturn{})));
  EXPECT_TRUE(refused(Kind::span, "read%return..write", named, index_of(ReturnOfSpan{})));
  EXPECT_TRUE(refused(Kind::span, "read..write%return", named, index_of(ReturnOfSpan{})));
  EXPECT_TRUE(
      refused(Kind::value,
              "read%return $retval*$arg1+$retval*$arg2+$retval*$arg3+$retval*$arg4+$retval*$arg5+"
              "$retval*$arg6+$retval**(u8*)$arg1+$retval**(u8*)$arg2+$retval**(u8*)$arg3",
              named, index_of(TooManyKept{})));
  EXPECT_TRUE(refused(Kind::value, "read%return $arg0", named, index_of(BadExpression{})));
  EXPECT_TRUE(refused(Kind::count, "read if $retval<0", named, index_of(BadExpression{})));
  EXPECT_TRUE(refused(Kind::count, "read%return $retval", named, index_of(UnusedValue{})));
}

// An argument is in a register at the one, and where the site says at the other.
TEST(Selection, KeepsOneTextOfAPointAndOfAFunctionApart) {
  for (const auto& wanted : {std::vector<std::string>{"usdt:p:x $arg1", "f $arg1"},
                             std::vector<std::string>{"f $arg1", "usdt:p:x $arg1"}}) {
    const auto selection = parse_selection(spec_of(Kind::value, wanted));
    ASSERT_TRUE(selection);
    const uint32_t function = wanted[0][0] == 'f' ? 0 : 1;
    EXPECT_NE(selection->actions.number_of(0), selection->actions.number_of(1));
    constexpr uint8_t kRdi = 7;
    EXPECT_EQ(selection->actions.of(function).value.expression.nodes[0].value.register_number,
              kRdi);
  }
}

// Where an argument is, or that anything records it, is known before a process is looked at.
TEST(Selection, RefusesExpressionsThatMeanNothingThere) {
  const auto fails_with = [](Kind kind, const char* text, size_t error) {
    const auto selection = parse_selection(spec_of(kind, {text}));
    return !selection && selection.error().index() == error;
  };
  const auto index_of = []<class T>(T cause) { return SelectionError(std::move(cause)).index(); };
  EXPECT_TRUE(fails_with(Kind::count, "write if $arg1=1", index_of(BadExpression{})));
  EXPECT_TRUE(fails_with(Kind::count, "write if", index_of(BadExpression{})));
  EXPECT_TRUE(fails_with(Kind::value, "write $arg1+", index_of(BadExpression{})));
  EXPECT_TRUE(fails_with(Kind::value, "write if $arg1==1", index_of(BadValue{})));
  EXPECT_TRUE(fails_with(Kind::value, "write $arg1 $arg2", index_of(BadValue{})));
  EXPECT_TRUE(fails_with(Kind::count, "write $arg1", index_of(UnusedValue{})));
  EXPECT_TRUE(fails_with(Kind::span, "read..write if $arg1==1", index_of(NoCondition{})));
  EXPECT_TRUE(fails_with(Kind::count, "write+4 if $arg1==1", index_of(ArgumentAtOffset{})));
  SelectionSpec spec = spec_of(Kind::count, {"write if $arg1==1"});
  spec.sites = Sites::every_instruction;
  EXPECT_FALSE(parse_selection(spec)) << "an argument is in its register at the entry only";
  spec = spec_of(Kind::count, {"write if %rdi==1"});
  spec.sites = Sites::every_instruction;
  EXPECT_TRUE(parse_selection(spec));
}

TEST(Selection, IncludesPartsOfFunctionsOnlyForEveryInstruction) {
  SelectionSpec spec = spec_of(Kind::count, {"f*"});
  spec.excluded = {"g*"};
  const auto named = parse_selection(spec);
  spec.sites = Sites::every_instruction;
  const auto every = parse_selection(spec);
  ASSERT_TRUE(named && every);
  EXPECT_FALSE(named->wanted[0].means_part(true));
  EXPECT_TRUE(every->wanted[0].means_part(true));
  EXPECT_TRUE(named->excluded[0].means_part(true))
      << "an excluded function is excluded with its parts";
}

TEST(Selection, RefusesATextThatIsNoSpanAmongSpans) {
  EXPECT_EQ(cause_of<NoSpan>(Kind::span, {"a..b", "malloc"}).text, "malloc");
}

TEST(Selection, RefusesASpanWithoutAPoint) {
  const auto bad = cause_of<BadSpan>(Kind::span, {"a..b", "..c"});
  EXPECT_EQ(bad.text, "..c");
  EXPECT_EQ(bad.error, select::SpanError::no_start);
}

TEST(Selection, RefusesTooManySpans) {
  std::vector<std::string> spans(layout::kMostSpans, "a..b");
  EXPECT_TRUE(parse_selection(spec_of(Kind::span, spans)));
  spans.emplace_back("a..b");
  const auto many = cause_of<TooManySpans>(Kind::span, spans);
  EXPECT_EQ(many.spans, layout::kMostSpans + 1);
  EXPECT_EQ(many.most, layout::kMostSpans);
}

TEST(Selection, RefusesAPatternWithoutAValueToRecord) {
  const auto bad = cause_of<BadValue>(Kind::value, {"libc:write"});
  EXPECT_EQ(bad.point, "libc:write");
  EXPECT_TRUE(bad.others.empty());
}

TEST(Selection, RefusesAnArgumentAtAnOffsetIntoAFunction) {
  const auto bad = cause_of<ArgumentAtOffset>(Kind::value, {"write+4 $arg3"});
  EXPECT_EQ(bad.point, "write+4");
  EXPECT_EQ(bad.text, "$arg3");
}

TEST(Selection, RefusesATextThatIsNoPattern) {
  EXPECT_EQ(cause_of<image::PatternError>(Kind::count, {"f", ""}).cause,
            image::PatternCause::empty);
  SelectionSpec spec = spec_of(Kind::count, {"f"});
  spec.excluded = {"("};
  spec.syntax = image::PatternSyntax::regex;
  const auto selection = parse_selection(spec);
  ASSERT_FALSE(selection);
  EXPECT_EQ(std::get<image::PatternError>(selection.error()).cause, image::PatternCause::bad_regex);
}

}  // namespace
}  // namespace pinprick::session
