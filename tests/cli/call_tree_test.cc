#include "cli/render/call_tree.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace pinprick::cli {
namespace {

using Of = CallTree::Event::Of;

// Collects the lines of a tree, without durations and threads.
class Lines {
 public:
  explicit Lines(CallTree::Limits limits = {}) : tree_(std::move(limits)) {}

  Lines& enter(const std::string& function, uint64_t thread = 1) {
    text_ += tree_.add({.thread = thread,
                        .number = static_cast<int>(thread),
                        .of = Of::entry,
                        .function = function,
                        .call = function + "(a)"});
    return *this;
  }
  Lines& leave(const std::string& function, uint64_t ns = 1, uint64_t thread = 1) {
    text_ += tree_.add({.thread = thread,
                        .number = static_cast<int>(thread),
                        .of = Of::ret,
                        .function = function,
                        .call = function + "()",
                        .result = " = 0",
                        .latency_ns = ns});
    return *this;
  }
  Lines& pass(const std::string& point) {
    text_ += tree_.add({.thread = 1, .number = 1, .of = Of::point, .call = point});
    return *this;
  }
  std::string whole_text() { return text_ + tree_.finish(); }
  std::string text() {
    std::string all = whole_text(), calls;
    while (!all.empty()) {
      const size_t end = all.find('\n');
      calls += all.substr(all.find('|') + 2, end + 1 - (all.find('|') + 2));
      all.erase(0, end + 1);
    }
    return calls;
  }

