// The CPU time of another process. Takes one system call; needs no right over the process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace pinprick::target {

// Returns the nanoseconds that all threads of the process have used so far, in the program and in
// the kernel, those that have ended included, but not its children. Where the kernel keeps the
// clock of another process from us, it counts in ticks of 10 ms. Returns nullopt if there is no
// such process.
std::optional<uint64_t> cpu_time_ns(pid_t pid);

}  // namespace pinprick::target
