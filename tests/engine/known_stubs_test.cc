// The order in which stubs come, and which lead through those that were kept.
#include "engine/stubs/known_stubs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <span>

#include "arch/jump.h"
#include "engine/memory/kept_memory.h"
#include "image/maps.h"
#include "planned_patches.h"

namespace pinprick::engine {
namespace {

using testing::ElementsAre;

class KnownStubs : public PlannedPatches {
 protected:
  placement::SitePatch known_at(uint64_t offset) const {
    auto patch = patch_at(offset);
    patch.plan.patch.at_start = true;
    return patch;
  }
  static std::vector<uint64_t> offsets(const placement::ProbeSet& set) {
    std::vector<uint64_t> all;
    for (const auto& patch : set.patches) all.push_back(patch.plan.patch.site - kText);
    return all;
  }
};

TEST_F(KnownStubs, ComeFirstAndTheOthersKeepTheirOrder) {
  add_probed(patch_at(0));
  add_probed(known_at(10));
  add_probed(patch_at(20));
  add_probed(known_at(30));
  put_known_first(set_);
  EXPECT_THAT(offsets(set_), ElementsAre(10, 30, 0, 20));
}

TEST_F(KnownStubs, KeepTheirProbesWhenTheyMove) {
  for (const uint64_t offset : {0u, 10u, 20u}) add_probed(patch_at(offset));
  add_probed(known_at(30));
  put_known_first(set_);
  for (size_t i = 0; i < set_.patches.size(); ++i) {
    ASSERT_EQ(set_.patches[i].probes.size(), 1u);
    const placement::Probe& probe = set_.probes[set_.patches[i].probes[0]];
    EXPECT_EQ(probe.patch, i);
    EXPECT_EQ(set_.matches[probe.match].site, set_.patches[i].site());
  }
}

TEST_F(KnownStubs, AreStillWhatOthersDependOnWhenTheyMove) {
  add_probed(patch_at(0));
  auto dependent = patch_at(10);
  dependent.plan.depends_on = 2;
  add_probed(std::move(dependent));
  add_probed(known_at(20));
  put_known_first(set_);
  ASSERT_THAT(offsets(set_), ElementsAre(20, 0, 10));
  EXPECT_EQ(*set_.patches[2].plan.depends_on, 0u);
}

TEST_F(KnownStubs, AreNoHooksAndHaveNoPrefix) {
  EXPECT_TRUE(may_be_known(known_at(0)));
  EXPECT_FALSE(may_be_known(hook(known_at(0), placement::Hook::Kind::loader)));
  EXPECT_FALSE(may_be_known(patch_at(0)));
  auto with_prefix = known_at(0);
  with_prefix.plan.patch.written += 1;
  EXPECT_FALSE(may_be_known(with_prefix));
}

// Kept stubs in this process's own memory, near an object that is as if it was loaded there.
class KeptStubs : public KnownStubs {
 protected:
  void SetUp() override {
    load(reinterpret_cast<Address>(kept_.data()) + kPageSize - kText);
    memory_ = *target::Memory::open(::getpid());
  }
  Address kept() const { return reinterpret_cast<Address>(kept_.data()); }

