// Marks children that share this process's memory: those of vfork, of clone with CLONE_VFORK, and
// of posix_spawn, posix_spawnp, system and popen, which are clone's.
//
// Such a child shares its parent's rseq area, while the kernel keeps none for it. So the area says
// as long as it runs that there is no registration, and what counts in the child locks
// (arch/vfork_hook.h, where attached sessions do the same).
//
// No text is written for it: threads start with all signals blocked, posix_spawn's child runs so,
// and a breakpoint there would end the process. Objects call these functions through pointers that
// the loader has set, which are made to lead here. They are one word each: whoever calls meanwhile
// calls the one or the other. What posix_spawn does is in the C library, so around it the calling
// thread gives its registration up, by a system call, and takes it back. It does not under a
// seccomp filter, which might end it for that.
//
// Not marked are children of what is called in other ways: by a pointer from dlsym, from an object
// that was loaded after the last probe was placed, or within the C library (wordexp).
//
// One thread at a time; children at any time.
#pragma once

namespace pinprick::library {

// Are there areas, and may a program write into them? Else everybody has to lock.
bool can_mark_children();

// Of all objects that are loaded. Does next to nothing when none has come since.
void mark_children();

}  // namespace pinprick::library
