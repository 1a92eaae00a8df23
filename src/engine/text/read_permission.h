// May hits read what pointers lead to? They do so by system calls of their own (runtime/reads.inc),
// which a seccomp filter could take amiss, and which would wait where a userfaultfd serves page
// faults: perhaps for the thread itself.
#pragma once

#include "arch/syscall.h"
#include "base/address.h"
#include "target/stop.h"

namespace pinprick::engine {

// Why hits must not; `none` if they may.
enum class ReadObstacle : uint8_t {
  none,
  filter,       // a thread has a seccomp filter that does not allow it, or that we cannot read
  dispatch,     // the program handles system calls of a thread (PR_SET_SYSCALL_USER_DISPATCH)
  page_faults,  // the process has a userfaultfd
  unwatched,    // a filter could be installed later without our knowledge
};

// Why each read takes a system call; `none` if reads of ordinary memory do without.
enum class SlowReads : uint8_t {
  none,
  no_rseq,    // threads have no restartable sequences, or not where all have theirs
  unwatched,  // memory could be unmapped without our knowledge
  loaded,     // likewise, by code that was loaded after the probes were put in
  refused,    // by the kernel, which lacks membarrier(2), or by a filter of system calls
};

// Calls after which reading could do harm, besides seccomp(2) and userfaultfd(2): options of
// prctl(2), and commands of ioctl(2). The headers of some systems lack them.
inline constexpr uint32_t kFilterOptions[] = {22,
                                              59};  // PR_SET_SECCOMP, PR_SET_SYSCALL_USER_DISPATCH
inline constexpr uint32_t kFaultCommands[] = {0xaa00,
                                              0xc020aa00};  // USERFAULTFD_IOC_NEW, UFFDIO_REGISTER

// Is the thread in the kernel, in another call than those?
bool is_in_harmless_call(const target::StoppedThread& thread);

// What can be seen of a process that runs, which takes long if it has many threads or open files: a
// thread that may make hardly any call (SECCOMP_MODE_STRICT), and a userfaultfd.
ReadObstacle obstacle_while_running(pid_t pid);

// What can be seen of one that stands still, which takes a microsecond for each thread: all
// filters. Those of new threads are their creators'. `code` is where the system calls lie.
ReadObstacle obstacle_in_threads(target::Stop& stop, Address code);

// May all threads make the calls by which a hook waits for those that read (runtime/unmaps.S)?
bool filters_allow_waits_for_readers(target::Stop& stop, Address code);

}  // namespace pinprick::engine
