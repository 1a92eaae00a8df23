// Miss: why a hit ran no handler, or a call was not followed. A closed list; values only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pinprick {

enum class Miss : uint8_t {
  in_handler,  // the hit was caused by a handler, or by what it called
  in_library,  // the hit was caused by this library, outside of handlers
  no_slot,     // calls: as many were followed at once as there are slots in the process
  max_active,  // calls: as many were followed at once as the return probe allows
};
inline constexpr size_t kMissCauses = 4;

}  // namespace pinprick
