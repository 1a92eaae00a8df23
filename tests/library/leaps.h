// Calls that are left in every possible way, one after the other, from one call site.
#pragma once

#include <csetjmp>
#include <stdexcept>

namespace pinprick {

inline std::jmp_buf leap_to;

// Returns half the time; leaves by longjmp, and by an exception, a quarter of the time each.
// Without the sanitizer: it would start the function with a short jump over data for its checks,
// which leaves no room for a probe.
__attribute__((noinline, no_sanitize("undefined"))) inline long leaves_by_turns(long value) {
  if (value % 4 == 1) std::longjmp(leap_to, 1);
  if (value % 4 == 3) throw std::runtime_error("left");
  return value;
}

[[gnu::noinline]] inline void call_by_turns(long value) {
  if (setjmp(leap_to) != 0) return;
  try {
    leaves_by_turns(value);
  } catch (const std::runtime_error&) {
  }
}

}  // namespace pinprick
