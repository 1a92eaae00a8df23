// Hooks: places in a process that pinprick changes for its own sake.
//
// Unwinders that it has, or will load, are told of slots: while a call is measured, its return
// address on the stack is that of a slot, for which no unwind table exists in any object. And its
// loader tells the controller what it has loaded.
#pragma once

#include <optional>
#include <vector>

#include "image/process.h"
#include "layout/runtime_data.h"

namespace pinprick::probe {

struct Hook {
  enum class Kind : uint8_t {
    unwinder,      // where it looks up unwind tables (arch::emit_unwinder_hook)
    object_table,  // where other unwinders ask the loader for them
    loader,        // where it tells debuggers that objects came, or went (runtime/rendezvous.S)
  } kind = Kind::unwinder;
  // Of an unwinder, in the process's addresses, no landing yet.
  std::optional<layout::UnwinderTable> functions;

  bool is_for_unwinding() const { return kind != Kind::loader; }
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

// `notifies`: image::loader_notifies_at().
std::optional<HookPlace> place_in_loader(const image::ProcessImage& image, Address notifies);

// Is there an unwinder among those places?
bool has_unwinder(const std::vector<HookPlace>& places);

// Where the functions of those unwinders lie that a program calls: while one runs, its thread may
// hold what it has learned of slots.
std::vector<Range> unwinder_code(const image::ProcessImage& image);

}  // namespace pinprick::probe
