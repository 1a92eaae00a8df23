// Which functions of a process make use of the address of their caller: they read their return
// address, take it off the stack, return otherwise than by it, or pass it on to such a function.
//
// A function passes its return address on to what it jumps to with the stack as it was at entry, as
// compilers do for a call that comes last. That may lead through any number of functions, in any
// objects of the process. Jumps through pointers that the loader fills in are followed to all
// functions that they may lead to (image/linkage.h). A function that may jump to one that is not
// loaded yet counts as one that makes use of its caller's address. Other pointers, such as those of
// virtual functions, can lead anywhere: a variable's present value is followed, and otherwise
// nothing is assumed of them (docs/latency.md says why).
//
// Pure, but for what objects and their pointers read. Not thread-safe, but look_at() uses several
// threads for the functions that it is given; their objects' functions, imports and text must have
// been loaded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/address.h"
#include "image/linkage.h"
#include "image/match.h"
#include "plan/tactic.h"

namespace pinprick::placement {

class CallerUse {
 public:
  explicit CallerUse(const image::ProcessImage& image) : linkage_(image) {}
  // Of these objects alone, without their process.
  explicit CallerUse(std::vector<image::Object*> objects) : linkage_(std::move(objects)) {}

  // Looks at the functions of these matches, and at all to which they pass their callers on.
  void look_at(std::span<const image::Match> matches);

  // Returns how a function that was looked at makes use of its caller's address; nullopt if it does
  // not.
  std::optional<plan::Reason> reason(const image::Object& object,
                                     const image::Function& function) const;

 private:
  // What the code of one function shows.
  struct Code {
    image::CodeAddress at;
    std::optional<plan::Reason> reason;  // what it does itself
    // It calls a profiler, which looks up its caller. That may be possible while the function
    // itself is timed (return_site()), but not while one is that jumps to it.
    bool reports_caller = false;
    bool is_thunk = false;
    std::vector<Address> forwards_to, forwards_through;
    std::vector<Address> loads;  // to where these lead, if it jumps by way of a thunk
  };
  struct Node {
    std::optional<plan::Reason> reason;
    bool reports_caller = false;
    bool is_thunk = false;
    std::vector<uint32_t> reached_from;  // indices of nodes that pass their callers on to this one
  };
  static Code look_at_code(image::Object& object, Address address);

  uint32_t add(Code code);
  uint32_t node_at(image::CodeAddress at);
  void connect(uint32_t from, const Code& code);
  void mark(uint32_t node, plan::Reason reason);

  image::Linkage linkage_;
  std::vector<Node> nodes_;
  std::unordered_map<Address, uint32_t> by_address_;  // in the process's addresses
  std::vector<std::pair<uint32_t, Code>> pending_;    // nodes that are not connected yet
};

// Returns whether compilers call or jump to it in place of an indirect call or jump. A jump may
// come from the midst of a function, with anything on top of the stack.
bool is_thunk(std::span<const std::string_view> names);

}  // namespace pinprick::placement
