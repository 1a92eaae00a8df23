// What sites will hold, by where their stubs lie; the edits that follow; and what lies in islands.
#include "engine/stubs/site_jumps.h"

#include <gtest/gtest.h>

#include <cstring>

#include "arch/jump.h"
#include "engine/memory/kept_memory.h"
#include "engine/stubs/arena_layout.h"
#include "engine/stubs/islands.h"
#include "engine/text/text_edits.h"
#include "planned_patches.h"

namespace pinprick::engine {
namespace {

using layout::MappingEntry;
using layout::SiteEntry;

class SiteJumps : public PlannedPatches {
 protected:
  static arch::Stub stub_at(Address begin) {
    arch::Stub stub;
    stub.begin = begin;
    stub.copy = begin + 24;
    return stub;
  }
  // The journal of a plan with this patch alone.
  layout::Session journal_of(const placement::SitePatch& patch) const {
    layout::Session journal;
    SiteEntry site;
    site.address = patch.site();
    site.length = site.own = patch.plan.patch.written & 15;
    site.displaced = patch.plan.patch.displaced;
    journal.sites.push_back(site);
    if (!patch.plan.trampoline) return journal;
    SiteEntry trampoline;
    trampoline.address = patch.plan.trampoline->address + object_->bias();
    trampoline.length = trampoline.own = patch.plan.trampoline->length & 15;
    journal.sites.push_back(trampoline);
    return journal;
  }
  placement::SitePatch with_trampoline(uint8_t length) const {
    auto patch = patch_at(0);
    patch.plan.patch.written = length == kKeptJumpLength ? arch::kJumpLength : 2;
    patch.plan.trampoline = plan::Trampoline{kText + 64, length, {}};
    return patch;
  }
  placement::SitePatch pun() const {
    auto patch = patch_at(0);
    patch.plan.patch.tactic = plan::Tactic::pun;
    patch.plan.patch.displaced = 1;
    patch.plan.island = kText + 0x5000;
    return patch;
  }
  Address near() const { return object_->bias() + kText + 0x10'0000; }
  Address far() const { return object_->bias() + kText + (uint64_t{3} << 30); }
};

TEST_F(SiteJumps, LeadToTheStubAndSayWhereItsCopiesAre) {
  add_probed(patch_at(0));
  auto journal = journal_of(set_.patches[0]);
  EXPECT_TRUE(note_jumps(plan(), journal, 0, stub_at(near())));
  EXPECT_EQ(journal.sites[0].target(), near());
  EXPECT_EQ(journal.sites[0].copy(), near() + 24);
}

TEST_F(SiteJumps, AreNoneWhereTheStubIsOutOfReach) {
  add_probed(patch_at(0));
  auto journal = journal_of(set_.patches[0]);
  const ArmingPlan all = plan();
  EXPECT_FALSE(note_jumps(all, journal, 0, stub_at(far())));
  forget_jumps(all, journal, 0);
  EXPECT_EQ(journal.sites[0].jump, 0);
  EXPECT_EQ(journal.sites[0].copy_distance, 0);
}

TEST_F(SiteJumps, GoByTheTrampoline) {
  add_probed(with_trampoline(arch::kJumpLength));
  auto journal = journal_of(set_.patches[0]);
  EXPECT_TRUE(note_jumps(plan(), journal, 0, stub_at(near())));
  EXPECT_EQ(journal.sites[0].target(), Address{journal.sites[1].address});
  EXPECT_EQ(journal.sites[1].target(), near());
  EXPECT_EQ(journal.sites[1].copy(), near() + 24);
}

TEST_F(SiteJumps, AreNoneWhereAShortOneDoesNotReachItsTrampoline) {
  auto patch = with_trampoline(arch::kJumpLength);
  patch.plan.trampoline->address = kText + 1000;
  add_probed(std::move(patch));
  auto journal = journal_of(set_.patches[0]);
  EXPECT_FALSE(note_jumps(plan(), journal, 0, stub_at(near())));
}

// It is left out all the same: the stub's copies are out of the kept one's reach, too.
TEST_F(SiteJumps, LeaveAKeptStubLeadingHomeThatDoesNotReachOurs) {
  auto patch = with_trampoline(kKeptJumpLength);
  patch.plan.trampoline->address = kText - (uint64_t{1} << 30);
  add_probed(std::move(patch));
  auto journal = journal_of(set_.patches[0]);
  const Address stub = object_->bias() + kText + (uint64_t{3} << 29);
  EXPECT_FALSE(note_jumps(plan(), journal, 0, stub_at(stub)));
  EXPECT_EQ(journal.sites[1].target(), Address{journal.sites[0].address});
}

TEST_F(SiteJumps, OfAPunAreNoneWithoutItsIsland) {
  add_probed(pun());
  auto journal = journal_of(set_.patches[0]);
  const ArmingPlan all = plan();
  EXPECT_EQ(island_of(journal, all.set.patches[0]), 0u);
  EXPECT_FALSE(note_jumps(all, journal, 0, stub_at(near())));
}

TEST_F(SiteJumps, OfAPunEndInTheBytesThatAreThere) {
  add_probed(pun());
  auto journal = journal_of(set_.patches[0]);
  const ArmingPlan all = plan();
  const Address island = object_->bias() + kText + 0x5000;
  journal.mappings.push_back(
      {align_down(island, kPageSize), kPageSize, MappingEntry::Kind::islands, {}});
  SiteEntry& site = journal.sites[0];
  EXPECT_FALSE(note_jumps(all, journal, 0, stub_at(near()))) << "other bytes follow";
  arch::encode_jump(std::span(site.original).first(site.length),
                    static_cast<int32_t>(island - site.end()));
  site.original[0] = 0xc3;  // its own byte to write
  EXPECT_TRUE(note_jumps(all, journal, 0, stub_at(near())));
  EXPECT_EQ(site.target(), island);
}

TEST_F(SiteJumps, SayWhereAProbesCopyAndItsSwitchAre) {
  add_probed(patch_at(0));
  auto journal = journal_of(set_.patches[0]);
  journal.probes.resize(1);
  journal.switches.resize(1);
  arch::Stub stub = stub_at(near());
  stub.copies = {{0, 3}, {4, 9}};
  stub.switches = {{0, 0, stub.copy - 20, stub.copy - 10}};
  note_probes(plan(), journal, 0, stub);
  EXPECT_EQ(journal.probes[0].copy_offset, 3u);
  EXPECT_EQ(journal.switches[0].at, -20);
  EXPECT_EQ(journal.switches[0].past, -10);
}

TEST_F(SiteJumps, AreEditsOfSitesAndTrampolinesUntilTheirPatchIsDropped) {
  add_probed(with_trampoline(arch::kJumpLength));
  add_probed(patch_at(32));
  auto journal = journal_of(set_.patches[0]);
  const auto second = journal_of(set_.patches[1]);
  journal.sites.push_back(second.sites[0]);
  ArmingPlan all = plan();
  all.states[1].site = 2;
  ASSERT_TRUE(note_jumps(all, journal, 0, stub_at(near())));
  ASSERT_TRUE(note_jumps(all, journal, 1, stub_at(near() + 64)));
  ArmingEdits edits = arming_edits(all, journal);
  EXPECT_EQ(edits.patch_of, (std::vector<uint32_t>{0, 0, 1}));
  EXPECT_EQ(edits.edits[1].address, Address{journal.sites[1].address});
  all.drop(0, plan::Reason::thread_inside);
  edits.keep_armed(all);
  EXPECT_EQ(edits.patch_of, (std::vector<uint32_t>{1}));
  ASSERT_EQ(edits.edits.size(), 1u);
  EXPECT_EQ(edits.edits[0].address, Address{journal.sites[2].address});
}

TEST_F(SiteJumps, InIslandsLeadToTheStubsOfPunsThatAreArmed) {
  add_probed(pun());
  auto other = pun();
  other.plan.patch.site += 16;
  other.plan.island = kText + 0x5020;
  add_probed(std::move(other));
  ArmingPlan all = plan();
  all.drop(1, plan::Reason::out_of_reach);
  const MappingEntry page = {object_->bias() + kText + 0x5000, kPageSize,
                             MappingEntry::Kind::islands, MappingEntry::Progress::mapped};
  layout::Session journal;
  journal.mappings = {page};
  const std::vector<Address> stubs = {near(), near() + 64};
  const auto bytes = island_bytes(all, journal, page, stubs);
  ASSERT_EQ(bytes.size(), kPageSize - placement::kIslandMarkSize);
  const auto jump = arch::encode_indirect_jump(0, arch::kIndirectJumpLength);
  EXPECT_TRUE(std::equal(jump->begin(), jump->end(), bytes.begin()));
  Address led_to = 0;
  std::memcpy(&led_to, bytes.data() + arch::kIndirectJumpLength, sizeof led_to);
  EXPECT_EQ(led_to, near());
  EXPECT_EQ(bytes[0x20], arch::kBreakpoint) << "no jump leads there";
}

TEST_F(SiteJumps, OfPunsLeadToAsFewRangesOfPagesAsThereAre) {
  for (const uint64_t island : {0x9010u, 0x5000u, 0x5fffu, 0x6000u, 0x5800u}) {
    auto patch = pun();
    patch.plan.island = island;
    add_probed(std::move(patch));
  }
  const uint64_t bias = object_->bias();
  EXPECT_EQ(pages_of_islands(plan()),
            (std::vector<Range>{{bias + 0x5000, bias + 0x7000}, {bias + 0x9000, bias + 0xa000}}));
}

}  // namespace
}  // namespace pinprick::engine
