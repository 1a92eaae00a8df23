// How the ends of calls are found.
#pragma once

#include <cstdint>

namespace pinprick::placement {

// How the user wants calls to be timed.
enum class Ends : uint8_t {
  automatic,  // chosen for each function
  slots,
  exits,
};

// How the calls that start at a patch are timed: by a slot; or by exits, each of which has an end
// of its own, in this patch or another.
enum class CallTiming : uint8_t {
  by_slot,
  by_exits,       // by a slot if an end cannot be placed
  only_by_exits,  // the calls can have no slot
};

}  // namespace pinprick::placement
