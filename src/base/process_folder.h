// Where /proc shows what a process has: its memory, its mappings, its descriptors, its files.
//
// The kernel shows there what the process's first thread has. A first thread that has ended by
// itself (pthread_exit) has nothing any more, while the others go on with all of it. So the folder
// of one of those is taken then.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace pinprick {

// "/proc/PID", or "/proc/PID/task/TID" of a living thread if the first one has ended. Of a process
// that has ended it is "/proc/PID". What a thread's folder lacks: map_files.
std::string process_folder(pid_t pid);

// Threads that have not been waited for, the first one among them; empty: the process is gone.
std::vector<pid_t> thread_numbers(pid_t pid);

}  // namespace pinprick
