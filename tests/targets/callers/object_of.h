// The object that code belongs to, by its file's name; "none" if the loader knows of none there.
#pragma once

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static inline const char* object_of(void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0) return "none";
  const char* const slash = strrchr(info.dli_fname, '/');
  return slash != NULL ? slash + 1 : info.dli_fname;
}

#define CALLER object_of(__builtin_return_address(0))
