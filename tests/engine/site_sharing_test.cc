// Which patches come to be at sites that other sessions have: an object that is as if it was loaded
// into this process's own memory, with another session's jumps in it.
#include "engine/owners/site_sharing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "planned_patches.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using layout::ProbeEntry;
using layout::SiteEntry;
using testing::ElementsAre;
using testing::Key;

class SiteSharing : public PlannedPatches {
 protected:
  void SetUp() override {
    text_ = static_cast<uint8_t*>(
        ::mmap(nullptr, 2 * kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(text_, MAP_FAILED);
    load(reinterpret_cast<Address>(text_) - kText);
    const auto code = object_->code_from(kText).first(kPageSize);
    std::copy(code.begin(), code.end(), text_);
    journal_.header.state = layout::SessionState::armed;
    journal_.mappings.push_back(
        {stub(0), kPageSize, MappingEntry::Kind::stubs, MappingEntry::Progress::mapped});
  }
  ~SiteSharing() override { ::munmap(text_, 2 * kPageSize); }

  Address site(uint64_t offset) const { return reinterpret_cast<Address>(text_) + offset; }
  Address stub(uint64_t offset) const { return site(kPageSize + offset); }

  // Another session's jump, in the text; it leads to its stub, or to `to`.
  SiteEntry& other_at(uint64_t offset, uint8_t length, uint8_t displaced, Address to = 0) {
    SiteEntry entry;
    entry.address = site(offset);
    entry.length = entry.own = length & 15;
    entry.displaced = displaced;
    std::memcpy(entry.original, text_ + offset, length);
    const Address target = to != 0 ? to : stub(journal_.sites.size() * 64);
    entry.jump = static_cast<int32_t>(target - entry.end());
    entry.copy_distance =
        static_cast<int32_t>(stub(journal_.sites.size() * 64 + 32) - entry.address);
    const patch::TextEdit edit = patch::arming(entry);
    std::memcpy(text_ + offset, edit.after, edit.length);
    journal_.sites.push_back(entry);
    return journal_.sites.back();
  }
  ArmingPlan share() {
    ArmingPlan plan(std::move(set_));
    const layout::Session* const journals[] = {&journal_};
    const OtherSites others(journals, *memory_);
    share_sites(plan, others, *memory_);
    return plan;
  }

  uint8_t* text_ = nullptr;
  layout::Session journal_;
  std::optional<target::Memory> memory_ = *target::Memory::open(::getpid());
};

TEST_F(SiteSharing, TakesTheWindowThatIsThere) {
  other_at(0, 5, 9);
  add_probed(patch_at(0));
  const ArmingPlan plan = share();
  EXPECT_TRUE(plan.in_the_way.empty());
  ASSERT_TRUE(plan.shared.contains(0));
  EXPECT_EQ(plan.shared.at(0).below, stub(0));
  EXPECT_EQ(plan.set.patches[0].plan.patch.displaced, 9);
}

TEST_F(SiteSharing, LeavesAPatchAloneThatIsNowhereNearOthers) {
  other_at(0, 5, 9);
  add_probed(patch_at(16));
  const ArmingPlan plan = share();
  EXPECT_TRUE(plan.in_the_way.empty());
  EXPECT_TRUE(plan.shared.empty());
}

TEST_F(SiteSharing, LeavesOutWhatReachesIntoAnothersWindow) {
  other_at(4, 5, 9);
  add_probed(patch_at(0));
  EXPECT_THAT(share().in_the_way, ElementsAre(Key(0)));
}

// Its probe was removed, and the text restored, while a thread may be in its stub.
TEST_F(SiteSharing, LeavesOutWhatAThreadInARemovedStubWouldReturnInto) {
  SiteEntry& removed = other_at(0, 5, 7);
  removed.phase = SiteEntry::Phase::removed;
  std::copy_n(removed.original, removed.own, text_);
  add_probed(patch_at(4));  // over the instruction at 7
  add_probed(patch_at(7));  // begins there
  add_probed(patch_at(0));  // ends before
  add_probed(patch_at(32));
  const ArmingPlan plan = share();
  EXPECT_THAT(plan.in_the_way, ElementsAre(testing::Pair(0, plan::Reason::thread_inside)));
  EXPECT_TRUE(plan.shared.empty());
}

TEST_F(SiteSharing, LeavesOutTheSameOfASessionWhoseMemoryHadToStay) {
  SiteEntry& restored = other_at(0, 5, 7);
  std::copy_n(restored.original, restored.own, text_);
  journal_.header.state = layout::SessionState::disarmed;
  add_probed(patch_at(4));
  add_probed(patch_at(0));
  EXPECT_THAT(share().in_the_way, ElementsAre(testing::Pair(0, plan::Reason::thread_inside)));
}

TEST_F(SiteSharing, LeavesOutAProbeBetweenInstructionsThatAnotherDisplaces) {
  other_at(0, 5, 9);
  add_probed(patch_at(0));
  set_.probes[0] = placement::Probe(0, 0, 3, arch::StackUse::at_entry);
  EXPECT_THAT(share().in_the_way, ElementsAre(Key(0)));
}

TEST_F(SiteSharing, LeavesOutAPun) {
  other_at(0, 5, 9);
  auto pun = patch_at(0);
  pun.plan.island = kText + 0x5000;
  add_probed(std::move(pun));
  EXPECT_THAT(share().in_the_way, ElementsAre(Key(0)));
}

TEST_F(SiteSharing, TakesTheTrampolineThatIsThereAndTheWindowThatItLiesIn) {
  other_at(32, 5, 14);              // the window
  other_at(0, 2, 4, site(32 + 5));  // by a short jump
  other_at(32 + 5, 5, 0);           // to this one
  add_probed(patch_at(0));
  const ArmingPlan plan = share();
  EXPECT_TRUE(plan.in_the_way.empty());
  ASSERT_EQ(plan.set.patches.size(), 2u) << "one for the window";
  const placement::SitePlan& ours = plan.set.patches[0].plan;
  ASSERT_TRUE(ours.trampoline);
  EXPECT_EQ(ours.trampoline->address, kText + 32 + 5);
  ASSERT_TRUE(ours.depends_on);
  EXPECT_EQ(*ours.depends_on, 1u);
  EXPECT_EQ(plan.set.patches[1].site(), site(32));
  EXPECT_TRUE(plan.set.patches[1].probes.empty());
  EXPECT_TRUE(plan.shared.contains(0) && plan.shared.contains(1));
}

TEST_F(SiteSharing, DropsAWindowThatWasToHoldATrampolineWhereAnothersIsUsed) {
  other_at(32, 5, 14);
  other_at(0, 2, 4, site(32 + 5));
  other_at(32 + 5, 5, 0);
  const size_t window = add(patch_at(64));
  auto patch = patch_at(0);
  patch.plan.patch.written = 2;
  patch.plan.trampoline = plan::Trampoline{kText + 64 + 5, 5, {}};
  patch.plan.depends_on = window;
  add_probed(std::move(patch));
  EXPECT_THAT(share().in_the_way, ElementsAre(::testing::Key(window)));
}

// Theirs was planned for a probe alone, ours with room for the trampoline of another patch. Their
// stub returns to the end of their window.
TEST_F(SiteSharing, PutsNoTrampolineAfterTheEndOfAWindowThatIsThere) {
  constexpr uint8_t kRoom = 10, kTheirs[] = {5, kRoom - 1, kRoom};
  std::vector<size_t> probed;
  for (uint64_t i = 0; i < std::size(kTheirs); ++i) {
    const uint64_t begin = 64 * i, window_at = begin + 32;
    other_at(window_at, 5, kTheirs[i]);
    auto window = patch_at(window_at);
    window.plan.patch.displaced = kRoom;
    auto patch = patch_at(begin);
    patch.plan.patch.written = 2;
    patch.plan.trampoline = plan::Trampoline{kText + window_at + 5, 5, {}};
    patch.plan.depends_on = add(std::move(window));
    probed.push_back(add_probed(std::move(patch)));
  }
  const ArmingPlan plan = share();
  EXPECT_TRUE(plan.in_the_way.contains(probed[0]));
  EXPECT_TRUE(plan.in_the_way.contains(probed[1]));
  EXPECT_FALSE(plan.in_the_way.contains(probed[2]));
}

TEST_F(SiteSharing, HasTimedCallsComeAfterOthersThatTimeThem) {
  SiteEntry& timed = other_at(0, 5, 9);
  timed.link = SiteEntry::Link::before_copy;
  ProbeEntry probe;
  probe.kind = ProbeEntry::Kind::latency;
  journal_.probes.push_back(probe);
  const Address link = timed.copy() - 5;
  constexpr uint8_t kNop[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
  std::memcpy(text_ + (link - site(0)), kNop, sizeof kNop);
  set_.actions = placement::Kind::latency;
  add_probed(patch_at(0));
  const ArmingPlan plan = share();
  ASSERT_TRUE(plan.shared.contains(0));
  EXPECT_EQ(plan.shared.at(0).link, link);
  EXPECT_EQ(plan.shared.at(0).below, 0u);
}

}  // namespace
}  // namespace pinprick::engine
