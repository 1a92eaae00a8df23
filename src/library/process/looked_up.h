// Functions of the C library that this library calls, although it leads the program's imports of
// them to functions of its own. They are looked up before any import is changed: in a program that
// is linked with libpinprick.a, our own imports are the program's.
//
// To be called by constructors, before any lock is held: it takes the loader's lock, which a thread
// in dlopen() holds while it runs constructors that may wait for ours.
#pragma once

#include <dlfcn.h>
#include <sys/auxv.h>

namespace pinprick::library {

// Returns `function` itself, which has this name, or the one that replaces it.
template <class F>
F* looked_up(F* function, const char* name) {
  // Not by the compiler or the loader: what they would put down instead is an import, too.
  __asm__("" : "+r"(function));
  // A program without PIE that takes the function's address has an entry in its linkage table for
  // it, which stands for the function everywhere, and which leads through the import.
  Dl_info of_function = {}, of_program = {};
  if (::dladdr(reinterpret_cast<void*>(function), &of_function) == 0 ||
      ::dladdr(reinterpret_cast<void*>(::getauxval(AT_ENTRY)), &of_program) == 0 ||
      of_function.dli_fbase != of_program.dli_fbase)
    return function;
  void* const next = ::dlsym(RTLD_NEXT, name);
  return next != nullptr ? reinterpret_cast<F*>(next) : function;
}

}  // namespace pinprick::library
