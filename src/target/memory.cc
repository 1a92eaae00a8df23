#include "target/memory.h"

#include <fcntl.h>
#include <fmt/format.h>

namespace pinprick::target {

Result<Memory, SystemError> Memory::open(pid_t pid) {
  auto fd = open_file(fmt::format("/proc/{}/mem", pid), O_RDWR);
  if (!fd) return fail(fd.error());
  return Memory(*std::move(fd));
}

bool Memory::read(Address address, std::span<uint8_t> out) const {
  return read_at(fd_.get(), out, address).ok();
}

Result<void, SystemError> Memory::write(Address address, std::span<const uint8_t> bytes) const {
  return write_at(fd_.get(), bytes, address);
}

}  // namespace pinprick::target
