// One decoded instruction, as far as placing probes needs to know it.
//
// Pure, thread-safe, no allocation. No other module sees a decoder, or an opcode.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "arch/native.h"
#include "base/address.h"

namespace pinprick::arch {

// Is this the code that signal handlers return to? Debuggers and unwinders know it by its bytes.
bool is_signal_restorer(std::span<const uint8_t> function);

// Where execution goes after an instruction.
enum class Flow : uint8_t {
  next,           // only to the next instruction
  jump,           // only to `target`
  jump_if,        // to `target` or the next (jcc, loop, jrcxz, xbegin)
  call,           // to `target`, and back behind it
  jump_indirect,  // to an address from a register or memory
  call_indirect,  // the same, and back
  ret,            // out of the function
  trap,           // nowhere: ud2, int3, hlt
};

enum class Special : uint8_t {
  none,
  nop,          // any length
  landing_pad,  // of indirect-branch tracking (endbr64)
  int3,
  syscall,
  lea,           // with a RIP-relative operand it takes the address of `memory`
  add_register,  // register to register: the last step of a jump table's address
};

struct Instruction {
  Address address = 0;
  uint8_t length = 0;
  Flow flow = Flow::next;
  Special special = Special::none;
  bool has_rip_operand = false;  // a memory operand at `memory`
  bool has_memory_operand = false;
  uint8_t displacement_size = 0;  // bytes, 0: none
  uint8_t immediate_size = 0;     // bytes, 0: none; a branch's displacement is no immediate
  Address target = 0;             // of a direct branch
  Address memory = 0;             // RIP-relative operand, resolved
  int64_t displacement = 0;
  uint64_t immediate = 0;

  bool operator==(const Instruction&) const = default;
  Address end() const { return address + length; }
  bool falls_through() const {
    return flow == Flow::next || flow == Flow::jump_if || flow == Flow::call ||
           flow == Flow::call_indirect;
  }
  bool is_call() const { return flow == Flow::call || flow == Flow::call_indirect; }
  bool has_target() const {
    return flow == Flow::jump || flow == Flow::jump_if || flow == Flow::call;
  }
};

// The instruction at `bytes`, which lie at `address`; nothing where they are none or are cut off.
std::optional<Instruction> decode(std::span<const uint8_t> bytes, Address address);

}  // namespace pinprick::arch
