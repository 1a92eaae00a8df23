// Containers of C++ and Rust: where they have their elements, and how many there are.
//
// A container is known by the members that its library gives it. Names that begin with an
// underscore and a capital letter, or with two underscores, belong to the C++ library; other names
// count only in types that have the name of the container.
#pragma once

#include <optional>
#include <vector>

#include "debug/debug_info.h"

namespace pinprick::debug {

struct ContainerLayout {
  enum class Kind : uint8_t {
    range,       // `first` and `second` point to the first element, and past the last one
    length,      // `first` points to the first element, and `second` is how many there are
    counted,     // `second` is how many elements there are, which lie in `nodes`
    optional,    // `first` is the value, which is there unless `second` is 0
    pointer,     // `first` is the pointer that it owns, or shares
    inside,      // `first` is the array that it consists of
    tuple,       // `parts`, in order
    alternative  // `second` is the number of the one of `parts` that it has now
  } kind = Kind::inside;
  // Their offsets are from the start of the container.
  Member first = {}, second = {};
  std::vector<Member> parts = {};
  Type element = {};  // of range, length and nodes; its size is known
  // Where elements lie that have nodes of their own. `first` points to the first of them.
  struct Nodes {
    uint64_t element = 0;             // where it is in a node
    uint64_t next = 0;                // where the pointer to the next node is
    std::optional<uint64_t> up = {};  // of a tree: to the parent; `next` is to the right then
    friend bool operator==(const Nodes&, const Nodes&) = default;
  };
  std::optional<Nodes> nodes = {};  // nullopt: it is not known where they are
};

// Returns nullopt if the structure is no container that is known.
std::optional<ContainerLayout> container_layout(DebugInfo& info, const Type& structure);

}  // namespace pinprick::debug
