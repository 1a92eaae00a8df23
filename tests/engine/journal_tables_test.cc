// What a session file says of a plan.
#include "engine/journal/journal_tables.h"
#include "actions_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planned_patches.h"

namespace pinprick::engine {
namespace {

using layout::SiteEntry;

class JournalTables : public PlannedPatches {
 protected:
  layout::Session fill(ArmingPlan& plan, Switches switches = Switches::none) const {
    const Arena arena = {object_.get(), object_->extent(), {0, plan.set.patches.size()}, 0, 0};
    layout::Session journal;
    const uint32_t statistic =
        fill_tables(plan, {&arena, 1}, switches, "requests", nullptr, journal);
    EXPECT_EQ(journal.name(statistic), "requests");
    return journal;
  }
};

TEST_F(JournalTables, HaveATrampolineRightAfterItsSite) {
  auto first = patch_at(0);
  first.plan.trampoline = plan::Trampoline{kText + 40, 5, {1, 2, 3, 4, 5}};
  add_probed(std::move(first));
  add_probed(patch_at(16));
  ArmingPlan all = plan();
  const auto journal = fill(all);
  ASSERT_EQ(journal.sites.size(), 3u);
  EXPECT_EQ(all.states[0].site, 0u);
  EXPECT_EQ(all.states[1].site, 2u);
  EXPECT_EQ(Address{journal.sites[1].address}, object_->bias() + kText + 40);
  EXPECT_EQ(journal.sites[1].displaced, 0);
  EXPECT_EQ(journal.sites[1].original[4], 5);
  EXPECT_EQ(journal.sites[0].phase, SiteEntry::Phase::dependent) << "needs the trampoline";
  EXPECT_EQ(journal.sites[1].phase, SiteEntry::Phase::usual);
  EXPECT_EQ(journal.probes[1].site, 2u);
}

TEST_F(JournalTables, HaveWhatASiteHeldBefore) {
  add_probed(patch_at(0));
  ArmingPlan all = plan();
  const auto journal = fill(all);
  const auto text = object_->code_from(kText);
  EXPECT_TRUE(std::equal(text.begin(), text.begin() + 5, journal.sites.at(0).original));
  EXPECT_EQ(journal.sites[0].original[5], 0) << "as far as it is written";
}

TEST_F(JournalTables, HaveUnwindersHooksWrittenFirstAndTheLoadersLast) {
  add(hook(patch_at(0), placement::Hook::Kind::unwinder));
  add(hook(patch_at(16), placement::Hook::Kind::vfork));
  add(hook(patch_at(32), placement::Hook::Kind::loader));
  ArmingPlan all = plan();
  const auto journal = fill(all);
  EXPECT_EQ(journal.sites.at(0).phase, SiteEntry::Phase::unwinder_hook);
  EXPECT_EQ(journal.sites.at(1).phase, SiteEntry::Phase::unwinder_hook);
  EXPECT_EQ(journal.sites.at(2).phase, SiteEntry::Phase::loader_hook);
}

TEST_F(JournalTables, NameAFunctionOnceForProbesOfOneMatch) {
  add_probed(patch_at(0));
  auto second = patch_at(16);
  second.probes = {1, 1};
  set_.probes.emplace_back(0, 1, uint8_t{0}, arch::StackUse::at_entry);
  add(std::move(second));
  add_probed(patch_at(32));
  ArmingPlan all = plan();
  const auto journal = fill(all);
  ASSERT_EQ(journal.functions.size(), 2u);
  EXPECT_EQ(journal.functions[1].first_probe, 2u);
  EXPECT_EQ(journal.name(journal.functions[0].name), "function");
  EXPECT_EQ(journal.name(0), "");
}

TEST_F(JournalTables, HaveASwitchForEachProbeWhereTheyAreWanted) {
  add_probed(patch_at(0));
  add_probed(patch_at(16));
  ArmingPlan all = plan();
  EXPECT_EQ(fill(all).switches.size(), 0u);
  EXPECT_EQ(fill(all, Switches::for_each_probe).switches.size(), 2u);
}

TEST_F(JournalTables, HaveALinkWhereCallsAreTimedOrASiteIsShared) {
  set_.actions = placement::Kind::latency;
  add_probed(patch_at(0));
  add(hook(patch_at(16), placement::Hook::Kind::unwinder));
  const size_t shared = add(hook(patch_at(32), placement::Hook::Kind::vfork));
  ArmingPlan all = plan();
  all.shared[shared] = {};
  const auto journal = fill(all);
  EXPECT_EQ(journal.sites.at(0).link, SiteEntry::Link::before_copy);
  EXPECT_EQ(journal.sites.at(1).link, SiteEntry::Link::none);
  EXPECT_EQ(journal.sites.at(2).link, SiteEntry::Link::at_start);
}

TEST_F(JournalTables, CountACounterOrAHistogramForEachProbe) {
  add_probed(patch_at(0));
  add_probed(patch_at(16));
  for (const auto kind : {placement::Kind::count, placement::Kind::latency}) {
    set_.actions = kind;
    ArmingPlan all(set_);
    all.note_cells();
    const auto journal = fill(all);
    const auto counts = count_tables(all, journal, 7);
    const bool is_count = kind == placement::Kind::count;
    EXPECT_EQ(counts.counters, is_count ? 2u : 0u);
    EXPECT_EQ(counts.histograms, is_count ? 0u : 2u);
    EXPECT_EQ(counts.mappings, 7u);
    EXPECT_EQ(counts.name_bytes, journal.names.size());
  }
}

TEST_F(JournalTables, NumberTheCellsOfEachKindInTheOrderOfTheProbes) {
  using placement::Kind;
  for (const uint64_t at : {0, 16, 32, 48}) add_probed(patch_at(at));
  for (uint32_t i = 0; i < set_.matches.size(); ++i) set_.matches[i].pattern = i;
  set_.actions = action::actions_of({Kind::latency, Kind::count, Kind::count, Kind::latency});
  ArmingPlan all(set_);
  all.note_cells();
  const auto journal = fill(all);
  const auto counts = count_tables(all, journal, 0);
  EXPECT_EQ(counts.counters, 2u);
  EXPECT_EQ(counts.histograms, 2u);
  EXPECT_EQ(journal.cells_of_probes(), (std::vector<uint32_t>{0, 0, 1, 1}));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(all.cell_of(i), journal.cells_of_probes()[i]) << i;
}

}  // namespace
}  // namespace pinprick::engine
