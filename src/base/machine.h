// Facts about this machine.
#pragma once

#include <cstdint>
#include <string>

namespace pinprick {

// Identity of this boot of the kernel, 32 hexadecimal digits.
std::string boot_id();

// One more than the highest CPU number that can ever be.
uint32_t possible_cpus();

}  // namespace pinprick
