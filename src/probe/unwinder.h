// Unwinders that a process has, or will load, to be told of slots: while a call is measured, its
// return address on the stack is that of a slot, for which no unwind table exists in any object.
#pragma once

#include <optional>
#include <vector>

#include "image/process.h"
#include "layout/runtime_data.h"

namespace pinprick::probe {

// What is done where unwind tables are looked up: arch::emit_unwinder_hook.
struct Hook {
  // Of the unwinder, in the process's addresses, no landing yet. None: it is the loader, which
  // unwinders ask.
  std::optional<layout::UnwinderTable> functions;
};

struct HookPlace {
  image::Object* object = nullptr;
  const image::Function* function = nullptr;
  Hook hook;
};

// _Unwind_Find_FDE of libgcc_s, and of the program itself if linked to it statically, as far as
// symbols say where they are; and _dl_find_object of glibc (2.35), which a libgcc_s that is loaded
// later will ask.
std::vector<HookPlace> places_of_hooks(const image::ProcessImage& image);

// Is there an unwinder among those places?
bool has_unwinder(const std::vector<HookPlace>& places);

// Where the functions of those unwinders lie that a program calls: while one runs, its thread may
// hold what it has learned of slots.
std::vector<Range> unwinder_code(const image::ProcessImage& image);

}  // namespace pinprick::probe
