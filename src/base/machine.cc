#include "base/machine.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/fd.h"

namespace pinprick {

std::string boot_id() {
  auto text = read_file("/proc/sys/kernel/random/boot_id");
  if (!text) return {};
  std::erase_if(*text, [](char c) { return c == '-' || c == '\n'; });
  return *text;
}

uint32_t possible_cpus() {
  auto text = read_file("/sys/devices/system/cpu/possible");  // 0-7 or 0,2-5
  if (text) {
    const size_t last = text->find_last_of("-,");
    const char* number = text->c_str() + (last == text->npos ? 0 : last + 1);
    if (*number >= '0' && *number <= '9')
      return static_cast<uint32_t>(std::strtoul(number, nullptr, 10)) + 1;
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace pinprick
