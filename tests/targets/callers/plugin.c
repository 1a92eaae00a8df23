// plugin.so: bound when its functions are called, as what one of them jumps to comes with a library
// that is loaded after it.
#include "callers.h"

const char* reads_late(void);

SHOWN const char* passes_on_late(void) {
  return reads_late();
}
SHOWN const char* passes_on_late_twice(void) {
  return passes_on_late();
}
SHOWN const char* passes_on_from_plugin(void) {
  return passes_on_twice();
}
SHOWN long keeps_on_from_plugin(long value) {
  return keeps_on_twice(value);
}
