#include "arch/stack_check.h"

#include <algorithm>
#include <initializer_list>

namespace pinprick::arch {
namespace {

bool starts_with(std::span<const uint8_t> code, std::initializer_list<uint8_t> bytes) {
  return code.size() >= bytes.size() && std::equal(bytes.begin(), bytes.end(), code.begin());
}

// Returns the length of a jbe; 0 if it is another instruction.
uint8_t length_of_jbe(std::span<const uint8_t> code) {
  if (starts_with(code, {0x76}) && code.size() >= 2) return 2;
  if (starts_with(code, {0x0f, 0x86}) && code.size() >= 6) return 6;
  return 0;
}

// Returns the length of lea -N(%rsp),%r12; 0 if it is another instruction.
uint8_t length_of_lea(std::span<const uint8_t> code) {
  if (starts_with(code, {0x4c, 0x8d, 0x64, 0x24})) return 5;
  if (starts_with(code, {0x4c, 0x8d, 0xa4, 0x24})) return 8;
  return 0;
}

}  // namespace

uint8_t displaced_of_stack_check(std::span<const uint8_t> code) {
  constexpr uint8_t kCompare = 4;
  if (starts_with(code, {0x49, 0x3b, 0x66, 0x10})) {
    const uint8_t branch = length_of_jbe(code.subspan(kCompare));
    return branch == 0 ? 0 : kCompare + branch;
  }
  const uint8_t lea = length_of_lea(code);
  if (lea == 0 || lea > code.size()) return 0;
  const auto compare = code.subspan(lea);
  const bool is_check = starts_with(compare, {0x4d, 0x3b, 0x66, 0x10}) &&
                        length_of_jbe(compare.subspan(kCompare)) != 0;
  return is_check ? lea : 0;
}

}  // namespace pinprick::arch
