// What is to be written into the text for a plan: the edits of all patches that are armed, and the
// order in which they are written.
//
// Pure, on what the journal says that sites will hold, but for patches_of_changed_text(), which
// reads the text; made ready before the process stops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/plan/arming_plan.h"
#include "image/memory_reader.h"
#include "layout/session_file.h"
#include "patch/text_edit.h"

namespace pinprick::engine {

struct ArmingEdits {
  std::vector<patch::TextEdit> edits;
  std::vector<uint32_t> patch_of;  // of each edit
  patch::WritingOrder order{{}, patch::PhaseOrder::upward};

  // After patches were dropped: what is to be written no longer has those.
  void keep_armed(const ArmingPlan& plan);
};

ArmingEdits arming_edits(const ArmingPlan& plan, const layout::Session& journal);

// The edits that take back what was written, by these outcomes, for patches that are not armed any
// more.
std::vector<patch::TextEdit> taking_back(const ArmingEdits& all,
                                         std::span<const patch::EditOutcome> outcomes,
                                         const ArmingPlan& plan);

// Returns the armed patches that were planned from code which is not there, in whatever byte.
// `reader` reads the process as it is without anyone's probes.
std::vector<size_t> patches_of_changed_text(const ArmingPlan& plan,
                                            const image::MemoryReader& reader);

}  // namespace pinprick::engine
