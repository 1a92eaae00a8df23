// Functions that pass their callers on, in several objects, and functions beside them that do not.
//
// Names say what a return probe has to do with a function: reads_... use their return address,
// passes_... jump to such a function, directly or by way of others, and keeps_... do neither.
#pragma once

#include <setjmp.h>
#include <sys/types.h>
#include <ucontext.h>

#include "../noinline.h"

#define SHOWN NOINLINE __attribute__((visibility("default")))
#define HIDDEN NOINLINE __attribute__((visibility("hidden")))

// libdefined.so: the name of the object that has called.
const char* reads_caller(void);
const char* reads_by_name(void);      // a weak definition
const char* reads_by_resolver(void);  // an IFUNC
const char* reads_by_version(void);   // in the newer of two versions
long keeps_value(long value);
long keeps_by_resolver(long value);
const char* overridden(void);  // keeps its caller; another library's, which is preloaded, reads it

// libmiddle.so
const char* passes_on(void);
const char* passes_on_twice(void);
const char* passes_on_to_hidden(void);
const char* passes_on_to_protected(void);
const char* passes_on_by_variable(void);
const char* passes_on_by_resolver(void);
const char* passes_on_by_version(void);
const char* passes_on_weakly(void);
int passes_on_setjmp(jmp_buf buffer);
int passes_on_sigsetjmp(sigjmp_buf buffer, int saves);
int passes_on_getcontext(ucontext_t* context);
pid_t passes_on_vfork(void);
void* passes_on_dlopen(const char* file, int mode);
void* passes_on_dlsym(void* handle, const char* name);
const char* leads_to_overridden(void);
long keeps_on(long value);
long keeps_on_twice(long value);
long keeps_on_by_resolver(long value);

// libuser.so, which alone finds libprivate.so.
long opens_private(void);
