#include "image/elf/machine.h"

#include <elf.h>
#include <fcntl.h>

#include <cstddef>
#include <cstring>

#include "arch/elf.h"
#include "base/fd.h"

namespace pinprick::image {
namespace {

// Both classes have it there.
constexpr size_t kAt = offsetof(Elf64_Ehdr, e_machine);
static_assert(kAt == offsetof(Elf32_Ehdr, e_machine));
constexpr size_t kHeadSize = kAt + sizeof(Elf64_Half);

}  // namespace

bool Machine::is_ours() const {
  return number == arch::kElfMachine && !is_32_bit;
}

std::optional<Machine> machine_of(std::span<const uint8_t> head) {
  if (head.size() < kHeadSize || std::memcmp(head.data(), ELFMAG, SELFMAG) != 0)
    return std::nullopt;
  const bool is_big_endian = head[EI_DATA] == ELFDATA2MSB;
  const auto high = static_cast<unsigned>(head[kAt + (is_big_endian ? 0 : 1)]);
  const auto low = static_cast<unsigned>(head[kAt + (is_big_endian ? 1 : 0)]);
  return Machine{static_cast<uint16_t>(high << 8 | low), head[EI_CLASS] == ELFCLASS32};
}

std::optional<Machine> machine_of_file(const std::string& path) {
  // Not blocking: a FIFO of that name would be waited for.
  const auto file = open_file(path, O_RDONLY | O_NONBLOCK);
  uint8_t head[kHeadSize] = {};
  if (!file || !read_at(file->get(), head, 0)) return std::nullopt;
  return machine_of(head);
}

}  // namespace pinprick::image
