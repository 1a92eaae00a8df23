// What is to be written into the text for a plan: the edits of all patches that are armed, and the
// order in which they are written.
//
// Pure, on what the journal says that sites will hold; made ready before the process stops.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/arming_plan.h"
#include "layout/session_file.h"
#include "patch/text_edit.h"

namespace pinprick::engine {

struct ArmingEdits {
  std::vector<patch::TextEdit> edits;
  std::vector<uint32_t> patch_of;  // of each edit
  patch::WritingOrder order{{}, patch::Order::phases_upward};

  // After patches were dropped: what is to be written no longer has those.
  void keep_armed(const ArmingPlan& plan);
};

ArmingEdits arming_edits(const ArmingPlan& plan, const layout::Session& journal);

}  // namespace pinprick::engine
