// The class Assembler of the architecture that is compiled. Who includes this hands one on to the
// emitters of this folder (stub.h, unwind_tables.h, ...), and calls no instruction of it.
#pragma once

#if defined(__x86_64__)
#include "arch/x86_64/emit.h"
#endif
