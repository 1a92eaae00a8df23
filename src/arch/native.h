// Lengths, bytes and numbers of the compiled architecture.
//
// Only headers of this folder include an architecture's own headers (here, in assembler.h, frames.h
// and registers.h). All other code includes the headers of this folder.
#pragma once

#if defined(__x86_64__)
#include "arch/x86_64/constants.h"
#else
#error "pinprick knows x86-64 only; a second architecture is a folder beside arch/x86_64"
#endif
