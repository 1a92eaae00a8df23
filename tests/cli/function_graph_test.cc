#include "cli/render/function_graph.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/render/call_tree.h"
#include "cli/render/function_profile.h"

namespace pinprick::cli {
namespace {

// As the kernel's trace_print_graph_duration prints them.
TEST(FunctionGraph, DurationsHaveSevenDigits) {
  EXPECT_EQ(graph_duration(20), "0.020 us    ");
  EXPECT_EQ(graph_duration(1382), "1.382 us    ");
  EXPECT_EQ(graph_duration(12'311), "12.311 us   ");
  EXPECT_EQ(graph_duration(123'456), "123.456 us  ");
  EXPECT_EQ(graph_duration(1'234'567), "1234.567 us ");
  EXPECT_EQ(graph_duration(12'345'678), "12345.67 us ");
  EXPECT_EQ(graph_duration(123'456'789), "123456.7 us ");
  EXPECT_EQ(graph_duration(1'234'567'890), "1234567 us  ");
}

TEST(FunctionGraph, MarksLongDurations) {
  const std::pair<uint64_t, char> kMarks[] = {
      {10'000, ' '},        {10'001, '+'},       {100'000, '+'},     {100'001, '!'},
      {1'000'001, '#'},     {10'000'001, '*'},   {100'000'000, '*'}, {100'000'001, '@'},
      {1'000'000'000, '@'}, {1'000'000'001, '$'}};
  for (const auto& [ns, mark] : kMarks) EXPECT_EQ(duration_mark(ns), mark) << ns;
}

// The lines are those of the kernel's own documentation, where they have the same figures.
TEST(FunctionGraph, LinesAreTheKernels) {
  FunctionGraph graph(2);
  const FunctionGraph::Thread bash = {.cpu = 0, .number = 1994, .name = "bash"};
  EXPECT_EQ(graph.line(bash, std::nullopt, 0, "sys_open() {"),
            " 0)               |  sys_open() {\n");
  EXPECT_EQ(graph.line(bash, 1382, 2, "__might_sleep();"),
            " 0)   1.382 us    |      __might_sleep();\n");
  EXPECT_EQ(graph.line(bash, 12'311, 0, "}"), " 0) + 12.311 us   |  }\n");
}

TEST(FunctionGraph, TellsWhichThreadGoesOnOnACpu) {
  FunctionGraph graph(16);
  graph.line({.cpu = 3, .number = 1994, .name = "bash"}, 100, 0, "f();");
  EXPECT_EQ(graph.line({.cpu = 3, .number = 7, .name = "long-name"}, 100, 0, "g();"),
            " ------------------------------------------\n"
            "  3)   bash-1994    =>   long-na-7   \n"
            " ------------------------------------------\n"
            "\n"
            "  3)   0.100 us    |  g();\n");
  EXPECT_EQ(graph.line({.cpu = 12, .number = 8, .name = "x"}, 100, 0, "h();"),
            " 12)   0.100 us    |  h();\n");
  EXPECT_EQ(graph.line({.cpu = {}, .number = 9, .name = "x"}, 100, 0, "h();"),
            "  -)   0.100 us    |  h();\n");
}

TEST(FunctionGraph, ATreeInItsStyleHasNoValuesAndNamesAFunctionWhoseEntryIsMissing) {
  using Of = CallTree::Event::Of;
  CallTree tree({}, CallTree::Style::function_graph);
  std::string text = tree.heading();
  const auto add = [&](Of of, const char* function, uint64_t ns) {
    text += tree.add({.thread = 1,
                      .number = 5,
                      .of = of,
                      .function = function,
                      .call = std::string(function) + "(a=1)",
                      .result = of == Of::ret ? " = 3" : "",
                      .latency_ns = ns,
                      .cpu = 0,
                      .thread_name = "t"});
  };
  add(Of::ret, "before", 20'000);
  add(Of::entry, "outer", 0);
  add(Of::entry, "inner", 0);
  add(Of::ret, "inner", 1'500);
  add(Of::point, "untimed", 0);
  add(Of::ret, "outer", 150'000);
  EXPECT_EQ(text,
            "# tracer: function_graph\n"
            "#\n"
            "# CPU  DURATION                  FUNCTION CALLS\n"
            "# |     |   |                     |   |   |   |\n"
            " 0) + 20.000 us   |  } /* before */\n"
            " 0)               |  outer() {\n"
            " 0)   1.500 us    |    inner();\n"
            " 0)               |    untimed();\n"
            " 0) ! 150.000 us  |  }\n");
}

// Of 10, 10, 40 and 60: the mean is 30, and s^2 = (400 + 400 + 100 + 900) / 3.
TEST(FunctionProfile, TheVarianceIsThatOfASample) {
  stats::Histogram times(5);
  for (const uint64_t ns : {10, 10, 40, 60}) times.record(ns);
  EXPECT_DOUBLE_EQ(variance_of(times), 600);
  stats::Histogram one(5);
  one.record(10);
  EXPECT_EQ(variance_of(one), 0);
  EXPECT_EQ(variance_of(stats::Histogram(5)), 0);
}

}  // namespace
}  // namespace pinprick::cli
