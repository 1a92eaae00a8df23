// A vfork whose child is marked as one without a registered rseq area (self/children.h).
#pragma once

#include <sys/types.h>

extern "C" {

// Takes the place of the C library's, for a thread with a registered area or without.
pid_t pp_vfork();
// Puts the CPU back into the area of a thread that was marked for the time of a child.
void pp_put_cpu_back();

}  // extern "C"
