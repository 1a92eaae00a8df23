// Calls all of these for each line that it reads, and prints what they return. With an argument it
// calls them as often, without reading.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "callers.h"

// As the caller sees them: they return twice.
#define TWICE __attribute__((returns_twice))
int sets_jump(jmp_buf buffer) __asm__("passes_setjmp") TWICE;
int sets_jump_and_mask(sigjmp_buf buffer, int saves) __asm__("passes_sigsetjmp") TWICE;
int gets_context(ucontext_t* context) __asm__("passes_getcontext") TWICE;
pid_t forks_in_place(void) __asm__("passes_vfork") TWICE;

SHOWN const char* passes_directly(void) {
  return reads_caller();
}
SHOWN const char* passes_by_one(void) {
  return passes_on();
}
SHOWN const char* passes_by_two(void) {
  return passes_on_twice();
}
SHOWN const char* passes_by_three(void) {
  return passes_by_two();
}
SHOWN const char* passes_to_hidden(void) {
  return passes_on_to_hidden();
}
SHOWN const char* passes_to_protected(void) {
  return passes_on_to_protected();
}
SHOWN const char* passes_to_variable(void) {
  return passes_on_by_variable();
}
SHOWN const char* passes_to_resolver(void) {
  return reads_by_resolver();
}
SHOWN const char* passes_by_one_to_resolver(void) {
  return passes_on_by_resolver();
}
SHOWN const char* passes_to_version(void) {
  return passes_on_by_version();
}
SHOWN const char* passes_weakly(void) {
  return passes_on_weakly();
}
SHOWN const char* leads_by_one_to_overridden(void) {
  return leads_to_overridden();
}
SHOWN int passes_setjmp(jmp_buf buffer) {
  return passes_on_setjmp(buffer);
}
SHOWN pid_t passes_vfork(void) {
  return passes_on_vfork();
}
SHOWN long keeps_directly(long value) {
  return keeps_value(value);
}
SHOWN long keeps_by_one(long value) {
  return keeps_on(value);
}
SHOWN long keeps_by_two(long value) {
  return keeps_on_twice(value);
}
SHOWN long keeps_to_resolver(long value) {
  return keeps_on_by_resolver(value);
}
SHOWN long keeps_nothing(long value) {
  return value + opens_private();
}
#ifdef __GLIBC__
SHOWN int passes_sigsetjmp(sigjmp_buf buffer, int saves) {
  return passes_on_sigsetjmp(buffer, saves);
}
SHOWN int passes_getcontext(ucontext_t* context) {
  return passes_on_getcontext(context);
}
#endif

static int jumps(void) {
  static jmp_buf buffer;
  volatile int times = 0;
  const int value = sets_jump(buffer);
  times = times + 1;
  if (value < 3) longjmp(buffer, value + 1);
  return 10 * times + value;
}

#ifdef __GLIBC__
static int jumps_with_mask(void) {
  static sigjmp_buf buffer;
  volatile int times = 0;
  const int value = sets_jump_and_mask(buffer, 1);
  times = times + 1;
  if (value < 3) siglongjmp(buffer, value + 1);
  return 10 * times + value;
}

static int switches_to_context(void) {
  static ucontext_t context;
  volatile int times = 0;
  if (gets_context(&context) != 0) return -1;
  times = times + 1;
  if (times < 4) setcontext(&context);
  return times;
}
#endif

static int has_child(void) {
  const pid_t child = forks_in_place();
  if (child == 0) _exit(7);
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

typedef const char* (*Reader)(void);
typedef long (*Keeper)(long);
static void* plugin;

static void use_plugin(void) {
  static const char* const kLate[] = {"passes_on_late", "passes_on_late_twice",
                                      "passes_on_from_plugin"};
  for (int i = 0; i < 3; ++i) printf("%s %s\n", kLate[i], ((Reader)dlsym(plugin, kLate[i]))());
  printf("keeps_on_from_plugin %ld\n", ((Keeper)dlsym(plugin, "keeps_on_from_plugin"))(2));
}

static void use_all(void) {
  printf("%s %s %s %s\n", passes_directly(), passes_by_one(), passes_by_two(), passes_by_three());
  printf("%s %s %s\n", passes_to_hidden(), passes_to_protected(), passes_to_variable());
  printf("%s %s %s %s\n", passes_to_resolver(), passes_by_one_to_resolver(), passes_to_version(),
         passes_weakly());
  printf("%s\n", leads_by_one_to_overridden());
  printf("%ld %ld %ld %ld %ld\n", keeps_directly(1), keeps_by_one(2), keeps_by_two(3),
         keeps_to_resolver(4), keeps_nothing(5));
  printf("%d %d\n", jumps(), has_child());
#ifdef __GLIBC__
  printf("%d %d\n", jumps_with_mask(), switches_to_context());
#endif
  use_plugin();
  puts("done");
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  plugin = dlopen("plugin.so", RTLD_LAZY);
  if (plugin == NULL) return puts(dlerror()), 1;
  puts("ready");
  if (argc == 1 && getchar() == EOF) return 0;
  if (dlopen("liblate.so", RTLD_NOW | RTLD_GLOBAL) == NULL) return puts(dlerror()), 1;
  for (int rounds = argc > 1 ? atoi(argv[1]) : 1 << 30; rounds > 0; --rounds) {
    use_all();
    if (argc == 1 && getchar() == EOF) break;
  }
  return 0;
}
