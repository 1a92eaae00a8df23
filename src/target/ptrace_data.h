// The last argument of ptrace(2), which glibc declares as a pointer.
#pragma once

#include <cstdint>

namespace pinprick::target {

inline void* ptrace_data(uint64_t value) {
  return reinterpret_cast<void*>(value);
}

}  // namespace pinprick::target
