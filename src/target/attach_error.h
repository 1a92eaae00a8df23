// Why a process cannot be attached to, stopped, or made to do something.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace pinprick::target {

enum class AttachCause : uint8_t {
  no_such_process,
  not_permitted,   // ptrace says so
  already_traced,  // by `other`: a debugger, strace, another pinprick
  not_64_bit,      // a 32-bit program, or a thread in 32-bit code
  shadow_stack,    // the processor compares return addresses, some of which stubs push themselves
  is_ourselves,
  kernel_thread,  // or a zombie: no memory to probe
  exited,         // meanwhile
  exec_during_attach,
  thread_unstoppable,  // thread `other` hangs in the kernel
  seccomp,             // it has a filter that we may not read and suspend
  seccomp_deadly,      // its filter would kill it at `detail` if we died
  shares_memory,       // with its parent, until it executes a program (vfork)
  user_dispatch,       // thread `other` has its system calls turned into signals (SIGSYS)
  frozen,              // it does not run, as its control group is frozen
  no_room,             // there is no room for the code that a hijacked thread runs
  no_address_space,    // no free range where one is needed
  call_refused,        // the kernel refused `detail` in the target
  memory_refused,      // /proc/PID/mem cannot be written
  handover_failed,     // the shared file did not reach the target
  no_thread_ids,  // no offset in the threads' control blocks holds their TIDs, or there are none
  probes_itself,  // by libpinprick, and does not share its text (patch/text_owner.h)
  probes_itself_now,  // by libpinprick, since it was looked at
};

struct AttachError {
  AttachCause cause = AttachCause::no_such_process;
  pid_t pid = 0;
  pid_t other = 0;
  int system_error = 0;
  std::string detail;
};

}  // namespace pinprick::target
