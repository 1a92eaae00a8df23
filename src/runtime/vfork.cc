#include "runtime/vfork.h"

#include <cerrno>

// What pp_vfork() returns if there is no child.
extern "C" __attribute__((visibility("hidden"))) pid_t pp_vfork_failed(int result) {
  errno = -result;
  return -1;
}
