#include "library/process/children.h"

#include <fcntl.h>
#include <link.h>
#include <linux/sched.h>
#include <sched.h>
#include <spawn.h>
#include <sys/auxv.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "arch/vfork_hook.h"
#include "base/address.h"
#include "base/machine.h"
#include "layout/runtime_data.h"
#include "library/process/loaded_object.h"
#include "library/process/loader_state.h"
#include "library/process/looked_up.h"
#include "runtime/vfork.h"

namespace pinprick::library {

namespace {

volatile struct ::rseq& area() {
  return *reinterpret_cast<volatile struct ::rseq*>(static_cast<char*>(__builtin_thread_pointer()) +
                                                    __rseq_offset);
}

bool is_registered() {
  return static_cast<int32_t>(area().cpu_id) >= 0;
}

void mark() {
  area().cpu_id = static_cast<uint32_t>(RSEQ_CPU_ID_UNINITIALIZED);
}

// The C library's functions, or those that replace them.
struct CLibrary {
  decltype(&::vfork) vfork = looked_up(&::vfork, "vfork");
  decltype(&::clone) clone = looked_up(&::clone, "clone");
  decltype(&::posix_spawn) posix_spawn = looked_up(&::posix_spawn, "posix_spawn");
  decltype(&::posix_spawnp) posix_spawnp = looked_up(&::posix_spawnp, "posix_spawnp");
  decltype(&::system) system = looked_up(&::system, "system");
  decltype(&::popen) popen = looked_up(&::popen, "popen");
};
const CLibrary& c_library() {
  static const CLibrary functions;
  return functions;
}

// In place of clone(), with all arguments that it may get.
// NOLINTNEXTLINE(cert-dcl50-cpp)
int clone_child(int (*function)(void*), void* stack, int flags, void* argument, ...) {
  // Only the arguments that the flags ask for are there, in this order.
  const bool has_child_tid = (flags & (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID)) != 0;
  const bool has_tls = has_child_tid || (flags & CLONE_SETTLS) != 0;
  const bool has_parent_tid = has_tls || (flags & (CLONE_PARENT_SETTID | CLONE_PIDFD)) != 0;
  va_list more;
  va_start(more, argument);
  auto* const parent_tid = has_parent_tid ? va_arg(more, pid_t*) : nullptr;
  void* const tls = has_tls ? va_arg(more, void*) : nullptr;
  auto* const child_tid = has_child_tid ? va_arg(more, pid_t*) : nullptr;
  va_end(more);
  constexpr int kSharing = CLONE_VM | CLONE_VFORK;
  if ((flags & (kSharing | CLONE_SETTLS)) != kSharing || !is_registered())
    return c_library().clone(function, stack, flags, argument, parent_tid, tls, child_tid);
  struct Child {
    int (*function)(void*);
    void* argument;
  };
  Child child = {function, argument};
  mark();
  const int result = c_library().clone(
      [](void* of_child) {
        mark();  // again: the kernel may have written the parent's CPU
        const Child called = *static_cast<Child*>(of_child);
        return called.function(called.argument);
      },
      stack, flags, &child, parent_tid, tls, child_tid);
  pp_put_cpu_back();
  return result;
}

// While it lives, the calling thread's rseq area is not registered. The thread may be cancelled
// meanwhile.
class Unregistered {
 public:
  Unregistered() {
    if (is_registered() && !is_filtered()) is_ours_ = call(RSEQ_FLAG_UNREGISTER);
  }
  Unregistered(const Unregistered&) = delete;
  Unregistered& operator=(const Unregistered&) = delete;
  ~Unregistered() {
    if (is_ours_) call(0);
  }

