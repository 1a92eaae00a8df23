// Planning the probes of many functions together.
#include "actions_of.h"
#include "placement/probe_set.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "arch/assembler.h"
#include "arch/jump.h"
#include "placement/every_function.h"

namespace pinprick::placement {
namespace {

class NestedFunctions : public EveryFunction {
 protected:
  const char* program() const override { return IMAGE_PROGRAMS "nested"; }
  void SetUp() override {
    EveryFunction::SetUp();
    image::mean_each_instruction(entries_);
    matches_ = instructions_of(entries_);
    ASSERT_GT(matches_.size(), 10u);
  }

  std::vector<image::Match> matches_;
};

TEST_F(NestedFunctions, GetOneProbeForEachInstruction) {
  std::set<Address> sites;
  for (const image::Match& match : matches_)
    EXPECT_TRUE(sites.insert(match.site).second) << match.name();
}

class SeveralMeasures : public EveryFunction {
  const char* program() const override { return IMAGE_PROGRAMS "basic_pie"; }
};

TEST_F(SeveralMeasures, HaveAProbeEachAtOneInstructionAndWhatTimesCallsComesLast) {
  const auto actions = action::actions_of({Kind::latency, Kind::count, Kind::latency, Kind::count});
  std::vector<image::Match> all;
  for (const image::Match& entry : entries_)
    for (uint32_t pattern = 0; pattern < 4; ++pattern) {
      all.push_back(entry);
      all.back().pattern = pattern;
    }
  const ProbeSet set = plan_probes(all, actions);
  std::map<uint32_t, size_t> probes;
  for (const SitePatch& patch : set.patches) {
    std::set<uint32_t> here;
    bool is_timed = false;
    for (const size_t i : patch.probes) {
      const action::Action& action = set.action_of(set.probes[i]);
      EXPECT_TRUE(here.insert(action.measure).second) << "twice for one measure";
      EXPECT_TRUE(!is_timed || action.kind == Kind::latency) << "counted after timing began";
      is_timed = is_timed || action.kind == Kind::latency;
      ++probes[action.measure];
    }
  }
  // A function that cannot be timed is counted all the same.
  EXPECT_EQ(probes[1], plan_probes(entries_, Kind::count).probes.size());
  EXPECT_EQ(probes[0], plan_probes(entries_, Kind::latency).probes.size());
  EXPECT_EQ(probes[2], probes[0]);
  EXPECT_EQ(probes[3], probes[1]);
  EXPECT_GT(probes[1], probes[0]);
  EXPECT_GT(probes[0], 0u);
}

class CallsOfAProfiler : public EveryFunction {
  const char* program() const override { return TARGETS "profiled_by_fentry"; }
};

// Timing begins after the call, where an instruction may be counted as well.
TEST_F(CallsOfAProfiler, ComeBeforeAllThatIsDoneThereAndTimingIsTheLast) {
  const auto actions = action::actions_of({Kind::latency, Kind::count});
  std::vector<image::Match> all = entries_, each = entries_;
  image::mean_each_instruction(each);
  for (image::Match& match : each) match.pattern = 1;
  all.insert(all.end(), each.begin(), each.end());
  const ProbeSet set = plan_probes(all, actions);
  size_t both = 0;
  for (const SitePatch& patch : set.patches) {
    std::vector<Kind> at_first;
    for (const size_t i : patch.probes)
      if (set.probes[i].offset == 0) at_first.push_back(set.kind_of(set.probes[i]));
    if (at_first.size() < 2) continue;
    ++both;
    EXPECT_EQ(at_first.back(), Kind::latency);
  }
  EXPECT_GT(both, 2u);
}

class OverlappingFunctions : public NestedFunctions {
  const char* program() const override { return IMAGE_PROGRAMS "basic_pie"; }
};

TEST_F(OverlappingFunctions, NeverWriteTheSameBytesTwice) {
  const size_t wanted = matches_.size();
  // Every other instruction belongs to another function with the same range, so that the two plans
  // do not know of each other.
  std::map<const image::Function*, image::Function> twins;
  for (size_t i = 0; i < matches_.size(); i += 2)
    matches_[i].function =
        &twins.emplace(matches_[i].function, *matches_[i].function).first->second;
  const ProbeSet set = plan_probes(matches_, Kind::count);
  EXPECT_EQ(set.probes.size() + set.skipped.size(), wanted);
  std::vector<Range> written;
  for (const SitePatch& patch : set.patches) {
    const SitePlan& planned = patch.plan;
    written.push_back({planned.patch.site, planned.patch.site + planned.patch.written});
    if (planned.trampoline)
      written.push_back({planned.trampoline->address, planned.trampoline->address + 5});
    if (planned.depends_on) {
      ASSERT_LT(*planned.depends_on, set.patches.size());
      const Range window = set.patches[*planned.depends_on].plan.patch.touched();
      EXPECT_TRUE(window.contains(planned.trampoline->address));
    }
    for (size_t probe : patch.probes) EXPECT_EQ(&set.patches[set.probes[probe].patch], &patch);
  }
  std::sort(written.begin(), written.end(), [](Range a, Range b) { return a.begin < b.begin; });
  for (size_t i = 1; i < written.size(); ++i)
    EXPECT_LE(written[i - 1].end, written[i].begin) << std::hex << written[i].begin;
}

// punned.S at fixed addresses: `one` is a function of one byte, before `behind_one`.
class PunsThatEvict : public EveryFunction {
 protected:
  const char* program() const override { return TARGETS "punned_nopie"; }
  const image::Match& entry(std::string_view name) const {
    return *std::find_if(entries_.begin(), entries_.end(),
                         [&](const image::Match& match) { return match.function_name == name; });
  }
  ProbeSet plan(std::vector<image::Match> matches, std::vector<HookSite> hooks = {}) {
    return plan_probes(std::move(matches), Kind::count, hooks, IslandSpace::around(image_));
  }
  static const SitePatch& patch_of(const ProbeSet& set, std::string_view name) {
    const auto probe = std::find_if(set.probes.begin(), set.probes.end(), [&](const Probe& one) {
      return set.match_of(one).function_name == name;
    });
    return set.patches.at(probe->patch);
  }
  // The bytes of a jump from the patch's site to its island.
  static std::vector<uint8_t> jump_of(const SitePatch& patch) {
    std::vector<uint8_t> bytes(patch.plan.patch.written);
    arch::encode_jump(
        bytes, static_cast<int32_t>(*patch.plan.island - patch.plan.patch.site - bytes.size()));
    return bytes;
  }
  static void expect_one_ends_in(const SitePatch& one, const SitePatch& next) {
    EXPECT_TRUE(one.plan.ends_in_next_jump);
    EXPECT_EQ(one.plan.patch.site + 1, next.plan.patch.site);
    const auto pun = jump_of(one), jump = jump_of(next);
    EXPECT_TRUE(std::equal(pun.begin() + 1, pun.end(), jump.begin()));
    EXPECT_FALSE(next.plan.is_pun()) << "it would do without";
  }
};

TEST_F(PunsThatEvict, PlaceAJumpAtTheNextInstructionIfItHasNoProbe) {
  const ProbeSet set = plan({entry("one")});
  ASSERT_EQ(set.probes.size(), 1u);
  const SitePatch& one = patch_of(set, "one");
  ASSERT_TRUE(one.plan.depends_on);
  const SitePatch& next = set.patches.at(*one.plan.depends_on);
  expect_one_ends_in(one, next);
  EXPECT_TRUE(next.probes.empty());
}

TEST_F(PunsThatEvict, ShareTheJumpOfTheNextInstructionsProbe) {
  const ProbeSet set = plan({entry("one"), entry("behind_one"), entry("prefixed")});
  ASSERT_EQ(set.probes.size(), 3u);
  const SitePatch& one = patch_of(set, "one");
  ASSERT_TRUE(one.plan.depends_on);
  EXPECT_EQ(&set.patches.at(*one.plan.depends_on), &patch_of(set, "behind_one"));
  expect_one_ends_in(one, patch_of(set, "behind_one"));
}

TEST_F(PunsThatEvict, AreDroppedIfAHookTakesTheNextInstruction) {
  const image::Match& next = entry("behind_one");
  HookSite hook;
  hook.object = next.object;
  hook.function = next.function;
  hook.hook.kind = Hook::Kind::loader;
  const ProbeSet set = plan({entry("one"), entry("prefixed")}, {hook});
  ASSERT_EQ(set.probes.size(), 1u);
  EXPECT_EQ(set.match_of(set.probes[0]).name(), "prefixed");
  const SitePatch& prefixed = patch_of(set, "prefixed");
  ASSERT_TRUE(prefixed.plan.depends_on);
  EXPECT_EQ(prefixed.plan.patch.site + 2,
            set.patches.at(*prefixed.plan.depends_on).plan.patch.site);
  for (const SitePatch& patch : set.patches)
    EXPECT_EQ(patch.plan.patch.site == next.function->range.begin, patch.hook.has_value());
}

// parts.S, where each function and each part is entered in a different way.
class Parts : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto named = image::load_file(std::string(TARGETS) + GetParam());
    ASSERT_TRUE(named);
    image::Object& object = *named->objects.at(0);
    for (const image::Function& function : object.functions().functions())
      for (std::string_view name : object.functions().names(function))
        addresses_[std::string(name)] = function.range.begin;
  }
  // Of the program, or of the same program without symbols.
  void load(bool stripped) {
    auto loaded =
        image::load_file(std::string(TARGETS) + GetParam() + (stripped ? "_stripped" : ""));
    ASSERT_TRUE(loaded);
    image_ = *std::move(loaded);
    auto pattern = image::Pattern::parse("*", image::PatternSyntax::glob);
    std::vector<image::Pattern> wanted;
    wanted.push_back(*std::move(pattern));
    auto matches = image::match_patterns(image_, wanted, {}).matches;
    counted_ = plan_probes(matches, Kind::count);
    timed_ = plan_probes(std::move(matches), Kind::latency);
  }
  static const Probe* find(const ProbeSet& set, Address address) {
    for (const Probe& probe : set.probes)
      if (set.match_of(probe).function->range.begin == address) return &probe;
    return nullptr;
  }

