// The registers of a stopped thread, as ptrace reads and writes them, by their role; and those of
// interrupted code in signal frames.
//
// Pure, thread-safe.
#pragma once

#include <sys/user.h>

#include "arch/native.h"
#include "base/address.h"

// SignalFrameFinder is inline: every word of a stack goes through it.
#if defined(__x86_64__)
#include "arch/x86_64/signal_frame.h"
#endif

namespace pinprick::arch {

using Registers = user_regs_struct;

Address instruction_pointer(const Registers& registers);
void set_instruction_pointer(Registers& registers, Address address);
Address stack_pointer(const Registers& registers);
void set_stack_pointer(Registers& registers, Address address);
// The address of the thread's control block; 0 until the thread has set it.
Address thread_pointer(const Registers& registers);
// Returns false for a thread of a 32-bit program, while it runs in 32-bit mode.
bool is_64_bit(const Registers& registers);

// Returns the address of the breakpoint that stopped the thread.
Address breakpoint_of(const Registers& registers);

}  // namespace pinprick::arch
