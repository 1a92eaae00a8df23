// Facts about this machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pinprick {

// Identity of this boot of the kernel, 32 hexadecimal digits.
std::string boot_id();

// One more than the highest CPU number that can ever be.
uint32_t possible_cpus();

// Has the kernel been told to check that nobody else has written into the rseq areas of threads? It
// ends a program for it then (Linux 6.19).
bool kernel_checks_rseq();
bool checks_rseq(std::string_view kernel_command_line);

}  // namespace pinprick
