#include "select/function_filter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pinprick::select {
namespace {

using Cause = FilterError::Cause;
using Default = FunctionFilters::Default;

FilteredFunction of(std::string_view name, std::string_view object = "", bool is_program = true) {
  return {.names = {name}, .objects = {object}, .is_of_program = is_program};
}

bool matches(std::string_view filter, const FilteredFunction& function) {
  const auto parsed = parse_function_filters(filter);
  return parsed && parsed->size() == 1 && parsed->front().matches(function);
}

// What the kernel's Documentation/trace/ftrace.rst and its filter_parse_regex say of each form.
TEST(FunctionFilter, MatchesAsTheKernelsFiltersDo) {
  struct Case {
    const char* filter;
    std::vector<const char*> matched, others;
  };
  const Case kCases[] = {
      {"sys_nanosleep", {"sys_nanosleep"}, {"sys_nanosleep2", "xsys_nanosleep", "sys"}},
      {"hrtimer_*", {"hrtimer_start", "hrtimer_"}, {"an_hrtimer_start", "hrtimer"}},
      {"*lock", {"lock", "spin_lock"}, {"locks", "lock_"}},
      {"*lock*", {"lock", "spin_lock", "locks", "a_lock_b"}, {"loc"}},
      {"t*lock", {"tlock", "try_lock", "tx_lock"}, {"lock", "try_locks", "a_try_lock"}},
      {"*a*b*", {"ab", "xaxbx"}, {"ba", "a"}},
      {"*", {"anything", "x"}, {}},
      {"**", {"anything"}, {}},
      {"get_?id", {"get_pid", "get_uid"}, {"get_id", "get_ppid"}},
      {"get_[pu]id", {"get_pid", "get_uid"}, {"get_gid", "get_]id"}},
      {"get_[!pu]id", {"get_gid"}, {"get_pid", "get_uid"}},
      {"r[a-c]d", {"rad", "rbd", "rcd"}, {"rdd", "r-d"}},
      {"r[]a]d", {"r]d", "rad"}, {"rbd"}},
      {"r[a-]d", {"rad", "r-d"}, {"rbd"}},
      {"r[ad", {"r[ad"}, {"rad"}},
      {"a\\*b", {"a*b"}, {"axb"}},
      {"*[0-9]x*", {"a1x", "1xy"}, {"ax"}},
      {"net::*::read", {"net::Conn::read"}, {"net::read"}},
  };
  for (const Case& one : kCases) {
    for (const char* name : one.matched)
      EXPECT_TRUE(matches(one.filter, of(name))) << one.filter << ' ' << name;
    for (const char* name : one.others)
      EXPECT_FALSE(matches(one.filter, of(name))) << one.filter << ' ' << name;
  }
}

TEST(FunctionFilter, OfAModuleMeansAnObject) {
  const auto in_libc = of("write", "libc", false), in_ext4 = of("write", "ext4", false);
  const auto in_program = of("write", "server", true);
  struct Case {
    const char* filter;
    bool libc, ext4, program;
  };
  // Modules are what the kernel itself is not; so libraries are what the program is not.
  const Case kCases[] = {
      {"write*:mod:libc", true, false, false},
      {":mod:libc", true, false, false},
      {"*:mod:lib*", true, false, false},
      {"read:mod:libc", false, false, false},
      {"*:mod:!libc", false, true, true},
      {":mod:*", true, true, false},
      {"*:mod:!*", false, false, true},
      {"write:mod:server", false, false, true},
      {"write", true, true, true},
  };
  for (const Case& one : kCases) {
    EXPECT_EQ(matches(one.filter, in_libc), one.libc) << one.filter;
    EXPECT_EQ(matches(one.filter, in_ext4), one.ext4) << one.filter;
    EXPECT_EQ(matches(one.filter, in_program), one.program) << one.filter;
  }
}

TEST(FunctionFilter, OfSeveralWordsAreSeveral) {
  const auto filters = parse_function_filters("  a* !ab\tc:mod:x\n");
  ASSERT_TRUE(filters);
  ASSERT_EQ(filters->size(), 3u);
  EXPECT_FALSE((*filters)[0].removes());
  EXPECT_TRUE((*filters)[1].removes());
  EXPECT_TRUE((*filters)[2].module);
  EXPECT_TRUE(parse_function_filters(" \t")->empty());
}

TEST(FunctionFilter, RefusesWhatHasAnotherMeaningInTheKernel) {
  const auto cause = [](std::string_view text) {
    return parse_function_filters(text).error().cause;
  };
  EXPECT_EQ(cause("123"), Cause::number);
  EXPECT_EQ(cause("!7"), Cause::number);
  EXPECT_EQ(cause("f:traceon"), Cause::command);
  EXPECT_EQ(cause("f:stacktrace:5"), Cause::command);
  EXPECT_EQ(cause("f:mod:"), Cause::module);
  EXPECT_EQ(cause("f:mod:!"), Cause::module);
  EXPECT_EQ(parse_function_filters("a f:dump").error().text, "f:dump");
  EXPECT_TRUE(parse_function_filters("*5"));
}

std::string contained(std::string_view text, Default by_default = Default::all) {
  FunctionFilters filters(by_default);
  const auto parsed = parse_function_filters(text);
  for (const FunctionFilter& one : *parsed) filters.add(one);
  std::string names;
  for (const char* name : {"a", "ab", "abc", "b"})
    if (filters.contain(of(name))) names += std::string(names.empty() ? "" : " ") + name;
  return names;
}

TEST(FunctionFilters, AreAppliedInTheirOrder) {
  EXPECT_EQ(contained("a*"), "a ab abc");
  EXPECT_EQ(contained("a* !ab*"), "a");
  EXPECT_EQ(contained("a* !ab* abc"), "a abc");
  EXPECT_EQ(contained("!ab a*"), "a ab abc");
  EXPECT_EQ(contained("a* !*"), "");
  EXPECT_EQ(contained("b a"), "a b");
}

TEST(FunctionFilters, ThatAddNothingLeaveTheDefault) {
  EXPECT_EQ(contained(""), "a ab abc b");
  EXPECT_EQ(contained("!a"), "a ab abc b");
  EXPECT_EQ(contained("", Default::none), "");
  FunctionFilters of_program(Default::program);
  EXPECT_TRUE(of_program.contain(of("f", "server", true)));
  EXPECT_FALSE(of_program.contain(of("f", "libc", false)));
}

TEST(TracedFunctions, AreNotThoseOfTheNotraceList) {
  TracedFunctions traced;
  traced.filters.add(parse_function_filters("a*")->front());
  traced.left_out.add(parse_function_filters("*c")->front());
  EXPECT_TRUE(traced.contain(of("ab")));
  EXPECT_FALSE(traced.contain(of("abc")));
  EXPECT_FALSE(traced.contain(of("b")));
}

}  // namespace
}  // namespace pinprick::select
