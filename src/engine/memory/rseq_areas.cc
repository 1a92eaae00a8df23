#include "engine/memory/rseq_areas.h"

#include <algorithm>
#include <vector>

#include "arch/vfork_hook.h"
#include "base/address.h"
#include "target/hijacked_thread.h"

namespace pinprick::engine {

std::optional<arch::RseqArea> rseq_of(pid_t tid, const arch::Registers& registers) {
  const auto registration = target::rseq_registration(tid);
  if (!registration || registers.fs_base == 0) return std::nullopt;
  const auto distance = static_cast<int64_t>(registration->area - registers.fs_base);
  if (registration->signature != arch::kRseqSignature ||
      registration->size != arch::kMarkableRseqSize || distance != static_cast<int32_t>(distance))
    return std::nullopt;
  return arch::RseqArea{static_cast<int32_t>(distance)};
}

bool all_have_rseq(target::Stop& stop, arch::RseqArea area) {
  std::vector<Address> bases;
  for (const auto& thread : stop.threads()) {
    if (thread.is_worker()) continue;  // never counts anything
    // A thread that hijacks another one's thread pointer would use the other's area.
    const Address base = thread.registers.fs_base;
    if (base == 0) return false;
    bases.push_back(base);
    if (!target::rseq_registration(thread.tid)) continue;
    const auto its = rseq_of(thread.tid, thread.registers);
    if (!its || !(*its == area)) return false;
  }
  std::sort(bases.begin(), bases.end());
  return std::adjacent_find(bases.begin(), bases.end()) == bases.end();
}

}  // namespace pinprick::engine
