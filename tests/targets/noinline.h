// Keeps a function as a whole, under its own name, and not inlined.
#pragma once

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
