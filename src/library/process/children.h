// Marks children that share this process's memory: those of vfork, of clone with CLONE_VFORK, and
// of posix_spawn, posix_spawnp, system and popen, which use clone.
//
// Such a child shares its parent's rseq area, but is not registered with the kernel. So while it
// runs, the area says that it is not registered, and probes in the child count by locked
// instructions (arch/vfork_hook.h does the same for attached sessions).
//
// This does not write text: threads start with all signals blocked, as does posix_spawn's child,
// and a breakpoint there would kill the process. Objects call these functions through pointers that
// the loader has set; these are changed to lead here. Each pointer is one word, so a call meanwhile
// gets either function. posix_spawn makes its child inside the C library, so the calling thread
// unregisters its area around it, by a system call, and registers it again. Under a seccomp filter,
// which might kill the thread for that, it does not.
//
// Children made in other ways are not marked: through a pointer from dlsym, by an object that was
// loaded after the last probe was placed, or within the C library (wordexp).
//
// mark_children() may be called by any thread that holds a lock which forks wait for; children may
// be made at any time.
#pragma once

namespace pinprick::library {

// Are there rseq areas, and may a program write into them? If not, all counting is by locked
// instructions.
bool can_mark_children();

// Changes the pointers of all loaded objects. Cheap if no object was loaded since the last call.
void mark_children();

}  // namespace pinprick::library
