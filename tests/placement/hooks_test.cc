// Where pinprick hooks a process for its own needs.
#include "placement/hooks.h"

#include <gtest/gtest.h>

#include <string>

#include "image/match.h"
#include "image/pattern.h"
#include "placement/probe_set.h"

namespace pinprick::placement {
namespace {

// vfork, clone and clone3 of the C library, in a static program.
class ChildrenOf : public testing::TestWithParam<const char*> {};

TEST_P(ChildrenOf, AreMarkedAtEachSystemCallThatStartsThem) {
  auto image = image::load_file(TARGETS + std::string(GetParam()));
  ASSERT_TRUE(image);
  const auto sites = vfork_sites(*image);
  ASSERT_TRUE(sites);
  EXPECT_EQ(sites->size(), 3u);
  const auto all = *image::Pattern::parse("*", image::PatternSyntax::glob);
  auto matches = image::match_patterns(*image, {all}, {}).matches;
  ASSERT_FALSE(matches.empty());
  EXPECT_TRUE(plan_probes(*image, {matches.front()}, Kind::count).marks_children);
}

INSTANTIATE_TEST_SUITE_P(StaticPrograms, ChildrenOf,
                         testing::Values("spawner_static", "spawner_static_stripped"),
                         [](const auto& program) { return std::string(program.param); });

TEST(Children, AreNotCalledMarkedIfWhatStartsThemIsUnknown) {
  auto image = image::load_file(TARGETS "steady");  // without its C library
  ASSERT_TRUE(image);
  EXPECT_FALSE(vfork_sites(*image));
}

// musl has no unwind tables, so that without symbols nothing says where its functions are.
TEST(Unwinders, AreFoundInStaticProgramsWithMuslThatAskTheLoader) {
  for (const char* program : {"forced_musl", "forced_musl_stripped"}) {
    auto image = image::load_file(TARGETS + std::string(program));
    if (!image) GTEST_SKIP() << "musl-gcc or LLVM's libunwind is not installed";
    const auto sites = hook_sites(*image, Search::by_code);
    ASSERT_EQ(sites.size(), 1u) << program;
    EXPECT_EQ(sites.front().hook.kind, Hook::Kind::object_list);
    EXPECT_FALSE(may_unwind_elsewhere(*image, sites)) << program;
    const auto all = *image::Pattern::parse("*", image::PatternSyntax::glob);
    const ProbeSet set =
        plan_probes(*image, image::match_patterns(*image, {all}, {}).matches, Kind::latency);
    EXPECT_FALSE(set.may_unwind_elsewhere) << program;
    EXPECT_FALSE(set.probes.empty()) << program;
  }
}

}  // namespace
}  // namespace pinprick::placement
