// libmiddle.so: functions that end with a call of one of another library, or of their own. The
// compiler makes a jump of each, also of setjmp and vfork, as it does not know them by these names.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "callers.h"

int set_jump(jmp_buf buffer) __asm__("_setjmp");
int set_jump_and_mask(sigjmp_buf buffer, int saves) __asm__("__sigsetjmp");
int get_context(ucontext_t* context) __asm__("getcontext");
pid_t fork_in_place(void) __asm__("vfork");

SHOWN const char* passes_on(void) {
  return reads_caller();
}
SHOWN const char* passes_on_twice(void) {
  return passes_on();
}
HIDDEN const char* passes_on_hidden(void) {
  return reads_caller();
}
SHOWN const char* passes_on_to_hidden(void) {
  return passes_on_hidden();
}
NOINLINE __attribute__((visibility("protected"))) const char* passes_on_protected(void) {
  return reads_caller();
}
SHOWN const char* passes_on_to_protected(void) {
  return passes_on_protected();
}
__attribute__((visibility("hidden"))) const char* (*next_reader)(void) = reads_caller;
SHOWN const char* passes_on_by_variable(void) {
  return next_reader();
}
SHOWN const char* passes_on_by_resolver(void) {
  return reads_by_resolver();
}
SHOWN const char* passes_on_by_version(void) {
  return reads_by_version();
}
SHOWN const char* passes_on_weakly(void) {
  return reads_by_name();
}
SHOWN int passes_on_setjmp(jmp_buf buffer) {
  return set_jump(buffer);
}
SHOWN pid_t passes_on_vfork(void) {
  return fork_in_place();
}
SHOWN void* passes_on_dlopen(const char* file, int mode) {
  return dlopen(file, mode);
}
SHOWN void* passes_on_dlsym(void* handle, const char* name) {
  return dlsym(handle, name);
}
SHOWN const char* leads_to_overridden(void) {
  return overridden();
}
SHOWN long keeps_on(long value) {
  return keeps_value(value + 1);
}
SHOWN long keeps_on_twice(long value) {
  return keeps_on(2 * value);
}
SHOWN long keeps_on_by_resolver(long value) {
  return keeps_by_resolver(value);
}
#ifdef __GLIBC__
SHOWN int passes_on_sigsetjmp(sigjmp_buf buffer, int saves) {
  return set_jump_and_mask(buffer, saves);
}
SHOWN int passes_on_getcontext(ucontext_t* context) {
  return get_context(context);
}
#endif
