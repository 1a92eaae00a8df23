// Facts about this machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pinprick {

// Returns the identity of this boot of the kernel, 32 hexadecimal digits.
const std::string& boot_id();

// Returns one more than the highest CPU number possible.
uint32_t possible_cpus();

// Returns whether the kernel was told (rseq_debug) to check that only it writes into threads' rseq
// areas: it then kills a program that does (Linux 6.19).
bool kernel_checks_rseq();
bool checks_rseq(std::string_view kernel_command_line);

}  // namespace pinprick
