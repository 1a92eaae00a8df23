// Probes on code that the library itself uses: its dependencies, the C++ runtime, the loader.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "library/functions.h"
#include "library/place.h"
#include "pinprick/latency.h"
#include "pinprick/probe.h"

namespace pinprick {
namespace {

PINPRICK_INTEGER_ONLY void count(Registers&, void* user) noexcept {
  __atomic_fetch_add(static_cast<uint64_t*>(user), 1, __ATOMIC_RELAXED);
}

// Places probes where that is possible; the others are refused for various reasons
// (docs/library.md).
std::vector<Where> functions_of(const std::string& pattern) {
  std::vector<Where> found;
  size_t all = 0;
  for (const Where& where : must(find_functions(pattern))) {
    ++all;
    const auto probe = Probe::place(
        {.where = where, .pre = [](Registers&) {}, .allow_breakpoint = true, .enabled = false});
    if (probe)
      found.push_back(where);
    else
      EXPECT_THAT(probe.error().cause, testing::AnyOf(Cause::refused, Cause::blacklisted));
  }
  // In a libc without symbols, only functions with a name: half of them, or more.
  EXPECT_GT(found.size(), pattern.starts_with("libc:") ? all / 2 : all * 9 / 10) << pattern;
  return found;
}

std::vector<Probe> on_all(const std::vector<Where>& found, const Handler& handler) {
  std::vector<ProbeSpec> specs;
  for (const Where& where : found)
    specs.push_back({.where = where, .pre = handler, .allow_breakpoint = true});
  return must(Probe::place(std::move(specs)));
}

uint64_t missed(const std::vector<Probe>& probes) {
  uint64_t sum = 0;
  for (const Probe& probe : probes) sum += probe.missed();
  return sum;
}

// Everything for which the library uses the others; it reads libraries when new ones are loaded.
void use_the_library() {
  void* const library = ::dlopen(UNLOADED_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr);
  int hits = 0;
  const Probe probe = place({.where = self_window, .pre = [&](Registers&) { ++hits; }});
  const Latency latency = must(Latency::place("self_insn"));
  EXPECT_EQ(self_window(10, 7), 37);
  EXPECT_EQ(hits + static_cast<int>(probe.missed()), 1);
  EXPECT_THAT(list_probes(), testing::HasSubstr("self_window"));
  EXPECT_FALSE(Probe::place({.where = "no_such_function_anywhere", .pre = [](Registers&) {}}).ok());
  ::dlclose(library);
}

void throw_and_catch() {
  std::string what;
  try {
    throw std::runtime_error(std::string(100, 'x'));
  } catch (const std::exception& error) {
    what = error.what();
  }
  ASSERT_EQ(what.size(), 100u);
}

class Dependencies : public testing::TestWithParam<const char*> {};

TEST_P(Dependencies, CanBeProbedWhileTheLibraryUsesThem) {
  uint64_t hits = 0;
  const auto probes = on_all(functions_of(GetParam()), integer_only<&count>(&hits));
  use_the_library();
  throw_and_catch();
  EXPECT_GT(hits + missed(probes), 0u);
}

INSTANTIATE_TEST_SUITE_P(Objects, Dependencies,
                         testing::Values("libZydis:*", "libelf*:*", "libstdc++:*", "libgcc_s:*",
                                         "libc:*"));

TEST(Dependency, CountsHitsWithinTheLibraryAsMissedAlsoInHandlers) {
  std::atomic<int> hits{0};
  const auto probes = on_all(functions_of("libelf*:*"), [&](Registers&) { ++hits; });
  const Probe outer = place({.where = self_insn, .pre = [](Registers&) { use_the_library(); }});
  EXPECT_EQ(self_insn(1), 1001);
  EXPECT_EQ(hits, 0);
  EXPECT_GT(missed(probes), 0u);
}

class CppRuntime : public testing::TestWithParam<const char*> {};

// Handlers throw while an exception is being thrown, and their exceptions leave them. Not in all
// functions of the unwinder, as some run with its lock held.
TEST_P(CppRuntime, LetsHandlersThrowWhereTheProgramThrows) {
  uint64_t hits = 0;
  const uint64_t thrown = handler_exceptions();
  {
    const auto probes = on_all(functions_of(GetParam()), [&](Registers&) {
      __atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
      throw_and_catch();
      throw std::runtime_error("left");
    });
    throw_and_catch();
  }
  EXPECT_GT(hits, 0u);
  EXPECT_EQ(handler_exceptions() - thrown, hits);
  throw_and_catch();
}

INSTANTIATE_TEST_SUITE_P(Objects, CppRuntime,
                         testing::Values("libgcc_s:_Unwind_*", "libstdc++:__cxa_*"));

TEST(Breakpoint, IsRefusedWhereSignalHandlersReturn) {
  const auto probe = Probe::place(
      {.where = "libc:__restore_rt", .pre = [](Registers&) {}, .allow_breakpoint = true});
  ASSERT_FALSE(probe.ok());
  EXPECT_THAT(probe.error().cause, testing::AnyOf(Cause::refused, Cause::not_found));
}

TEST(Loader, CanBeProbed) {
  uint64_t hits = 0;
  const auto probes = on_all(functions_of("ld-linux-x86-64:*"), integer_only<&count>(&hits));
  use_the_library();
  EXPECT_GT(hits, 0u);
}

}  // namespace
}  // namespace pinprick
