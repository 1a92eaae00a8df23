#include "engine/stubs/islands.h"

#include <algorithm>
#include <cstring>

#include "arch/jump.h"
#include "arch/native.h"
#include "engine/stubs/site_jumps.h"

namespace pinprick::engine {

std::vector<uint8_t> island_bytes(const ArmingPlan& plan, const layout::Session& journal,
                                  const layout::MappingEntry& entry,
                                  std::span<const Address> stubs) {
  std::vector<uint8_t> bytes(entry.size - placement::kIslandMarkSize, arch::kBreakpoint);
  for (size_t pun = 0; pun < plan.puns.size(); ++pun) {
    if (!plan.is_armed(plan.puns[pun])) continue;
    const Address offset = island_of(journal, plan.set.patches[plan.puns[pun]]) - entry.address;
    if (offset >= bytes.size()) continue;
    const Address at = entry.address + offset;
    const auto jump = arch::encode_indirect_jump(at, at + arch::kIndirectJumpLength);
    std::copy(jump->begin(), jump->end(), bytes.begin() + static_cast<ptrdiff_t>(offset));
    const Address stub = stubs[pun];
    std::memcpy(bytes.data() + offset + jump->size(), &stub, sizeof stub);
  }
  return bytes;
}

}  // namespace pinprick::engine
