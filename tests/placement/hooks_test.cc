// Where pinprick hooks a process for its own needs.
#include "placement/hooks.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "image/match.h"
#include "image/pattern.h"
#include "placement/probe_set.h"
#include "select/expression.h"

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

// The numbers of the calls say which they are; those that cannot be known are hooked as well.
TEST(Unmaps, AreHookedAtEachSystemCallThatMayTakeMemoryAway) {
  auto image = image::load_file(TARGETS "spawner_static");
  ASSERT_TRUE(image);
  const auto sites = unmap_sites(*image);
  ASSERT_TRUE(sites);
  std::set<std::string_view> hooked;
  for (const HookSite& site : *sites)
    for (std::string_view name : site.object->functions().names(*site.function))
      hooked.insert(name);
  for (const char* name : {"munmap", "mmap", "mprotect", "mremap", "brk", "madvise"})
    EXPECT_TRUE(hooked.contains(name)) << name;
  for (const char* name : {"read", "write", "getpid", "fork", "exit"})
    EXPECT_FALSE(hooked.contains(name)) << name;

  const auto all = *image::Pattern::parse("*", image::PatternSyntax::glob);
  auto matches = image::match_patterns(*image, {all}, {}).matches;
  ASSERT_FALSE(matches.empty());
  action::Action reads;
  reads.key.expression = *select::parse_expression("*(u8*)$arg1", select::Arguments::of_function);
  reads.key.text = "*(u8*)$arg1";
  EXPECT_TRUE(plan_probes(*image, {matches.front()}, {{reads}, {}}).watches_unmaps);
  EXPECT_FALSE(plan_probes(*image, {matches.front()}, Kind::count).watches_unmaps);
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
