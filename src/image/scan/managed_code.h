// Code of .NET, of Mono and of GHC that their runtimes read, beyond the return addresses on the
// stack (language_runtime.h).
//
// These runtimes make an exception of a fault if the faulting instruction is in their tables, and
// otherwise end the program. They also decode code that they have compiled ahead of time: to see
// which function a call has called, or whether a frame is there yet. GHC's collector reads tables
// that lie between the instructions of functions. Pure, but for reading the file.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/address.h"
#include "image/elf/elf_file.h"

namespace pinprick::image {

struct ManagedCode {
  // Methods that Mono has compiled ahead of time. A runtime that finds return addresses in them
  // looks for the calls that they make.
  std::vector<Range> methods;
  // Code that may not be changed: the jumps and tables around Mono's methods, whose bytes it reads,
  // and methods that .NET has compiled ahead of time (NativeAOT).
  std::vector<Range> untouchable;
  // The object is CoreCLR's, or NativeAOT's: a fault in a function without a frame may be an
  // exception of the method that called it.
  bool has_helpers = false;
  // GHC made functions of the object, those without an unwind entry.
  bool has_tables = false;
};

// Returns what the file has of such code. `relocations` is only called if it may have any.
ManagedCode find_managed_code(const ElfFile& elf,
                              const std::function<std::span<const Relocation>()>& relocations);

// Returns what is left of `code` without the pages of managed methods. Its addresses are `bias`
// above those of `managed`.
std::vector<Range> without_methods(std::span<const Range> code, const ManagedCode& managed,
                                   uint64_t bias);

}  // namespace pinprick::image
