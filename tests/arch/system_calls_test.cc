// Which system calls are found in code, and with which numbers.
#include "arch/system_calls.h"

#include <gmock/gmock.h>
#include <sys/syscall.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "bytes.h"

namespace pinprick::arch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;
using Numbers = std::optional<std::vector<uint64_t>>;

const Bytes kCall = {0x0f, 0x05}, kReturn = {0xc3}, kNop = {0x90};
Bytes number(uint32_t value) {
  return joined({{0xb8}, little_endian(value)});  // mov $value, %eax
}

// Of the call at the end of the parts, in a function that returns after it.
Numbers numbers_after(const std::vector<Bytes>& before) {
  Bytes code;
  for (const Bytes& one : before) code.insert(code.end(), one.begin(), one.end());
  return system_call_numbers(joined({code, kCall, kReturn}), code.size());
}

TEST(SystemCallNumbers, AreWhatTheInstructionsBeforePutIntoTheRegister) {
  const Bytes wide = joined({{0x48, 0xc7, 0xc0}, little_endian(uint32_t{SYS_munmap})});
  EXPECT_THAT(numbers_after({number(SYS_futex)}), Optional(ElementsAre(SYS_futex)));
  EXPECT_THAT(numbers_after({wide, kNop}), Optional(ElementsAre(SYS_munmap)));
  EXPECT_THAT(numbers_after({number(SYS_futex), number(SYS_munmap)}),
              Optional(ElementsAre(SYS_munmap)));
  EXPECT_THAT(numbers_after({{0x31, 0xc0}}), Optional(ElementsAre(SYS_read))) << "xor";
}

TEST(SystemCallNumbers, AreFollowedThroughOtherRegistersAndCalls) {
  const Bytes to_ebx = joined({{0xbb}, little_endian(uint32_t{SYS_futex})});
  const Bytes to_edx = joined({{0xba}, little_endian(uint32_t{SYS_futex})});
  const Bytes from_ebx = {0x89, 0xd8}, from_edx = {0x89, 0xd0}, call = {0xe8, 0, 0, 0, 0};
  EXPECT_THAT(numbers_after({to_edx, kNop, from_edx}), Optional(ElementsAre(SYS_futex)));
  EXPECT_THAT(numbers_after({to_ebx, call, from_ebx}), Optional(ElementsAre(SYS_futex)));
  EXPECT_EQ(numbers_after({to_edx, call, from_edx}), Numbers()) << "a call changes it";
}

TEST(SystemCallNumbers, AreThoseOfAllPathsToTheCall) {
  //     je 1f; mov $11, %eax; jmp 2f; 1: mov $202, %eax; 2: syscall
  EXPECT_THAT(numbers_after({{0x74, 7}, number(SYS_munmap), {0xeb, 5}, number(SYS_futex)}),
              Optional(ElementsAre(SYS_munmap, SYS_futex)));
}

TEST(SystemCallNumbers, AreNotKnownWhereAnythingElseMayBeThere) {
  const Bytes some = number(SYS_futex);
  EXPECT_EQ(numbers_after({}), Numbers()) << "whatever the caller has there";
  EXPECT_EQ(numbers_after({some, {0x48, 0x89, 0xf8}}), Numbers()) << "an argument";
  EXPECT_EQ(numbers_after({some, {0x58}}), Numbers()) << "pop";
  EXPECT_EQ(numbers_after({some, {0xe8, 0, 0, 0, 0}}), Numbers()) << "what a call returns";
  EXPECT_EQ(numbers_after({{0xb0, SYS_futex}}), Numbers()) << "a part of the register";
  EXPECT_EQ(numbers_after({some, {0x06}}), Numbers()) << "no instruction";
  EXPECT_EQ(numbers_after({some, {0x0f, 0x05}}), Numbers()) << "the result of a call";
  const Bytes jump_to_rcx = {0xff, 0xe1}, over_number = {0x74, 5};
  EXPECT_EQ(numbers_after({jump_to_rcx, some, over_number, some}), Numbers())
      << "a computed jump may lead to where other jumps lead, too";
  EXPECT_THAT(numbers_after({jump_to_rcx, some, kNop}), Optional(ElementsAre(SYS_futex)))
      << "but not between the two";
}

TEST(SystemCallNumbers, AreNoneInsideOfAnotherInstruction) {
  const Bytes within = {0xb8, 0x0f, 0x05, 0x00, 0x00, 0xc3};  // mov $0x50f, %eax
  EXPECT_THAT(find_system_call_bytes(within), ElementsAre(1));
  EXPECT_THAT(system_call_numbers(within, 1), Optional(IsEmpty()));
  EXPECT_FALSE(is_instruction(within, 1));
  EXPECT_TRUE(is_instruction(within, 5));
}

TEST(SystemCallNumbers, MayBeLoadedRightBeforeTheCall) {
  const auto is_before = [](const std::vector<Bytes>& parts) {
    Bytes code;
    for (const Bytes& one : parts) code.insert(code.end(), one.begin(), one.end());
    return has_number_before(joined({code, kCall, kReturn}), code.size());
  };
  EXPECT_TRUE(is_before({kNop, number(SYS_munmap)}));
  EXPECT_FALSE(is_before({number(SYS_munmap), kNop}));
  EXPECT_FALSE(is_before({{0x74, 5}, number(SYS_munmap)})) << "a jump leads past it";
  EXPECT_FALSE(is_before({{0x48, 0xb9, 1, 2, 3}, {0xb8, 0, 0, 0, 0}})) << "inside another";
}

TEST(SystemCalls, AreFoundByTheirBytes) {
  EXPECT_THAT(find_system_call_bytes(Bytes{0x0f, 0x05, 0x0f, 0x05, 0x0f}), ElementsAre(0, 2));
  EXPECT_THAT(find_old_call_bytes(Bytes{0x90, 0xcd, 0x80, 0xcd}), ElementsAre(1));
}

TEST(SystemCalls, ThatAreNotKnownCountAsAnyCall) {
  using List = std::vector<uint64_t>;
  for (const uint64_t filter : {SYS_seccomp, SYS_prctl})
    EXPECT_TRUE(may_install_filter(List{SYS_futex, filter}));
  for (const uint64_t call : {SYS_munmap, SYS_mremap, SYS_mprotect, SYS_mmap, SYS_brk, SYS_madvise})
    EXPECT_TRUE(may_unmap(List{SYS_futex, call}));
  EXPECT_TRUE(may_install_filter(std::nullopt));
  EXPECT_TRUE(may_unmap(std::nullopt));
  EXPECT_FALSE(may_install_filter(List{SYS_futex}));
  EXPECT_FALSE(may_unmap(List{SYS_futex}));
  EXPECT_FALSE(may_unmap(List{}));
}

}  // namespace
}  // namespace pinprick::arch
