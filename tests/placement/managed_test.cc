// Where code of .NET, Mono and GHC is probed: of the former only where neither a fault nor a call
// is displaced, of the latter only at its start.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "image/match.h"
#include "image/pattern.h"
#include "placement/probe_set.h"

namespace pinprick::placement {
namespace {

using plan::Reason;

constexpr Reason kPlaced{255};

// How each function of the program is probed.
std::map<std::string, Reason> planned(const std::string& program, Kind kind,
                                      bool each_instruction = false) {
  auto image = image::load_file(IMAGE_PROGRAMS + program);
  EXPECT_TRUE(image) << program;
  const auto all = *image::Pattern::parse("*", image::PatternSyntax::glob);
  auto matches = image::match_patterns(*image, {all}, {}).matches;
  for (image::Match& match : matches) match.each_instruction = each_instruction;
  const ProbeSet set = plan_probes(*image, std::move(matches), kind);
  std::map<std::string, Reason> results;
  for (const Skipped& skipped : set.skipped)
    results.emplace(skipped.match.name(), skipped.refusal.reason);
  for (const Probe& probe : set.probes) results.emplace(set.match_of(probe).name(), kPlaced);
  return results;
}

struct Expected {
  const char* function;
  Reason in_mono, in_core_clr;
};
constexpr Expected kExpected[] = {
    {"quiet", kPlaced, kPlaced},
    {"reads", Reason::runtime_reads_code, Reason::runtime_reads_code},
    {"divides", Reason::runtime_reads_code, Reason::runtime_reads_code},
    {"calls", Reason::runtime_reads_code, kPlaced},
    {"framed", Reason::runtime_reads_code, kPlaced},
};

TEST(MethodsOfMono, AreCountedWhereNothingCanFaultOrCall) {
  for (const char* program : {"mono_pie", "mono_nopie"}) {
    auto results = planned(program, Kind::count);
    for (const Expected& one : kExpected)
      EXPECT_EQ(results[one.function], one.in_mono) << program << " " << one.function;
    EXPECT_EQ(results["plt"], Reason::reserved) << program;
    EXPECT_EQ(results["after"], kPlaced) << program;
  }
}

TEST(FunctionsOfCoreClr, AreCountedWhereTheyHaveAFrameOrCannotFault) {
  for (const char* program : {"core_clr_pie", "core_clr_nopie"}) {
    auto results = planned(program, Kind::count);
    for (const Expected& one : kExpected)
      EXPECT_EQ(results[one.function], one.in_core_clr) << program << " " << one.function;
  }
}

TEST(FunctionsOfNativeAot, AreCountedUnlessTheyAreMethods) {
  auto results = planned("native_aot_pie", Kind::count);
  EXPECT_EQ(results["method"], Reason::reserved);
  EXPECT_EQ(results["reads"], Reason::runtime_reads_code);
  EXPECT_EQ(results["framed"], kPlaced);
}

TEST(FunctionsOfGhc, AreCountedAtTheirStartAlone) {
  for (const char* program : {"ghc_pie", "ghc_nopie"}) {
    for (const auto& [function, reason] : planned(program, Kind::count))
      EXPECT_EQ(reason, kPlaced) << program << " " << function;
    auto instructions = planned(program, Kind::count, true);
    EXPECT_EQ(instructions["continues"], kPlaced) << program;
    EXPECT_EQ(instructions["of_c+0x4"], kPlaced) << program;
    // From the table on. Before it, instructions may be in the stub of the first one.
    bool is_told = false;
    for (uint64_t offset = 0x18; offset < 0x30; ++offset) {
      const auto found = instructions.find(fmt::format("continues+{:#x}", offset));
      if (found == instructions.end()) continue;
      is_told = is_told || found->second == Reason::tables_inside;
      EXPECT_FALSE(plan::leaves_room_for_breakpoint(found->second)) << found->first;
      EXPECT_NE(found->second, kPlaced) << program << " " << found->first;
    }
    EXPECT_TRUE(is_told) << program;
  }
}

TEST(FunctionsOfNetAndMono, AreNotTimedWhereTheRuntimeLooksUpTheirInstructions) {
  for (const char* program : {"mono_pie", "core_clr_pie", "native_aot_pie"}) {
    auto results = planned(program, Kind::latency);
    for (const char* function : {"reads", "divides", "calls"})
      EXPECT_EQ(results[function], Reason::runtime_reads_stack) << program << " " << function;
  }
  auto results = planned("mono_pie", Kind::latency);
  EXPECT_EQ(results["quiet"], Reason::runtime_reads_stack);
  EXPECT_EQ(results["after"], kPlaced) << "code of C, which is timed by exits";
}

TEST(FunctionsOfNetAndMono, HaveNoSlots) {
  for (const char* program : {"mono_pie", "core_clr_pie", "native_aot_pie"}) {
    auto image = image::load_file(IMAGE_PROGRAMS + std::string(program));
    ASSERT_TRUE(image) << program;
    const auto all = *image::Pattern::parse("*", image::PatternSyntax::glob);
    const ProbeSet set =
        plan_probes(*image, image::match_patterns(*image, {all}, {}).matches, Kind::latency);
    ASSERT_FALSE(set.probes.empty()) << program;
    for (const Probe& probe : set.probes)
      EXPECT_EQ(set.patches[probe.patch].plan.timing, CallTiming::only_by_exits) << program;
  }
}

}  // namespace
}  // namespace pinprick::placement
