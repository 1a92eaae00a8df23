#include "image/elf/machine.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace pinprick::image {
namespace {

std::vector<uint8_t> head(uint8_t bits, uint8_t order, uint8_t first, uint8_t second) {
  std::vector<uint8_t> bytes(20);
  bytes[0] = 0x7f;
  bytes[1] = 'E';
  bytes[2] = 'L';
  bytes[3] = 'F';
  bytes[EI_CLASS] = bits;
  bytes[EI_DATA] = order;
  bytes[18] = first;
  bytes[19] = second;
  return bytes;
}

TEST(Machine, IsReadInTheByteOrderOfTheFile) {
  const auto arm = machine_of(head(ELFCLASS64, ELFDATA2LSB, EM_AARCH64, 0));
  ASSERT_TRUE(arm.has_value());
  EXPECT_EQ(arm->number, EM_AARCH64);
  EXPECT_FALSE(arm->is_32_bit);
  const auto power = machine_of(head(ELFCLASS32, ELFDATA2MSB, 0, EM_PPC));
  ASSERT_TRUE(power.has_value());
  EXPECT_EQ(power->number, EM_PPC);
  EXPECT_TRUE(power->is_32_bit);
}

TEST(Machine, IsOursForX8664ProgramsWith64BitPointersAlone) {
  EXPECT_TRUE(machine_of(head(ELFCLASS64, ELFDATA2LSB, EM_X86_64, 0))->is_ours());
  EXPECT_FALSE(machine_of(head(ELFCLASS32, ELFDATA2LSB, EM_X86_64, 0))->is_ours()) << "x32";
  EXPECT_FALSE(machine_of(head(ELFCLASS32, ELFDATA2LSB, EM_386, 0))->is_ours());
  EXPECT_FALSE(machine_of(head(ELFCLASS64, ELFDATA2MSB, EM_X86_64, 0))->is_ours());
}

TEST(Machine, OfWhatIsNoElfOrEndsTooEarlyThereIsNone) {
  auto bytes = head(ELFCLASS64, ELFDATA2LSB, EM_X86_64, 0);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(machine_of({bytes.data(), size}).has_value()) << size;
  bytes[0] = '#';
  EXPECT_FALSE(machine_of(bytes).has_value());
  EXPECT_FALSE(machine_of_file("/nowhere").has_value());
  EXPECT_FALSE(machine_of_file("/dev/null").has_value());
  EXPECT_FALSE(machine_of_file("/").has_value());
  ASSERT_TRUE(machine_of_file("/proc/self/exe").has_value());
  EXPECT_TRUE(machine_of_file("/proc/self/exe")->is_ours());
}

}  // namespace
}  // namespace pinprick::image
