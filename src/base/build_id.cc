#include "base/build_id.h"

#include <elf.h>

#include <cstring>

#include "base/address.h"
#include "base/bytes.h"

namespace pinprick {

std::span<const uint8_t> build_id_in(std::span<const uint8_t> notes) {
  ByteReader reader(notes);
  while (reader.remaining() >= sizeof(Elf64_Nhdr)) {
    const uint32_t name_size = reader.u32();
    const uint32_t size = reader.u32();
    const uint32_t type = reader.u32();
    const auto name = reader.take(align_up(name_size, 4));
    const auto description = reader.take(align_up(size, 4));
    if (reader.ok() && type == NT_GNU_BUILD_ID && name_size == 4 &&
        std::memcmp(name.data(), "GNU", 4) == 0)
      return description.first(size);
  }
  return {};
}

std::span<const uint8_t> build_id_of(const dl_phdr_info& object) {
  std::span<const uint8_t> id;
  for (size_t i = 0; i < object.dlpi_phnum && id.empty(); ++i) {
    const ElfW(Phdr)& header = object.dlpi_phdr[i];
    if (header.p_type == PT_NOTE)
      id = build_id_in(
          {reinterpret_cast<const uint8_t*>(object.dlpi_addr + header.p_vaddr), header.p_memsz});
  }
  return id;
}

std::string own_build_id() {
  std::string text;
  ::dl_iterate_phdr(
      [](dl_phdr_info* program, size_t, void* data) {
        constexpr char kDigits[] = "0123456789abcdef";
        for (const uint8_t byte : build_id_of(*program)) {
          static_cast<std::string*>(data)->push_back(kDigits[byte >> 4]);
          static_cast<std::string*>(data)->push_back(kDigits[byte & 15]);
        }
        return 1;  // the program comes first, before its libraries
      },
      &text);
  return text;
}

}  // namespace pinprick
