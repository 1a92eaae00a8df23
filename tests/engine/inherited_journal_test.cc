#include "engine/journal/inherited_journal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "arch/jump.h"

namespace pinprick::engine {
namespace {

using layout::SemaphoreEntry;
using layout::SessionState;
using layout::SiteEntry;
using Phase = SiteEntry::Phase;

// Sites in memory of this process, which stands for a forked one.
class InheritedJournal : public testing::Test {
 protected:
  enum class Holds { jump, original, others_jump, breakpoint };

  size_t add(Phase before, Phase now, Holds holds) {
    const size_t i = journal_.sites.size();
    SiteEntry site;
    site.address = reinterpret_cast<uint64_t>(text_.data() + 8 * i);
    std::fill_n(site.original, arch::kJumpLength, uint8_t{0x90});
    site.jump = 0x1000;
    site.length = site.own = 5;
    site.displaced = 5;
    site.phase = before;
    if (now == Phase::gone || now == Phase::removed) site.leave_text(now);
    const auto there = std::span(text_).subspan(8 * i, arch::kJumpLength);
    std::copy_n(site.original, arch::kJumpLength, there.begin());
    if (holds != Holds::original)
      arch::encode_jump(there, holds == Holds::others_jump ? site.jump + 0x40 : site.jump);
    if (holds == Holds::breakpoint) there[0] = 0xcc;
    journal_.sites.push_back(site);
    return i;
  }
  layout::Session inherited() const {
    return engine::inherited(journal_, *target::Memory::open(::getpid()));
  }

  layout::Session journal_;

 private:
  std::array<uint8_t, 256> text_ = {};
};

TEST_F(InheritedJournal, HasTheSitesThatAreGoneInTheParentAndStillHoldTheJump) {
  journal_.header.state = SessionState::armed;
  const size_t usual = add(Phase::usual, Phase::gone, Holds::jump);
  const size_t dependent = add(Phase::dependent, Phase::removed, Holds::jump);
  const size_t hook = add(Phase::loader_hook, Phase::gone, Holds::jump);
  const auto inherited = this->inherited();
  EXPECT_EQ(inherited.sites[usual].phase, Phase::usual);
  EXPECT_EQ(inherited.sites[dependent].phase, Phase::dependent);
  EXPECT_EQ(inherited.sites[hook].phase, Phase::loader_hook);
}

TEST_F(InheritedJournal, HasASiteWithABreakpointInTheJump) {
  const size_t site = add(Phase::usual, Phase::gone, Holds::breakpoint);
  EXPECT_TRUE(inherited().sites[site].is_in_text());
}

// Another object may lie there by now, with probes of its own.
TEST_F(InheritedJournal, LeavesOutASiteThatHoldsAnotherJump) {
  const size_t site = add(Phase::usual, Phase::gone, Holds::others_jump);
  EXPECT_EQ(inherited().sites[site].phase, Phase::gone);
}

TEST_F(InheritedJournal, LeavesOutSitesThatHoldTheirOwnBytesOrWereNeverArmed) {
  const size_t gone = add(Phase::usual, Phase::gone, Holds::original);
  const size_t removed = add(Phase::usual, Phase::removed, Holds::original);
  const size_t left_out = add(Phase::left_out, Phase::left_out, Holds::jump);
  const auto inherited = this->inherited();
  EXPECT_EQ(inherited.sites[gone].phase, Phase::gone);
  EXPECT_EQ(inherited.sites[removed].phase, Phase::removed);
  EXPECT_EQ(inherited.sites[left_out].phase, Phase::left_out);
}

TEST_F(InheritedJournal, RemembersTheFirstOrderOfASiteThatWasRemovedAndIsGone) {
  const size_t site = add(Phase::dependent, Phase::removed, Holds::jump);
  journal_.sites[site].leave_text(Phase::gone);
  EXPECT_EQ(inherited().sites[site].phase, Phase::dependent);
}

TEST_F(InheritedJournal, IsArmedAfterTheParentWasDisarmedButNotBeforeItWasArmed) {
  journal_.header.state = SessionState::disarmed;
  EXPECT_EQ(inherited().header.state, SessionState::armed);
  journal_.header.state = SessionState::preparing;
  EXPECT_EQ(inherited().header.state, SessionState::preparing);
}

// The parent was disarmed, and its memory is unmapped (disarm.cc).
TEST_F(InheritedJournal, HasTheMemoryThatTheParentsJournalDoesNotHaveAnyMore) {
  using Kind = layout::MappingEntry::Kind;
  using Progress = layout::MappingEntry::Progress;
  for (const Kind kind : {Kind::runtime_data, Kind::stubs, Kind::scratch})
    journal_.mappings.push_back({0x1000, 0x1000, kind, Progress::none});
  journal_.mappings.push_back({0, 0x1000, Kind::islands, Progress::none});
  const auto inherited = this->inherited();
  EXPECT_EQ(inherited.mappings[0].progress, Progress::mapped);
  EXPECT_EQ(inherited.mappings[1].progress, Progress::mapped);
  EXPECT_EQ(inherited.mappings[2].progress, Progress::none);
  EXPECT_EQ(inherited.mappings[3].progress, Progress::none);
}

TEST_F(InheritedJournal, HasSemaphoresRaisedThatWereLoweredInTheParent) {
  using Progress = SemaphoreEntry::Progress;
  for (const Progress progress : {Progress::untouched, Progress::raised, Progress::lowered})
    journal_.semaphores.emplace_back().progress = progress;
  const auto inherited = this->inherited();
  EXPECT_EQ(inherited.semaphores[0].progress, Progress::untouched);
  EXPECT_EQ(inherited.semaphores[1].progress, Progress::raised);
  EXPECT_EQ(inherited.semaphores[2].progress, Progress::raised);
}

}  // namespace
}  // namespace pinprick::engine
