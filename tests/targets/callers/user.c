// libuser.so: finds libprivate.so by its own RUNPATH, if dlopen sees that it is the one that asks.
#include <dlfcn.h>
#include <stddef.h>

#include "callers.h"

SHOWN long opens_private(void) {
  void* const library = passes_on_dlopen("libprivate.so", RTLD_NOW);
  if (library == NULL) return -1;
  long (*const value)(void) = (long (*)(void))passes_on_dlsym(library, "private_value");
  const long answer = value != NULL ? value() : -2;
  dlclose(library);
  return answer;
}
