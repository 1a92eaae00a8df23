// Which thread-local variable a function returns the address of. The bytes are from Debian 12's
// glibc and musl, and what gcc 12 and clang 14 make of `return &errno` for a static program.
#include "arch/thread_variable.h"

#include <gtest/gtest.h>

#include "bytes.h"

namespace pinprick::arch {
namespace {

const Bytes kEndbr = {0xf3, 0x0f, 0x1e, 0xfa};
const Bytes kAddThreadPointer = {0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0};
const Bytes kTakeThreadPointer = {0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0};
const Bytes kTakeWord = {0x48, 0x8b, 0x05, 0x79, 0xb7, 0x1a, 0};    // mov 0x1ab779(%rip),%rax
const Bytes kAddWord = {0x48, 0x03, 0x05, 0xf9, 0xff, 0xff, 0xff};  // add -7(%rip),%rax
const Bytes kRet = {0xc3};

std::optional<ThreadVariable> variable(const std::vector<Bytes>& parts) {
  Bytes code;
  for (const Bytes& part : parts) code.insert(code.end(), part.begin(), part.end());
  return returned_thread_variable(code, 0x27660);
}

TEST(ThreadVariable, LiesWhereTheLoaderSays) {
  const ThreadVariable of_glibc = {.offset_at = 0x1d2de0};
  EXPECT_EQ(variable({kTakeWord, kAddThreadPointer, kRet}), of_glibc);
  const ThreadVariable after_endbr = {.offset_at = 0x1d2de4};
  EXPECT_EQ(variable({kEndbr, kTakeWord, kAddThreadPointer, kRet}), after_endbr);
  const ThreadVariable added = {.offset_at = 0x27660 + 9};
  EXPECT_EQ(variable({kTakeThreadPointer, kAddWord, kRet}), added);
}

TEST(ThreadVariable, LiesAtADistanceThatTheCodeHas) {
  const Bytes take_number = {0x48, 0xc7, 0xc0, 0xc0, 0xff, 0xff, 0xff};  // mov $-64,%rax
  const Bytes add_number = {0x48, 0x83, 0xc0, 0x34};                     // add $0x34,%rax
  const Bytes add_by_lea = {0x48, 0x8d, 0x80, 0xc0, 0xff, 0xff, 0xff};   // lea -64(%rax),%rax
  const Bytes subtract = {0x48, 0x83, 0xe8, 0x40};                       // sub $64,%rax
  const ThreadVariable before = {.offset = -64}, in_block = {.offset = 0x34};
  EXPECT_EQ(variable({take_number, kAddThreadPointer, kRet}), before);
  EXPECT_EQ(variable({kTakeThreadPointer, add_number, kRet}), in_block);
  EXPECT_EQ(variable({kTakeThreadPointer, add_by_lea, kRet}), before);
  EXPECT_EQ(variable({kTakeThreadPointer, subtract, kRet}), before);
}

TEST(ThreadVariable, IsNotGuessed) {
  const Bytes push = {0x55}, take_argument = {0x48, 0x89, 0xf8}, take_32 = {0x8b, 0x05, 0, 0, 0, 0};
  const Bytes of_gs = {0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0};
  const Bytes load = {0x64, 0x48, 0x8b, 0x04, 0x25,
                      8,    0,    0,    0};  // what lies there, not where it is
  const Bytes call = {0xe8, 0, 0, 0, 0};     // __tls_get_addr
  for (const std::vector<Bytes>& parts : {std::vector<Bytes>{},
                                          {kRet},
                                          {kTakeWord, kRet},
                                          {kTakeWord, kAddThreadPointer},
                                          {push, kTakeWord, kAddThreadPointer, kRet},
                                          {take_argument, kAddThreadPointer, kRet},
                                          {take_32, kAddThreadPointer, kRet},
                                          {of_gs, kAddWord, kRet},
                                          {load, kRet},
                                          {kTakeThreadPointer, kAddThreadPointer, kRet},
                                          {kTakeWord, kAddWord, kAddThreadPointer, kRet},
                                          {kTakeThreadPointer, call, kRet}})
    EXPECT_EQ(variable(parts), std::nullopt);
}

}  // namespace
}  // namespace pinprick::arch
