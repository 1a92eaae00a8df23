#include "engine/plan/trapping.h"

namespace pinprick::engine {

bool may_be_trapped(const placement::Skipped& probe) {
  const bool is_tracepoint = probe.match.point != nullptr && probe.match.point->point != 0;
  return !is_tracepoint && plan::leaves_room_for_breakpoint(probe.refusal.reason);
}

}  // namespace pinprick::engine
