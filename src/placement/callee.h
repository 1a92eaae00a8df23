// Is a piece of code entered as functions are: the return address on top of the stack, and below it
// nothing that anybody needs?
//
// Compilers put the unlikely parts of a function elsewhere, with an unwind entry of their own. Of a
// function that calls nobody such a part begins with the return address on top of the stack like a
// function, but its data may lie in the red zone. With names they are told apart (foo.cold); in
// stripped objects by who leads there, and what they do.
#pragma once

#include "arch/stub.h"
#include "image/object.h"

namespace pinprick::placement {

// False where it cannot be told.
bool is_called(image::Object& object, const image::Function& function);

// What stubs may use of the stack at the entry of code that is called, and anywhere else.
constexpr arch::StackUse stack_use(bool at_called_entry) {
  return at_called_entry ? arch::StackUse::at_entry : arch::StackUse::keep_red_zone;
}

}  // namespace pinprick::placement
