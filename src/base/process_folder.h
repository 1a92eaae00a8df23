// Finds the folder in /proc that shows what a process has: its memory, its mappings, its
// descriptors, its files.
//
// /proc/PID shows what the process's first thread has. If that thread has ended by itself
// (pthread_exit), it has nothing any more, while the others continue with everything. Then the
// folder of one of those is used.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace pinprick {

// Returns "/proc/PID"; "/proc/PID/task/TID" of a living thread if the first one has ended;
// "/proc/PID" if the process has ended. A thread's folder has no map_files.
std::string process_folder(pid_t pid);

// Reads a file of that folder, which the kernel shows as empty for a thread that has ended: `maps`
// or `auxv`, for example. Empty if the process has ended.
Result<std::string, SystemError> read_process_file(pid_t pid, const char* name);

// Returns the threads that have not been reaped, the first one included; empty if the process is
// gone.
std::vector<pid_t> thread_numbers(pid_t pid);

// Returns its open descriptors; empty if they may not be read.
std::vector<int> descriptor_numbers(pid_t pid);

}  // namespace pinprick
