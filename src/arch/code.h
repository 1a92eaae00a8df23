// One decoded instruction: what the placement of probes needs to know about it.
//
// Pure, thread-safe, no allocation. No other module sees a decoder, or an opcode.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "arch/native.h"
#include "base/address.h"

namespace pinprick::arch {

// Returns whether this is the code that signal handlers return to. Debuggers and unwinders
// recognise it by its bytes.
bool is_signal_restorer(std::span<const uint8_t> function);

// Where execution goes after an instruction.
enum class Flow : uint8_t {
  next,           // to the next instruction
  jump,           // to `target`
  jump_if,        // to `target` or to the next instruction (jcc, loop, jrcxz, xbegin)
  call,           // to `target`, which returns to the next instruction
  jump_indirect,  // to an address from a register or memory
  call_indirect,  // the same, which returns to the next instruction
  ret,            // out of the function
  trap,           // faults or traps: ud2, int3, hlt
};

enum class Special : uint8_t {
  none,
  nop,          // of any length
  landing_pad,  // for indirect-branch tracking (endbr64)
  int3,
  syscall,
  lea,           // with a RIP-relative operand: takes the address of `memory`
  add_register,  // register to register: the last step in computing a jump table's target
  add_memory,    // from or to memory: the same with a table of whole words
};

struct Instruction {
  Address address = 0;
  uint8_t length = 0;
  Flow flow = Flow::next;
  Special special = Special::none;
  bool has_rip_operand = false;  // its memory operand is at `memory`
  bool has_memory_operand = false;
  uint8_t displacement_size = 0;  // bytes; 0: none
  uint8_t immediate_size = 0;     // bytes; 0: none; the displacement of a branch does not count
  Address target = 0;             // of a direct branch
  Address memory = 0;             // the RIP-relative operand, resolved
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

// Returns the instruction at the start of `bytes`, which lie at `address`; nullopt if there is none
// or it is cut off.
std::optional<Instruction> decode(std::span<const uint8_t> bytes, Address address);

}  // namespace pinprick::arch
