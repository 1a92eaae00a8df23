// What an unwinder has to know at each instruction of the code that stubs share (arch/frames.h).
#pragma once

#include <cstdint>

#include "base/address.h"

namespace pinprick::arch {

// In code that stubs share. The words are those between the stack pointer and the stack of the one
// who comes next.
struct CodeRow {
  enum class Caller : uint8_t {
    nowhere = 0,        // nothing is known
    returned_to = 1,    // a return address lies in the first of the words
    inside_call = 2,    // the same, but the caller's stack is that before the call is over
    record_in_rax = 3,  // a function that is entered by its probe; its ProbeRecord is there
    record_in_rdx = 4,
    record_on_stack = 5,       // at [rsp + argument]
    slot_code_on_stack = 6,    // the record in the slot whose code is at [rsp + argument]
    slot_in_rdx = 7,           // the return address of that slot
    returned_to_with_rbp = 8,  // the words are those from rbp on
  };
  Address from = 0;
  Caller caller = Caller::nowhere;
  int8_t words = 0;
  int8_t argument = 0;
  // Which callee-saved registers lie among the words, and where, from the caller's stack down.
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
