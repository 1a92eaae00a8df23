#include "recording/call_graph.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace pinprick::recording {
namespace {

// What a program did, with one tick a nanosecond.
class Program {
 public:
  enum class Kind : bool { calls, tree };
  explicit Program(Kind kind) : paths_(kind == Kind::tree) {}

  // A call that is known by its return.
  Program& call(const std::string& function, uint64_t from, uint64_t to, pid_t thread = 1) {
    add(function, to, thread, to - from, false, 0);
    return *this;
  }
  Program& entry(const std::string& function, uint64_t at, uint64_t stack_pointer = 0) {
    add(function, at, 1, std::nullopt, true, stack_pointer);
    return *this;
  }
  Program& ret(const std::string& function, uint64_t from, uint64_t to) {
    return call(function, from, to);
  }
  Program& hit(const std::string& function, uint64_t at) {
    add(function, at, 1, std::nullopt, false, 0);
    return *this;
  }
  Program& stack(const std::string& function, const std::string& frames, uint64_t at) {
    const std::vector<session::EventValue> values = {
        {.kind = session::EventValue::Kind::stack, .words = frames}};
    add(function, at, 1, std::nullopt, false, 0, values);
    return *this;
  }
  Program& end_at(uint64_t tsc) {
    paths_.end_after(tsc, 0);
    return *this;
  }

  // `PATH calls total self`, each; paths have slashes.
  std::vector<std::string> paths() {
    paths_.finish();
    std::vector<std::string> all;
    const PathTree& tree = paths_.tree();
    tree.for_each_path([&](std::span<const PathTree::Node> path) {
      std::string line;
      for (const PathTree::Node one : path)
        line += (line.empty() ? "" : "/") +
                std::string(paths_.functions()[tree.function(one)].function);
      const PathTree::Node node = path.back();
      all.push_back(line + " " + std::to_string(tree.calls(node)) + " " +
                    std::to_string(tree.total_ns(node)) + " " + std::to_string(tree.self_ns(node)));
    });
    return all;
  }
  // The lines of its callers, then those of itself and its callees, indented.
  std::vector<std::string> graph(const std::string& function, const GraphLimits& limits = {}) {
    paths_.finish();
    const auto found =
        called_functions(paths_, [&](const Function& one) { return one.function == function; });
    if (found.size() != 1) return {};
    graph_ = graph_of(paths_, found.front(), limits);
    std::vector<std::string> lines;
    for (const CallNode& one : graph_.callers.others) append(one, "^ ", lines);
    append(graph_.callees, "", lines);
    return lines;
  }
  const CallGraph& last_graph() const { return graph_; }

 private:
  void add(const std::string& function, uint64_t at, pid_t thread,
           std::optional<uint64_t> latency_ns, bool has_return, uint64_t stack_pointer,
           std::span<const session::EventValue> values = {}) {
    const auto [found, is_new] = names_.try_emplace(function);
    if (is_new)
      found->second = {
          .object = "m", .function = found->first, .file = "/m", .address = names_.size()};
    session::Event event = {process_,      at,     at,         thread,    {}, "t",
                            found->second, values, latency_ns, has_return};
    event.stack_pointer = stack_pointer;
    paths_.add(event);
  }
  static void append(const CallNode& node, const std::string& before,
                     std::vector<std::string>& lines) {
    lines.push_back(before + std::string(node.function->function) + " " +
                    std::to_string(node.calls) + " " + std::to_string(node.total_ns) +
                    (node.left_out == 0 ? "" : " +" + std::to_string(node.left_out)) +
                    (node.has_deeper ? " ..." : ""));
    for (const CallNode& one : node.others) append(one, before + "  ", lines);
  }

