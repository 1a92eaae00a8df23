// The registers of a thread that we trace and that is stopped. All functions return false if it is
// gone, or not stopped.
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