  std::map<std::string, Address> addresses_;
  image::ProcessImage image_;
  ProbeSet counted_, timed_;
};
INSTANTIATE_TEST_SUITE_P(Programs, Parts, testing::Values("parts", "parts_nopie"),
                         [](const auto& chosen) { return std::string(chosen.param); });

TEST_P(Parts, ThatMayHaveDataInTheRedZoneKeepItAndAreNotTimed) {
  for (bool stripped : {false, true}) {
    load(stripped);
    for (const char* name : {"leaf.cold", "leaf.cold.1", "table.cold"}) {
      const Address address = addresses_.at(name);
      const Probe* counted = find(counted_, address);
      ASSERT_NE(counted, nullptr) << name;
      EXPECT_EQ(counted->stack(), arch::StackUse::keep_red_zone)
          << name << (stripped ? ", stripped" : "");
      EXPECT_EQ(find(timed_, address), nullptr) << name << (stripped ? ", stripped" : "");
    }
  }
}

TEST_P(Parts, FunctionsAreRecognisedByCallsPointersOrHarmlessCode) {
  for (bool stripped : {false, true}) {
    load(stripped);
    for (const char* name :
         {"leaf", "table", "ends", "calls", "called", "pointed", "passed", "tail"}) {
      const Address address = addresses_.at(name);
      const Probe* counted = find(counted_, address);
      ASSERT_NE(counted, nullptr) << name;
      EXPECT_EQ(counted->stack(), arch::StackUse::at_entry)
          << name << (stripped ? ", stripped" : "");
      EXPECT_NE(find(timed_, address), nullptr) << name << (stripped ? ", stripped" : "");
    }
  }
}

}  // namespace
}  // namespace pinprick::placement
