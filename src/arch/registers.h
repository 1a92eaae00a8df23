// The registers of a stopped thread, as ptrace reads and writes them, by what they are for; and
// those of interrupted code in signal frames.
//
// Pure, thread-safe.
#pragma once

#include <sys/user.h>

#include "arch/native.h"
#include "base/address.h"

// SignalFrameFinder, in line: all words of a stack go through it.
#if defined(__x86_64__)
#include "arch/x86_64/signal_frame.h"
#endif

namespace pinprick::arch {

using Registers = user_regs_struct;

Address instruction_pointer(const Registers& registers);
void set_instruction_pointer(Registers& registers, Address address);
Address stack_pointer(const Registers& registers);
// False for a thread of a program for the architecture's 32-bit mode, as long as it runs in it.
bool is_64_bit(const Registers& registers);

// The address of the breakpoint by which the thread was stopped.
Address breakpoint_of(const Registers& registers);

}  // namespace pinprick::arch
