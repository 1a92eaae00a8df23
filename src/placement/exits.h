// Finds all ways out of a function, so that the ends of its calls can be seen there.
//
// Pure, but for the lazy loading of objects.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/address.h"
#include "image/object.h"
#include "plan/planner.h"

namespace pinprick::placement {

// The parts of an object's functions that the compiler has put elsewhere, by the names of the
// functions: foo.cold is a part of foo. Valid as long as the object. Thread-safe.
class FunctionParts {
 public:
  explicit FunctionParts(image::Object& object);

  // Returns those of functions with that name, of which there may be several in an object.
  std::vector<const image::Function*> of(std::string_view name) const;
  // Would a part have a name?
  bool have_names() const { return have_names_; }

 private:
  std::unordered_multimap<std::string_view, const image::Function*> parts_;
  bool have_names_ = false;
};

// The code of a function in one place, with the exits in it.
struct FunctionPiece {
  plan::FunctionCode code;
  // The addresses of its returns, and of its jumps to other functions, ascending. At each of them
  // the return address is on top of the stack.
  std::vector<Address> exits;
};

struct Exits {
  // The first piece starts with the function's entry. The others are its parts elsewhere.
  std::vector<FunctionPiece> pieces;
  bool has_tail_jumps = false;
};

// Returns nullopt if the function may be left in another way: some of its code cannot be decoded, a
// computed jump may lead anywhere, it jumps to another function on a condition, jumps to its own
// entry, or its code goes on in the next function. Calls that do not return are no ways out, and
// neither are exceptions. `code` is the function's, and `parts` are the object's.
std::optional<Exits> find_exits(image::Object& object, const image::Function& function,
                                const plan::FunctionCode& code, const FunctionParts& parts);

}  // namespace pinprick::placement