  std::array<uint8_t, 16> kept_ = {1, 2, 3, 4, 5, 6};
  std::optional<target::Memory> memory_;
};

TEST_F(KeptStubs, AreWhatTheJumpsOfTheSameFunctionLeadThrough) {
  add_probed(known_at(0));
  add_probed(known_at(16));
  ArmingPlan all(std::move(set_));
  lead_through_kept_stubs(all, {{all.set.patches[1].site(), kept()}}, *memory_);
  EXPECT_FALSE(all.set.patches[0].plan.trampoline);
  const auto& trampoline = all.set.patches[1].plan.trampoline;
  ASSERT_TRUE(trampoline);
  EXPECT_EQ(trampoline->address + object_->bias(), kept());
  EXPECT_EQ(trampoline->length, kKeptJumpLength);
  EXPECT_TRUE(
      std::equal(kept_.begin(), kept_.begin() + kKeptJumpLength, trampoline->original.begin()));
}

TEST_F(KeptStubs, AreNoIslandsOfOursWhereAPunIsPlannedToLeadThere) {
  auto pun = known_at(0);
  pun.plan.patch.tactic = plan::Tactic::pun;
  pun.plan.island = kept() - object_->bias();
  add_probed(std::move(pun));
  auto elsewhere = known_at(16);
  elsewhere.plan.patch.tactic = plan::Tactic::pun;
  elsewhere.plan.island = kept() + 64 - object_->bias();
  add_probed(std::move(elsewhere));
  ArmingPlan all(std::move(set_));
  lead_through_kept_stubs(
      all, {{all.set.patches[0].site(), kept()}, {all.set.patches[1].site(), kept()}}, *memory_);
  EXPECT_FALSE(all.set.patches[0].plan.island);
  ASSERT_TRUE(all.set.patches[0].plan.trampoline);
  EXPECT_EQ(all.set.patches[0].plan.trampoline->address + object_->bias(), kept());
  EXPECT_TRUE(all.set.patches[1].plan.island) << "leads elsewhere";
  EXPECT_FALSE(all.set.patches[1].plan.trampoline);
}

// In memory of this process, as it lies in a target after a session.
TEST(KeptMemory, IsFoundAlsoAfterPagesThatWereNeverWritten) {
  constexpr size_t kPages = 4;
  auto* const pages = static_cast<uint8_t*>(::mmap(
      nullptr, kPages * kPageSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  const auto begin = reinterpret_cast<Address>(pages);
  const auto memory = target::Memory::open(::getpid());
  ASSERT_TRUE(memory);
  KeptMemory kept;
  kept.stubs = {{begin, begin + kPages * kPageSize}};
  mark_kept(*memory, kept);
  constexpr size_t kAt = 3 * kPageSize + 40;  // the pages between are never touched
  arch::encode_jump(std::span(pages + kAt, kKeptJumpLength), 0x100);
  ASSERT_EQ(::mprotect(pages, kPages * kPageSize, PROT_READ | PROT_EXEC), 0);
  const auto maps = image::read_maps(::getpid());
  ASSERT_TRUE(maps);
  const auto found = kept_stubs(::getpid(), *memory, *maps);
  const auto stub = found.find(begin + kAt + kKeptJumpLength + 0x100);
  ASSERT_NE(stub, found.end());
  EXPECT_EQ(stub->second, begin + kAt);
  ::munmap(pages, kPages * kPageSize);
}

// Code in memory of this process, of which the first and the third page are kept.
class GeneratedCode : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(pages_, MAP_FAILED);
    for (size_t i = 0; i < kPages; ++i) pages_[i * kPageSize + 100] = 0xc3;
    KeptMemory kept;
    kept.stubs = {page(0)};
    kept.code = {page(2)};
    mark_kept(*memory_, kept);
  }
  ~GeneratedCode() override { ::munmap(pages_, kPages * kPageSize); }
  Range page(size_t i) const {
    const auto begin = reinterpret_cast<Address>(pages_) + i * kPageSize;
    return {begin, begin + kPageSize};
  }
  // This process may have other code without a file, that of a sanitizer for example.
  bool is_there(int protection, std::vector<Range> ours) {
    EXPECT_EQ(::mprotect(pages_, kPages * kPageSize, protection), 0);
    auto maps = *image::read_maps(::getpid());
    const Range all = {page(0).begin, page(kPages - 1).end};
    std::erase_if(maps, [&](const image::Mapping& one) { return !one.range.overlaps(all); });
    return has_generated_code(*memory_, maps, ours);
  }

  static constexpr size_t kPages = 3;
  uint8_t* pages_ = static_cast<uint8_t*>(::mmap(nullptr, kPages* kPageSize, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  Result<target::Memory, SystemError> memory_ = target::Memory::open(::getpid());
};

TEST_F(GeneratedCode, IsNeitherOursNorKept) {
  EXPECT_TRUE(is_there(PROT_READ | PROT_EXEC, {}));
  EXPECT_TRUE(is_there(PROT_READ | PROT_EXEC, {page(0), page(2)}));
  EXPECT_FALSE(is_there(PROT_READ | PROT_EXEC, {page(1)}));
  EXPECT_FALSE(is_there(PROT_READ | PROT_EXEC, {page(2), page(1), page(0)}));
}

TEST_F(GeneratedCode, MayLookLikeKeptCodeWhereTheProgramCanWriteIt) {
  EXPECT_TRUE(is_there(PROT_READ | PROT_WRITE | PROT_EXEC, {page(1)}));
}

TEST_F(KeptStubs, AreLeftAloneWhereTheSiteIsShared) {
  add_probed(known_at(0));
  ArmingPlan all(std::move(set_));
  all.shared[0] = {};
  lead_through_kept_stubs(all, {{all.set.patches[0].site(), kept()}}, *memory_);
  EXPECT_FALSE(all.set.patches[0].plan.trampoline);
}

TEST_F(KeptStubs, AreLeftAloneWhereTheyAreOutOfReach) {
  load(object_->bias() + (uint64_t{3} << 30));
  add_probed(known_at(0));
  ArmingPlan all(std::move(set_));
  lead_through_kept_stubs(all, {{all.set.patches[0].site(), kept()}}, *memory_);
  EXPECT_FALSE(all.set.patches[0].plan.trampoline);
}

}  // namespace
}  // namespace pinprick::engine
