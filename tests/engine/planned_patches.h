// Plans for arming that no process has: patches at chosen addresses of an object that is not
// loaded.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arch/native.h"
#include "engine/plan/arming_plan.h"
#include "image/object.h"
#include "placement/probe_set.h"

namespace pinprick::engine {

class PlannedPatches : public testing::Test {
 protected:
  static constexpr Address kText = 0x401000;  // of punned_nopie, in its own addresses

  // As if it was loaded that far from its own addresses.
  void load(uint64_t bias) {
    const std::string path = TARGETS "punned_nopie";
    auto elf = image::ElfFile::open(path);
    ASSERT_TRUE(elf);
    object_ = std::make_unique<image::Object>(
        *std::move(elf), bias, std::vector<std::string>{"punned"}, path, "", image::MemoryReader());
    const Range range = {kText, kText + 64};
    function_.range = range;
  }

  void SetUp() override { load(0x10000); }

  placement::SitePatch patch_at(uint64_t offset) const {
    placement::SitePatch patch;
    patch.object = object_.get();
    patch.plan.patch.site = kText + offset;
    patch.plan.patch.written = patch.plan.patch.displaced = arch::kJumpLength;
    patch.probes = {set_.probes.size(), 0};
    return patch;
  }
  static placement::SitePatch hook(placement::SitePatch patch, placement::Hook::Kind kind) {
    placement::Hook hook;
    hook.kind = kind;
    patch.hook = hook;
    return patch;
  }
  // Adds a patch, and a probe at its first instruction.
  size_t add_probed(placement::SitePatch patch) {
    image::Match match;
    match.object = object_.get();
    match.function = &function_;
    match.function_name = "function";
    match.site = patch.site();
    patch.probes = {set_.probes.size(), 1};
    set_.probes.emplace_back(set_.matches.size(), set_.patches.size(), uint8_t{0},
                             arch::StackUse::at_entry);
    set_.matches.push_back(match);
    set_.patches.push_back(std::move(patch));
    return set_.patches.size() - 1;
  }
  size_t add(placement::SitePatch patch) {
    set_.patches.push_back(std::move(patch));
    return set_.patches.size() - 1;
  }
  // All of it armed; each site entry is that of the patch with its number, as if no patch had a
  // trampoline.
  ArmingPlan plan() {
    ArmingPlan plan(std::move(set_));
    plan.note_dependencies();
    plan.states.resize(plan.set.patches.size());
    for (uint32_t i = 0; i < plan.states.size(); ++i) plan.states[i].site = i & 0xffff;
    plan.arm_all();
    return plan;
  }

  std::unique_ptr<image::Object> object_;
  image::Function function_;
  placement::ProbeSet set_;
};

}  // namespace pinprick::engine
