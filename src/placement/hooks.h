// Hooks: functions of a process that pinprick patches for its own needs. Pure, but for the lazy
// loading of objects.
//
// Hooks in unwinders, present ones and those loaded later, make slots known to them: while a call
// is measured, its return address on the stack is that of a slot, for which no object has an unwind
// table. Hooks at vforks mark children that share the process's memory. A hook in the loader tells
// the controller what was loaded.
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
    object_table,  // where unwinders ask the loader for the tables of one object,
    object_list,   // or of all objects
    vfork,         // where children start in the same memory (arch::emit_vfork_hook)
    loader,        // where it notifies debuggers of loads and unloads (runtime/loader_handshake.S)
    exec,          // where the C library executes programs (runtime/exec_handshake.S)
    filter,        // where it may install a filter of system calls (runtime/stop_reads.S)
    unmap,         // where the program may take memory away (runtime/unmaps.S)
  } kind = Kind::unwinder;
  // Functions of libgcc, in the process's addresses, with `landing` still 0.
  std::optional<layout::UnwinderTable> functions;
  // For object_table and object_list: the unwinders that ask, as far as known.
  std::vector<arch::Unwinder> askers;
  // For exec: where a thread's TID lies, from its thread pointer.
  uint64_t tid_offset = 0;
  // For unmap: the number of the system call, which the hooked instruction is about to load; 0: the
  // hooked instruction is the system call.
  uint32_t number = 0;
  // For filter: which function it is.
  enum class Call : uint8_t { prctl, syscall, ioctl } call = Call::prctl;

  bool is_for_unwinding() const {
    return kind == Kind::unwinder || kind == Kind::object_table || kind == Kind::object_list;
  }
  // Is the hook only needed while there are probes? It is then placed before the first probe, and
  // removed after the last.
  bool is_for_probes() const { return kind != Kind::loader && kind != Kind::exec; }
};

struct HookSite {
  image::Object* object = nullptr;
  const image::Function* function = nullptr;
  Hook hook;
  Address site = 0;  // in the object's own addresses; 0 for the function's entry
};

// Unwinders that no symbol names must be searched for by their code if calls are timed, as return
// addresses are then those of slots. Hits can be counted safely without that.
enum class Search : bool { by_names, by_code };

// Where unwinders are hooked: _Unwind_Find_FDE of libgcc_s, and of the program and each library
// into which libgcc is linked statically. Other unwinders, and a libgcc_s that is loaded later, ask
// the loader; so dl_iterate_phdr of the C library and _dl_find_object of glibc (2.35) are hooked,
// too.
std::vector<HookSite> hook_sites(const image::ProcessImage& image, Search search);

// Can the process unwind its stack with an unwinder that uses none of these sites? Then an
// exception that passes a slot ends the process.
bool may_unwind_elsewhere(const image::ProcessImage& image, const std::vector<HookSite>& sites);

// The objects of which vfork_sites() scans all code.
std::vector<image::Object*> objects_with_vforks(const image::ProcessImage& image);

// Where children start that share the process's memory and thread pointer: in the C library, or in
// a static program, and in Go's syscall package. Returns nullopt if that is not known, or hooked
// already by an earlier session.
std::optional<std::vector<HookSite>> vfork_sites(const image::ProcessImage& image);

// Where the C library, or a static program with glibc, executes programs: the instructions that
// load the number of the system call. Calls elsewhere, and by syscall(2), are not found.
std::vector<HookSite> exec_sites(const image::ProcessImage& image);

// Where the C library, or a static program, may install a filter of system calls, or have page
// faults handled. Returns nullopt if code elsewhere may install a filter, too: Go's, and what makes
// system calls by instructions of its own.
std::optional<std::vector<HookSite>> filter_sites(const image::ProcessImage& image);

// Where code of the process may take memory away that hits read: all system calls for which that
// cannot be excluded, in all objects. Those of the C library's syscall() are watched by its hook
// for filters. Returns nullopt if there may be others: Go's, and those of the 32-bit kind.
std::optional<std::vector<HookSite>> unmap_sites(const image::ProcessImage& image);
// May code of another object take memory away by system calls of its own?
bool may_unmap(image::Object& object);

// Is it the C library or its loader? They make system calls by instructions of their own.
bool has_own_calls(const image::Object& object);
// May code of another object install a filter without the C library?
bool may_install_filters(image::Object& object);

// Is it LLVM's libunwind, or nongnu's?
bool is_libunwind(const image::Object& object);

// Where the loader is hooked; `notifies` is image::loader_notifies_at(). Returns nullopt if no
// known function starts there.
std::optional<HookSite> loader_site(const image::ProcessImage& image, Address notifies);

struct UnwinderCode {
  // The functions of unwinders that a program calls, and the functions near them that these call.
  // While one of them runs, its thread may hold what it has learned of slots. They are not timed,
  // since the stack would then not show that they run. For a libunwind this is the whole library: a
  // program that unwinds step by step holds pointers into it between two steps.
  std::vector<Range> ranges;
  // LLVM's libunwind is, or may be, in an object of another name. Between two steps the program
  // then holds no pointer into a known range.
  bool has_llvm_inside = false;
};
// Returns the code of all unwinders of the process.
UnwinderCode unwinder_code(const image::ProcessImage& image, Search search);

}  // namespace pinprick::placement
