// The class Assembler of the compiled architecture. Code outside of arch/ includes this to hand an
// Assembler to the emitters of this folder (stub.h, unwind_tables.h, ...); it calls none of its
// instructions.
#pragma once

#if defined(__x86_64__)
#include "arch/x86_64/emit.h"
#endif