  session::ProcessName process_ = {1, "p"};
  std::map<std::string, engine::ProbeName> names_;
  CallPaths paths_;
  CallGraph graph_;
};

using Lines = std::vector<std::string>;
using Kind = Program::Kind;

TEST(CallPaths, OfReturnsAloneFollowFromTheTimesOfCalls) {
  EXPECT_EQ(Program(Kind::calls)
                .call("leaf", 20, 30)
                .call("leaf", 40, 45)
                .call("middle", 15, 60)
                .call("leaf", 70, 72)
                .call("outer", 10, 100)
                .call("leaf", 110, 113)
                .paths(),
            (Lines{"leaf 1 3 3", "outer 1 90 43", "outer/leaf 1 2 2", "outer/middle 1 45 30",
                   "outer/middle/leaf 2 15 15"}));
}

TEST(CallPaths, OfATreeAreByItsEntriesAlsoIfNothingReturns) {
  // main() does not return, and what is in it lasts until the last event.
  EXPECT_EQ(Program(Kind::tree)
                .entry("main", 0)
                .entry("f", 10)
                .hit("point", 12)
                .ret("f", 10, 20)
                .entry("f", 30)
                .ret("f", 30, 50)
                .paths(),
            (Lines{"main 1 50 20", "main/f 2 30 30", "main/f/point 1 0 0"}));
}

TEST(CallPaths, OfCallsThatWereAbandonedEndWhereTheStackShowsIt) {
  // longjmp() leaves `thrower`: the next call of main() starts above it.
  EXPECT_EQ(Program(Kind::tree)
                .entry("main", 0, 5000)
                .entry("thrower", 10, 4000)
                .entry("next", 30, 4900)
                .ret("next", 30, 40)
                .ret("main", 0, 50)
                .paths(),
            (Lines{"main 1 50 20", "main/thrower 1 20 20", "main/next 1 10 10"}));
}

TEST(CallPaths, OfCallsWhoseReturnWasLostLastUntilTheLastEventBefore) {
  EXPECT_EQ(Program(Kind::tree)
                .entry("main", 0)
                .entry("lost", 10)
                .entry("leaf", 12)
                .ret("leaf", 12, 15)
                .ret("main", 0, 50)
                .paths(),
            (Lines{"main 1 50 45", "main/lost 1 5 2", "main/lost/leaf 1 3 3"}));
}

TEST(CallPaths, OfCallsOnAnotherStackAreNotAbandoned) {
  // The coroutine runs on a stack of its own, far above, and calls back to it.
  EXPECT_EQ(Program(Kind::tree)
                .entry("main", 0, 5000)
                .entry("coroutine", 10, uint64_t{1} << 40)
                .entry("inner", 20, 4000)
                .ret("inner", 20, 25)
                .ret("coroutine", 10, 30)
                .ret("main", 0, 50)
                .paths(),
            (Lines{"main 1 50 30", "main/coroutine 1 20 15", "main/coroutine/inner 1 5 5"}));
}

// Returns how many calls are counted of a function that calls itself so often.
uint64_t counted_in_recursion(Kind kind, uint64_t calls) {
  Program program(kind);
  if (kind == Kind::tree)
    for (uint64_t i = 0; i < calls; ++i) program.entry("f", i);
  for (uint64_t i = calls; i-- > 0;) program.ret("f", i, 2 * calls - i);
  program.graph("f");
  return program.last_graph().callees.calls + program.last_graph().inner_calls;
}

TEST(CallPaths, AreCountedAlsoIfMoreCallsAreOpenThanAreKept) {
  EXPECT_EQ(counted_in_recursion(Kind::tree, 70'000), 70'000u);
}

TEST(CallPaths, OfThreadsDoNotMix) {
  EXPECT_EQ(Program(Kind::calls).call("g", 20, 30, 2).call("f", 10, 50, 1).paths(),
            (Lines{"g 1 10 10", "f 1 40 40"}));
}

TEST(CallPaths, OfManyThreadsAreCountedAlsoIfNothingCallsThem) {
  Program program(Kind::calls);
  constexpr pid_t kThreads = 40;
  constexpr uint64_t kCalls = 40'000;
  for (uint64_t i = 0; i < kCalls; ++i)
    for (pid_t thread = 1; thread <= kThreads; ++thread)
      program.call("f", 10 * i, 10 * i + 2, thread);
  const std::string calls = std::to_string(kThreads * kCalls);
  EXPECT_EQ(program.paths(), (Lines{"f " + calls + " " + std::to_string(2 * kThreads * kCalls) +
                                    " " + std::to_string(2 * kThreads * kCalls)}));
}

TEST(CallPaths, OfStacksAreByTheirFunctionsWithoutDistances) {
  EXPECT_EQ(
      Program(Kind::calls)
          .stack("malloc", "parse+0x12\nmain+0x1f\n", 10)
          .stack("malloc", "parse+0x44\nmain+0x1f\n", 20)
          .stack("malloc", "main+0x7\n", 30)
          .paths(),
      (Lines{"main 0 0 0", "main/parse 0 0 0", "main/parse/malloc 2 0 0", "main/malloc 1 0 0"}));
}

TEST(CallPaths, AfterTheEndAreNotCounted) {
  EXPECT_EQ(Program(Kind::calls).call("f", 0, 10).end_at(15).call("f", 15, 20).paths(),
            (Lines{"f 1 10 10"}));
}

TEST(CallPaths, AreCountedAlsoIfTheyAreDeeperThanATreeMayBe) {
  EXPECT_EQ(counted_in_recursion(Kind::tree, 5000), 5000u);
  EXPECT_EQ(counted_in_recursion(Kind::calls, 5000), 5000u);
}

Program two_ways() {
  Program program(Kind::tree);
  program.entry("main", 0);
  for (const uint64_t at : {100, 200, 300})
    program.entry("get", at)
        .entry("f", at + 10)
        .entry("g", at + 11)
        .ret("g", at + 11, at + 20)
        .ret("f", at + 10, at + 50)
        .ret("get", at, at + 60);
  return program.entry("set", 400)
      .entry("f", 410)
      .entry("h", 411)
      .ret("h", 411, 412)
      .ret("f", 410, 420)
      .ret("set", 400, 430)
      .entry("f", 500)
      .ret("f", 500, 505)
      .ret("main", 0, 1000);
}

TEST(CallGraph, HasCallersAndCalleesMergedByPath) {
  // Of `get`: 3 calls of 40; of `set`: one of 10; of main() itself: one of 5.
  EXPECT_EQ(two_ways().graph("f"),
            (Lines{"^ get 3 120", "^   main 3 120", "^ set 1 10", "^   main 1 10", "^ main 1 5",
                   "f 5 135", "  g 3 27", "  h 1 1"}));
}

TEST(CallGraph, IsCutByDepthNumberAndShare) {
  EXPECT_EQ(
      two_ways().graph("f", {.depth = 1}),
      (Lines{"^ get 3 120 ...", "^ set 1 10 ...", "^ main 1 5", "f 5 135", "  g 3 27", "  h 1 1"}));
  EXPECT_EQ(two_ways().graph("f", {.top = 1}),
            (Lines{"^ get 3 120", "^   main 3 120", "f 5 135 +1", "  g 3 27"}));
  EXPECT_EQ(two_ways().graph("f", {.least = 0.05}),
            (Lines{"^ get 3 120", "^   main 3 120", "^ set 1 10", "^   main 1 10", "f 5 135 +1",
                   "  g 3 27"}));
}

TEST(CallGraph, OfARecursionHasInnerCallsBelowAndCountsTheirTimeOnce) {
  Program program(Kind::tree);
  program.entry("main", 0)
      .entry("f", 10)
      .entry("g", 20)
      .entry("f", 30)
      .ret("f", 30, 40)
      .ret("g", 20, 50)
      .ret("f", 10, 60)
      .ret("main", 0, 100);
  EXPECT_EQ(program.graph("f"), (Lines{"^ main 1 50", "f 1 50", "  g 1 30", "    f 1 10"}));
  EXPECT_EQ(program.last_graph().inner_calls, 1u);
}

TEST(CallGraph, SaysHowManyCallsHaveNoRecordedCaller) {
  Program program(Kind::calls);
  program.call("f", 0, 5).call("f", 10, 20).call("main", 8, 30);
  EXPECT_EQ(program.graph("f"), (Lines{"^ main 1 10", "f 2 15"}));
  EXPECT_EQ(program.last_graph().outermost_calls, 1u);
}

TEST(CallGraph, OfWhatWasNotCalledIsNone) {
  EXPECT_TRUE(two_ways().graph("nothing").empty());
}

}  // namespace
}  // namespace pinprick::recording
