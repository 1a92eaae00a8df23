// Stacks that hits have walked (runtime/stacks.inc), from the entries of the table of texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/address.h"
#include "ledger/session_file.h"
#include "select/value.h"

namespace pinprick::session {

struct Stack {
  // The innermost first. Calls return to these addresses, but for those with PP_FRAME_IS_NEXT_BIT.
  std::vector<Address> frames;
  enum class End : uint8_t {
    complete,
    cut,      // there are more frames than were asked for
    unknown,  // how the last one was called is not known
  } end = End::unknown;
};

// Returns the stack with this number. `texts` has ReadTexts by their number less 1. Any process of
// the session may have written nonsense there. The stack has no frames if there is none.
template <class Texts>
Stack stack_of(uint64_t number, const Texts& texts) {
  Stack stack;
  while (stack.frames.size() < select::kMostFrames) {
    if (number == 0 || number > texts.size() || texts[number - 1].frames.size() < 2) break;
    const std::vector<uint64_t>& part = texts[number - 1].frames;
    stack.frames.insert(stack.frames.end(), part.begin(), part.end() - 1);
    number = part.back();
  }
  if (number == PP_STACK_COMPLETE) stack.end = Stack::End::complete;
  if (number == static_cast<uint64_t>(PP_STACK_CUT)) stack.end = Stack::End::cut;
  return stack;
}

// Returns the name of an address in the code of the function at `address - before`: 1 where a call
// returns to, which may be its function's last instruction.
using NameOfCode = std::function<std::string(Address address, uint64_t before)>;

// Returns the names of the frames, with a line end after each. A stack that is not complete has
// another line: `...` if it has more frames, and `[unknown]` if it is not known how the last one
// was called.
std::string frame_names(const Stack& stack, const NameOfCode& name_of_code);

}  // namespace pinprick::session
