#include "arch/registers.h"

namespace pinprick::arch {
namespace {

constexpr uint64_t kCodeSegment32 = 0x23;

}  // namespace

Address instruction_pointer(const Registers& registers) {
  return registers.rip;
}

void set_instruction_pointer(Registers& registers, Address address) {
  registers.rip = address;
}

Address stack_pointer(const Registers& registers) {
  return registers.rsp;
}

void set_stack_pointer(Registers& registers, Address address) {
  registers.rsp = address;
}

Address thread_pointer(const Registers& registers) {
  return registers.fs_base;
}

bool is_64_bit(const Registers& registers) {
  return registers.cs != kCodeSegment32;
}

// The processor reports a breakpoint after its instruction.
Address breakpoint_of(const Registers& registers) {
  return registers.rip - kBreakpointLength;
}

}  // namespace pinprick::arch
