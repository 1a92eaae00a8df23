#include "target/memory.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/process_folder.h"

namespace pinprick::target {

Result<Memory, SystemError> Memory::open(pid_t pid) {
  auto fd = open_file(process_folder(pid) + "/mem", O_RDWR);
  if (!fd) return fail(fd.error());
  return Memory(*std::move(fd));
}

bool Memory::read(Address address, std::span<uint8_t> out) const {
  return read_at(fd_.get(), out, address).ok();
}

Result<void, SystemError> Memory::write(Address address, std::span<const uint8_t> bytes) const {
  return write_at(fd_.get(), bytes, address);
}

// Reading memory that no longer exists returns 0 bytes. Reading an unmapped address fails.
bool Memory::is_gone() const {
  uint8_t byte = 0;
  return ::pread(fd_.get(), &byte, 1, 0) == 0;
}

}  // namespace pinprick::target
