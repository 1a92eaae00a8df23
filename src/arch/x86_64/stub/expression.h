// The code that computes an expression (arch/expression.h) in a stub.
//
// It uses rax, rcx, the flags, words below the stack pointer, and rdx if it divides: the caller has
// saved all of these. It jumps forward only, and leaves the stack pointer where it was. Memory
// that pointers lead to is read by routines of the runtime, which preserve all other registers.
//
// At the return of a call it is called by the runtime, which has saved other registers as well, and
// rdi is the address of the call's slot.
#pragma once

#include <cstdint>

#include "arch/assembler.h"
#include "arch/expression.h"
#include "arch/frames.h"
#include "arch/stub.h"

namespace pinprick::arch {

// The stack of an expression's code. Words count from the program's stack pointer down.
struct ExpressionFrame {
  uint8_t offset = 0;       // of the program's instruction, from the site (StubRow::offset)
  Address instruction = 0;  // its address
  int words = 0;            // between the program's stack pointer and that of the code
  // Which word has what the program has in the register; 0: the register has it.
  int rax = 0;
  int rcx = 0;
  int rdx = 0;
  // At the return of a call, where rdi has its slot.
  int rsi = 0;
  int rdi = 0;
  int r8 = 0;
  int of_runtime = 0;  // words that are the runtime's, which has called the code
  int32_t kept = 0;    // from a slot to the values that are kept with its call
  // Called by a slot's code, which has put its own return address where the program's was.
  const KeptAtEntry* in_slot = nullptr;
  // Of an expression that may have no value: where it goes on then, with as many words.
  const Routines* pointers = nullptr;
  Assembler::Label unread = {};
};

// Is it made of comparisons that need no register, so that the code changes nothing but flags?
bool needs_flags_only(const Expression& condition);
bool divides(const Expression& expression);

// Emits code that leaves the value in rax.
void emit_value(Assembler& code, StubFrames& frames, const Expression& expression,
                const ExpressionFrame& frame);

// Emits code that goes to `to` if the value is not 0, and on if it is 0.
void emit_jump_if_true(Assembler& code, StubFrames& frames, const Expression& condition,
                       const ExpressionFrame& frame, Assembler::Label to);

}  // namespace pinprick::arch
