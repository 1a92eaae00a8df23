// The names that ELF, DWARF and the kernel's seccomp filters have for this architecture and its
// parts: kElfMachine, kRelocation..., kDwarf..., kAuditArchitecture.
#pragma once

#include "arch/native.h"
