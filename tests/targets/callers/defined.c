// libdefined.so: functions that look at their callers, each in another way to be found.
#define _GNU_SOURCE
#include <stdlib.h>

#include "callers.h"
#include "object_of.h"

SHOWN const char* reads_caller(void) {
  return CALLER;
}
__attribute__((weak)) SHOWN const char* reads_by_name(void) {
  return CALLER;
}
SHOWN long keeps_value(long value) {
  return 3 * value + 1;
}
SHOWN const char* overridden(void) {
  return getenv("NOWHERE") ? "somewhere" : "as defined";
}

#ifdef __GLIBC__
HIDDEN const char* reads_in_one_way(void) {
  return CALLER;
}
HIDDEN const char* reads_in_another_way(void) {
  return CALLER;
}
static void* reader(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse2") ? reads_in_one_way : reads_in_another_way;
}
SHOWN const char* reads_by_resolver(void) __attribute__((ifunc("reader")));

HIDDEN long keeps_in_one_way(long value) {
  return 5 * value;
}
HIDDEN long keeps_in_another_way(long value) {
  return value + 4 * value;
}
static void* keeper(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse2") ? keeps_in_one_way : keeps_in_another_way;
}
SHOWN long keeps_by_resolver(long value) __attribute__((ifunc("keeper")));

SHOWN const char* keeps_in_old_version(void) {
  return "old";
}
SHOWN const char* reads_in_new_version(void) {
  return CALLER;
}
__asm__(".symver keeps_in_old_version, reads_by_version@OLD");
__asm__(".symver reads_in_new_version, reads_by_version@@NEW");
#else
SHOWN const char* reads_by_resolver(void) {
  return CALLER;
}
SHOWN const char* reads_by_version(void) {
  return CALLER;
}
SHOWN long keeps_by_resolver(long value) {
  return 5 * value;
}
#endif
