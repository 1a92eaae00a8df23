// Hooks: places in a process that pinprick changes for its own sake.
//
// Unwinders that it has, or will load, are told of slots: while a call is measured, its return
// address on the stack is that of a slot, for which no unwind table exists in any object. Children
// that share its memory are marked. And its loader tells the controller what it has loaded.
#pragma once

#include <optional>
#include <vector>

#include "arch/unwinder_hook.h"
#include "image/process.h"
#include "layout/runtime_data.h"

namespace pinprick::placement {

struct Hook {
  enum class Kind : uint8_t {
    unwinder,      // where libgcc looks up unwind tables (arch::emit_unwinder_hook)
    object_table,  // where unwinders ask the loader for them: for one object,
    object_list,   // or for all
    vfork,         // where children begin in the same memory (arch::emit_vfork_hook)
    loader,  // where it tells debuggers that objects came, or went (runtime/loader_handshake.S)
  } kind = Kind::unwinder;
  // Of libgcc, in the process's addresses, no landing yet.
  std::optional<layout::UnwinderTable> functions;
  // Where the loader is asked: by whom, as far as is known.
  std::vector<arch::Unwinder> askers;

  bool is_for_unwinding() const { return kind != Kind::loader && kind != Kind::vfork; }
  // All but the loader's, which nobody needs who has no probe: they are there before the first
  // probe, and longer than the last.
  bool is_for_probes() const { return kind != Kind::loader; }
};

struct HookPlace {
  image::Object* object = nullptr;
  const image::Function* function = nullptr;
  Hook hook;
  Address site = 0;  // in the object's own addresses; 0: where the function begins
};

// Unwinders that no symbol names are looked for where return addresses will be those of slots:
// calls are counted safely without.
enum class Search : bool { by_names, by_code };

// _Unwind_Find_FDE of libgcc_s, and of the program and of each library that is linked to it
// statically; and what other unwinders ask, and a libgcc_s that is loaded later: dl_iterate_phdr of
// the C library, and _dl_find_object of glibc (2.35).
std::vector<HookPlace> places_of_hooks(const image::ProcessImage& image, Search search);

// Can the process unwind its stack with something that does not come by any of these places? Then
// an exception that passes a slot ends it.
bool may_unwind_elsewhere(const image::ProcessImage& image, const std::vector<HookPlace>& places);

// Where children begin that share the process's memory and thread pointer: in the C library, or the
// program if that is its own, and in Go's syscall package. Returns nothing where that is not known,
// or hooked already, by an earlier session.
std::optional<std::vector<HookPlace>> places_of_vforks(const image::ProcessImage& image);

// Is it LLVM's libunwind, or nongnu's?
bool is_libunwind(const image::Object& object);

// `notifies`: image::loader_notifies_at().
std::optional<HookPlace> place_in_loader(const image::ProcessImage& image, Address notifies);

struct UnwinderCode {
  // Where the functions of unwinders lie that a program calls, and those beside them that these
  // call: while one runs, its thread may hold what it has learned of slots. They are not timed, as
  // the stack would not say any more that they run. Of a libunwind all there is of the library:
  // what a program holds between two steps that it makes itself points there.
  std::vector<Range> ranges;
  // LLVM's is in an object of another name, or may be, and then that points anywhere.
  bool has_llvm_inside = false;
};
UnwinderCode unwinder_code(const image::ProcessImage& image, Search search);

}  // namespace pinprick::placement
