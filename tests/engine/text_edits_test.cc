// What is written for a plan, and taken back.
#include "engine/text/text_edits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planned_patches.h"

namespace pinprick::engine {
namespace {

using patch::EditOutcome;

class TextEdits : public PlannedPatches {};

TEST_F(TextEdits, TakeBackWhatWasWrittenForPatchesThatAreNotArmedAnyMore) {
  for (const uint64_t offset : {0, 8, 16, 24}) add_probed(patch_at(offset));
  ArmingPlan all = plan();
  ArmingEdits edits;
  std::vector<EditOutcome> outcomes(4, EditOutcome::written);
  outcomes[2] = EditOutcome::different;
  for (uint32_t i = 0; i < 4; ++i) {
    patch::TextEdit& edit = edits.edits.emplace_back();
    edit.address = 100 + i;
    edit.before[0] = static_cast<uint8_t>(i);
    edit.after[0] = 0xe9;
    edits.patch_of.push_back(i);
  }
  EXPECT_TRUE(taking_back(edits, outcomes, all).empty());
  for (const size_t patch : {0, 2}) all.drop(patch, plan::Reason::text_changed);
  const auto back = taking_back(edits, outcomes, all);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].address, 100u);
  EXPECT_EQ(back[0].before[0], 0xe9);
  EXPECT_EQ(back[0].after[0], 0);
}

}  // namespace
}  // namespace pinprick::engine
