// What an unwinder has to know at each instruction of code that stubs share (arch/frames.h).
#pragma once

#include <cstdint>

#include "base/address.h"

namespace pinprick::arch {

// One row. `words` is how many lie between the stack pointer and the caller's stack.
struct CodeRow {
  enum class Caller : uint8_t {
    nowhere = 0,        // unknown
    returned_to = 1,    // the first of the words is a return address
    inside_call = 2,    // the same, but the caller's stack is that before the call returns
    record_in_rax = 3,  // at the entry of a probed function; its ProbeRecord is in rax
    record_in_rdx = 4,
    record_on_stack = 5,       // at [rsp + argument]
    slot_code_on_stack = 6,    // its record is in the slot whose code is at [rsp + argument]
    slot_in_rdx = 7,           // the return address is that of the slot in rdx
    returned_to_with_rbp = 8,  // the same as returned_to, but the words count from rbp
  };
  Address from = 0;
  Caller caller = Caller::nowhere;
  int8_t words = 0;
  int8_t argument = 0;
  // Which callee-saved registers are among the words, and where, counted down from the caller's
  // stack.
  enum Saved : uint8_t {
    rbx_second = 1,
    rbp_third = 2,
    r12_fourth = 4,
    rbx_third = 8,
    rbp_second = 16,
  };
  uint8_t saved = 0;
};

}  // namespace pinprick::arch
