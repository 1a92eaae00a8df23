// The pages that puns lead to: in each island lies a jump to the pun's stub.
//
// Pure. Arming calls it once stubs are built.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/address.h"
#include "engine/plan/arming_plan.h"
#include "layout/session_file.h"

namespace pinprick::engine {

// What such a mapping holds, up to its mark. `stubs`: of the plan's puns, in their order; no
// thread comes to those that are not armed.
std::vector<uint8_t> island_bytes(const ArmingPlan& plan, const layout::Session& journal,
                                  const layout::MappingEntry& entry,
                                  std::span<const Address> stubs);

}  // namespace pinprick::engine
