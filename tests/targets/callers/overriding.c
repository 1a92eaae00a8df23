// liboverriding.so, to be preloaded: its function looks at its caller, the other one does not.
#define _GNU_SOURCE
#include "callers.h"
#include "object_of.h"

SHOWN const char* overridden(void) {
  return CALLER;
}