 private:
  CallTree tree_;
  std::string text_;
};

TEST(CallTree, ACallThatCallsNothingIsOneLine) {
  EXPECT_EQ(Lines().enter("f").leave("f").enter("f").leave("f").text(),
            "f(a) = 0;\n"
            "f(a) = 0;\n");
}

TEST(CallTree, CallsAreIndentedByWhatTheyLieIn) {
  EXPECT_EQ(Lines()
                .enter("f")
                .enter("g")
                .enter("h")
                .leave("h")
                .leave("g")
                .enter("h")
                .leave("h")
                .leave("f")
                .text(),
            "f(a) {\n"
            "  g(a) {\n"
            "    h(a) = 0;\n"
            "  } g = 0\n"
            "  h(a) = 0;\n"
            "} f = 0\n");
}

TEST(CallTree, AFunctionThatCallsItselfReturnsOncePerCall) {
  EXPECT_EQ(Lines().enter("f").enter("f").enter("f").leave("f").leave("f").leave("f").text(),
            "f(a) {\n"
            "  f(a) {\n"
            "    f(a) = 0;\n"
            "  } f = 0\n"
            "} f = 0\n");
}

TEST(CallTree, ThreadsHaveTreesOfTheirOwn) {
  EXPECT_EQ(Lines()
                .enter("f", 1)
                .enter("g", 2)
                .enter("h", 1)
                .leave("g", 1, 2)
                .leave("h")
                .leave("f")
                .text(),
            "f(a) {\n"
            "g(a) = 0;\n"
            "  h(a) = 0;\n"
            "} f = 0\n");
}

TEST(CallTree, CallsThatAnExceptionLeftEndWithTheCallThatReturns) {
  EXPECT_EQ(Lines().enter("f").enter("g").enter("h").leave("f").enter("k").leave("k").text(),
            "f(a) {\n"
            "  g(a) {\n"
            "    h(a);\n"
            "} f = 0\n"
            "k(a) = 0;\n");
}

TEST(CallTree, CallsThatAnExceptionLeftEndWithTheNextCallThatIsHigherOnTheStack) {
  CallTree tree({});
  std::string text;
  const auto enter = [&](const std::string& function, uint64_t stack_pointer) {
    text += tree.add({.thread = 1,
                      .number = 1,
                      .of = Of::entry,
                      .function = function,
                      .call = function,
                      .stack_pointer = stack_pointer});
  };
  enter("f", 9000);
  enter("g", 8000);
  enter("h", 7000);
  enter("k", 8008);
  enter("jumped to", 8008);
  enter("h", 7000);
  enter("h", 7000);
  enter("on another stack", uint64_t{1} << 40);
  text += tree.finish();
  std::string calls;
  for (size_t at = 0; (at = text.find("| ", at)) != text.npos;) {
    at += 2;
    calls += text.substr(at, text.find('\n', at) + 1 - at);
  }
  EXPECT_EQ(calls,
            "f {\n"
            "  g {\n"
            "    h;\n"
            "  k {\n"
            "    jumped to {\n"
            "      h;\n"
            "      h {\n"
            "        on another stack {\n");
}

TEST(CallTree, EventsOfUnknownThreadsLieInNoCall) {
  EXPECT_EQ(Lines().enter("f", 0).enter("g", 1).leave("f", 1, 0).leave("g").text(),
            "f(a);\n"
            "} f = 0\n"
            "g(a) = 0;\n");
}

TEST(CallTree, AReturnWithoutItsEntryStandsAlone) {
  EXPECT_EQ(Lines().enter("g").leave("g").leave("f").enter("h").leave("f").leave("h").text(),
            "g(a) = 0;\n"
            "} f = 0\n"
            "h(a) {\n"
            "  } f = 0\n"
            "} h = 0\n");
}

TEST(CallTree, CallsThatHaveNotReturnedAreThereAtTheEnd) {
  EXPECT_EQ(Lines().enter("f").enter("g").text(),
            "f(a) {\n"
            "  g(a) {\n");
}

TEST(CallTree, OfSlowCallsThereAreTheirCallersToo) {
  EXPECT_EQ(Lines({.slower_ns = 100})
                .enter("f")
                .enter("g")
                .leave("g", 99)
                .enter("g")
                .enter("h")
                .leave("h", 1)
                .leave("g", 100)
                .pass("p")
                .leave("f", 300)
                .enter("f")
                .leave("f", 2)
                .enter("g")
                .text(),
            "f(a) {\n"
            "  g(a) = 0;\n"
            "} f = 0\n");
}

TEST(CallTree, HasAsManyLevelsAsWereAskedFor) {
  EXPECT_EQ(
      Lines({.depth = 2}).enter("f").enter("g").enter("h").leave("h").leave("g").leave("f").text(),
      "f(a) {\n"
      "  g(a) = 0;\n"
      "} f = 0\n");
}

TEST(CallTree, PointsLieInCalls) {
  EXPECT_EQ(Lines().pass("p").enter("f").pass("q").leave("f").text(),
            "p;\n"
            "f(a) {\n"
            "  q;\n"
            "} f = 0\n");
}

TEST(CallTree, DurationsAreMarkedAsTheKernelDoes) {
  std::string marks;
  for (const uint64_t ns : {10'000ull, 10'001ull, 100'001ull, 1'000'001ull, 10'000'001ull,
                            100'000'001ull, 1'000'000'001ull})
    marks += Lines().enter("f").leave("f", ns).whole_text().front();
  EXPECT_EQ(marks, " +!#*@$");
}

Lines nested(CallTree::Limits limits) {
  Lines lines(std::move(limits));
  lines.enter("main").enter("parse").enter("next").leave("next").leave("parse");
  lines.enter("run").enter("parse").enter("log").enter("write").leave("write").leave("log");
  return lines.leave("parse").leave("run").leave("main");
}

TEST(CallTree, ShowsWhatLiesInSomeFunctions) {
  EXPECT_EQ(nested({.in = {"p?rse", "none"}}).text(),
            "parse(a) {\n"
            "  next(a) = 0;\n"
            "} parse = 0\n"
            "parse(a) {\n"
            "  log(a) {\n"
            "    write(a) = 0;\n"
            "  } log = 0\n"
            "} parse = 0\n");
  EXPECT_EQ(nested({.in = {"none"}}).text(), "");
}

TEST(CallTree, ShowsWhatLiesInAFunctionOnceIfItLiesInItself) {
  Lines lines({.in = {"f"}});
  lines.enter("f").enter("g").enter("f").leave("f").leave("g").leave("f");
  EXPECT_EQ(lines.text(),
            "f(a) {\n"
            "  g(a) {\n"
            "    f(a) = 0;\n"
            "  } g = 0\n"
            "} f = 0\n");
}

TEST(CallTree, LeavesOutWhatLiesInSomeFunctions) {
  EXPECT_EQ(nested({.not_in = {"parse"}}).text(),
            "main(a) {\n"
            "  run(a) = 0;\n"
            "} main = 0\n");
  EXPECT_EQ(nested({.depth = 2, .in = {"run"}, .not_in = {"log"}}).text(),
            "run(a) {\n"
            "  parse(a) = 0;\n"
            "} run = 0\n");
}

TEST(CallTree, OfCallsInAFunctionShowsThoseThatAreSlowWithTheirCallers) {
  Lines lines({.slower_ns = 50, .in = {"run"}});
  lines.enter("slow").leave("slow", 90);
  lines.enter("run")
      .enter("fast")
      .leave("fast", 10)
      .enter("slow")
      .leave("slow", 60)
      .leave("run", 80);
  EXPECT_EQ(lines.text(),
            "run(a) {\n"
            "  slow(a) = 0;\n"
            "} run = 0\n");
}

TEST(CallTree, LinesThatFollowACallAreUnderIt) {
  CallTree tree({});
  EXPECT_EQ(tree.add({.thread = 1, .number = 7, .of = Of::entry, .function = "f", .call = "f()"}),
            "");
  EXPECT_EQ(tree.add({.thread = 1, .of = Of::point, .call = "p", .frames = {"a", "b"}}),
            "                   7 | f() {\n"
            "                   0 |   p;\n"
            "                     |       a\n"
            "                     |       b\n");
}

}  // namespace
}  // namespace pinprick::cli
