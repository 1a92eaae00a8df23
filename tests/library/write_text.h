// Changes a byte of the program's text, as others than the library would.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>

namespace pinprick {

inline void write_text(const void* at, uint8_t value) {
  const int memory = ::open("/proc/self/mem", O_RDWR);
  EXPECT_EQ(::pwrite(memory, &value, 1, static_cast<off_t>(reinterpret_cast<uintptr_t>(at))), 1);
  ::close(memory);
}

}  // namespace pinprick
