// liblate.so: defines what plugin.so needs.
#define _GNU_SOURCE
#include "callers.h"
#include "object_of.h"

SHOWN const char* reads_late(void) {
  return CALLER;
}
