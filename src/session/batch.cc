#include "session/batch.h"

#include <algorithm>

namespace pinprick::session {

engine::LoaderWatch* loader_of(const Batches& batches) {
  return batches.empty() ? nullptr : batches.front().session.loader();
}

std::vector<Range> code_of(const Batches& batches) {
  std::vector<Range> code;
  for (const Batch& batch : batches) {
    const auto some = batch.session.code();
    code.insert(code.end(), some.begin(), some.end());
  }
  return code;
}

uint64_t refused_by(const Batches& batches) {
  uint64_t refused = 0;
  for (const Batch& batch : batches) refused += batch.session.refused();
  return refused;
}

uint64_t slots_to_ask_for(const Batches& batches) {
  uint64_t slots = 0;
  for (const Batch& batch : batches) slots = std::max(slots, batch.session.slots_to_ask_for());
  return slots;
}

bool have_hits(const Batches& batches) {
  return std::any_of(batches.begin(), batches.end(),
                     [](const Batch& batch) { return batch.session.has_hits(); });
}

}  // namespace pinprick::session
