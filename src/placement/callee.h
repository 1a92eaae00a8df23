// Is a piece of code entered as functions are, with the return address on top of the stack, and
// nothing below it that is still needed?
//
// Compilers put the unlikely parts of a function elsewhere, with an unwind entry of their own. Such
// a part of a leaf function is entered with the return address on top of the stack, like a
// function, but may have data in the red zone. Names tell them apart (foo.cold). In stripped
// objects, the calls and jumps that lead there do, and what the code does.
//
// A function without a prologue may also jump back to its first instruction, as the head of a loop,
// with data in the red zone.
#pragma once

#include <cstdint>

#include "arch/stub.h"
#include "image/object.h"

namespace pinprick::placement {

// How threads come to the entry of a function.
enum class Entered : uint8_t {
  by_call,
  by_own_jump,  // by calls, and by jumps from its own midst, where it has data below the stack
                // pointer
  by_jump,      // as a part of another function is, or unknown
};

// May load parts of the object.
Entered how_entered(image::Object& object, const image::Function& function);

// What stubs may use of the stack at the entry of code that is called, and anywhere else.
constexpr arch::StackUse stack_use(bool at_called_entry) {
  return at_called_entry ? arch::StackUse::at_entry : arch::StackUse::keep_red_zone;
}

}  // namespace pinprick::placement
