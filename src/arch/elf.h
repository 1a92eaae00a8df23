// What ELF files, DWARF and the kernel's filters call this architecture and its parts: kElfMachine,
// kRelocation..., kDwarf..., kAuditArchitecture.
#pragma once

#include "arch/native.h"