 private:
  // A filter of system calls may end the program for one that it does not expect, and prctl(),
  // which would tell, is one of these. By calls that no probe of the program counts.
  static bool is_filtered() {
    const int error = errno;
    char status[4096];
    const auto file = static_cast<int>(
        ::syscall(SYS_openat, AT_FDCWD, "/proc/thread-self/status", O_RDONLY | O_CLOEXEC));
    const long size = file < 0 ? -1 : ::syscall(SYS_read, file, status, sizeof status);
    if (file >= 0) ::syscall(SYS_close, file);
    errno = error;
    return size < 0 ||
           std::string_view(status, static_cast<size_t>(size)).find("\nSeccomp:\t0\n") ==
               std::string_view::npos;
  }
  static bool call(int flags) {
    const int error = errno;
    const bool done = ::syscall(SYS_rseq, &area(), arch::kMarkableRseqSize, flags, RSEQ_SIG) == 0;
    errno = error;
    return done;
  }

  bool is_ours_ = false;
};

int spawn_child(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const* arguments,
                char* const* environment) {
  const Unregistered unregistered;
  return c_library().posix_spawn(pid, path, actions, attributes, arguments, environment);
}

int spawn_child_of_path(pid_t* pid, const char* file, const posix_spawn_file_actions_t* actions,
                        const posix_spawnattr_t* attributes, char* const* arguments,
                        char* const* environment) {
  const Unregistered unregistered;
  return c_library().posix_spawnp(pid, file, actions, attributes, arguments, environment);
}

int run_command(const char* command) {
  const Unregistered unregistered;
  return c_library().system(command);  // NOLINT(cert-env33-c): it is what the program called
}

FILE* open_command(const char* command, const char* mode) {
  const Unregistered unregistered;
  return c_library().popen(command, mode);  // NOLINT(cert-env33-c)
}

struct Function {
  std::string_view name;
  Address own;
  Address marking;
};

template <class F>
Address code_address(F* function) {
  return reinterpret_cast<Address>(function);
}

const std::array<Function, 7>& functions() {
  static const std::array<Function, 7> all = {{
      {"vfork", code_address(c_library().vfork), code_address(&pp_vfork)},
      {"__vfork", code_address(c_library().vfork), code_address(&pp_vfork)},
      {"clone", code_address(c_library().clone), code_address(&clone_child)},
      {"posix_spawn", code_address(c_library().posix_spawn), code_address(&spawn_child)},
      {"posix_spawnp", code_address(c_library().posix_spawnp), code_address(&spawn_child_of_path)},
      {"system", code_address(c_library().system), code_address(&run_command)},
      {"popen", code_address(c_library().popen), code_address(&open_command)},
  }};
  return all;
}

// Before any lock is held: to look them up takes the loader's, which a thread in dlopen() holds
// while it runs constructors that may wait for ours.
[[gnu::constructor]] void look_up_replacements() {
  static_cast<void>(functions());
}

// Changes the object's imports. One that the loader has set leads to the C library's function, or
// to another one, which is left alone. One that it has not set yet leads into its own object.
void lead_to_marking(const LoadedObject& object) {
  const Range own = object.extent();
  object.for_each_import([&](std::string_view name, Address* import) {
    const auto function = std::find_if(functions().begin(), functions().end(),
                                       [&](const Function& one) { return one.name == name; });
    if (function == functions().end()) return;
    const Address leads_to = __atomic_load_n(import, __ATOMIC_RELAXED);
    if (leads_to == function->own || own.contains(leads_to)) lead(import, function->marking);
  });
}

}  // namespace

bool can_mark_children() {
  return __rseq_size != 0 && __rseq_size <= arch::kMarkableRseqSize && !kernel_checks_rseq() &&
         possible_cpus() <= layout::kMaxCpus;  // what has a place in the tables of CPUs
}

void mark_children() {
  static std::mutex mutex;
  static LoaderState loaded;
  static const bool is_possible = can_mark_children();
  if (!is_possible) return;
  const std::lock_guard lock(mutex);
  LoaderState now;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        LoaderState& state = *static_cast<LoaderState*>(out);
        state.look_at(*info);
        if (loaded.holds(state)) return 1;
        // The loader would set its imports, or add to them, afterwards.
        if (is_relocated(*info)) lead_to_marking(LoadedObject(*info));
        return 0;
      },
      &now);
  if (!loaded.holds(now)) loaded = now;
}

}  // namespace pinprick::library
