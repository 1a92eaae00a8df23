// Who waits for whom: rings of threads that will wait for ever. Pure.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

namespace pinprick::session {

// A thread that waits for what another one has, or for itself.
struct WaitsFor {
  pid_t thread = 0;
  pid_t owner = 0;  // 0: it is not known
};

// Returns the rings: each is a list of indices, in which a thread waits for the next one's, and the
// last one for the first one's. A thread waits once; of several entries, the last one counts.
std::vector<std::vector<size_t>> wait_rings(std::span<const WaitsFor> waits);

}  // namespace pinprick::session
