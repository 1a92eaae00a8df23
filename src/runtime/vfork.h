// A vfork that marks its child as having no registered rseq area (library/process/children.h).
#pragma once

#include <sys/types.h>

extern "C" {

// Replaces the C library's vfork, for a thread with a registered area or without.
pid_t pp_vfork();
// Restores the CPU number in the area of a thread that was marked while its child ran.
void pp_put_cpu_back();

}  // extern "C"
