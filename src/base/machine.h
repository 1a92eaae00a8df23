// Facts about this machine.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace pinprick {

// Returns the identity of this boot of the kernel, 32 hexadecimal digits.
const std::string& boot_id();

// Returns one more than the highest CPU number possible.
uint32_t possible_cpus();

struct KernelVersion {
  unsigned major = 0, minor = 0;
  friend auto operator<=>(const KernelVersion&, const KernelVersion&) = default;
};
// Returns the version of the running kernel, and of a release such as 6.1.0-13-amd64. 0.0 is less
// than all others, and returned if it cannot be read.
KernelVersion kernel_version();
KernelVersion parse_kernel_version(std::string_view release);

// Returns what the first processor calls itself, and of the text of /proc/cpuinfo; "unknown CPU" if
// it says nothing.
std::string cpu_name();
std::string parse_cpu_name(std::string_view cpuinfo);

// Returns the name of the system that is installed, by /etc/os-release, and of the text of such a
// file; "unknown system" if it says nothing.
std::string system_name();
std::string parse_system_name(std::string_view os_release);

// Returns whether the kernel was told (rseq_debug) to check that only it writes into threads' rseq
// areas: it then kills a program that does (Linux 6.19).
bool kernel_checks_rseq();
bool checks_rseq(std::string_view kernel_command_line);

}  // namespace pinprick
