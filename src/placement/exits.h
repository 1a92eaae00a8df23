// Finds all ways out of a function, so that the ends of its calls can be seen there.
//
// Pure, but for the lazy loading of objects.
#pragma once

#include <optional>
#include <vector>

#include "base/address.h"
#include "image/object.h"
#include "plan/planner.h"

namespace pinprick::placement {

// The code of a function in one place, with the exits in it.
struct FunctionPiece {
  plan::FunctionCode code;
  // The addresses of its returns, and of its jumps to other functions, ascending. At each of them
  // the return address is on top of the stack.
  std::vector<Address> exits;
};

struct Exits {
  // The first piece starts with the function's entry. The others are parts that the compiler has
  // put elsewhere (foo.cold).
  std::vector<FunctionPiece> pieces;
  bool has_tail_jumps = false;
};

// Returns nullopt if the function may be left in another way: some of its code cannot be decoded, a
// computed jump may lead anywhere, it jumps to another function on a condition, jumps to its own
// entry, or its code goes on in the next function. Calls that do not return are no ways out, and
// neither are exceptions. `code` is the function's.
std::optional<Exits> find_exits(image::Object& object, const plan::FunctionCode& code);

}  // namespace pinprick::placement
