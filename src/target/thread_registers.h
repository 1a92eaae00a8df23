// The registers of a stopped thread that this thread of ours traces. The functions return false if
// the thread is gone, or not stopped.
#pragma once

#include <sys/ptrace.h>
#include <sys/types.h>

#include "arch/registers.h"

namespace pinprick::target {

inline bool read_registers(pid_t tid, arch::Registers& registers) {
  return ptrace(PTRACE_GETREGS, tid, nullptr, &registers) == 0;
}

inline bool write_registers(pid_t tid, const arch::Registers& registers) {
  return ptrace(PTRACE_SETREGS, tid, nullptr, &registers) == 0;
}

}  // namespace pinprick::target
