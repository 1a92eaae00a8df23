// Where code of .NET and Mono is probed: only where neither a fault nor a call is displaced.
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
std::map<std::string, Reason> planned(const std::string& program, Kind kind) {
  auto image = image::load_file(IMAGE_PROGRAMS + program);
  EXPECT_TRUE(image) << program;
  const auto all = *image::Pattern::parse("*", image::PatternSyntax::glob);
  const ProbeSet set = plan_probes(*image, image::match_patterns(*image, {all}, {}).matches, kind);
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

TEST(FunctionsOfNetAndMono, AreNotTimed) {
  for (const char* program : {"mono_pie", "core_clr_pie", "native_aot_pie"})
    for (const auto& [function, reason] : planned(program, Kind::latency))
      EXPECT_EQ(reason, Reason::runtime_reads_stack) << program << " " << function;
}

}  // namespace
}  // namespace pinprick::placement
