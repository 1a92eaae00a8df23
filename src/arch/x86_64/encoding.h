// How registers stand in instructions: for the files of the assembler alone.
#pragma once

#include <cstdint>

#include "arch/x86_64/emit.h"

namespace pinprick::arch {

constexpr uint8_t low3(Reg reg) {
  return static_cast<uint8_t>(reg) & 7;
}
constexpr bool high(Reg reg) {
  return static_cast<uint8_t>(reg) >= 8;
}
constexpr uint8_t modrm(unsigned mod, unsigned reg, unsigned rm) {
  return static_cast<uint8_t>(mod << 6 | reg << 3 | rm);
}

}  // namespace pinprick::arch
