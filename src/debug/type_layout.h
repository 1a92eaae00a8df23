// The layout of a structure: its members in memory, and the bytes between them that hold nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "debug/debug_info.h"

namespace pinprick::debug {

struct LayoutPart {
  enum class Kind : uint8_t {
    member,
    base,          // a base class
    virtual_base,  // one whose place differs from object to object; offset and bits are 0
    hole,          // between two members
    padding,       // after the last one
  } kind = Kind::member;
  uint32_t depth = 0;   // 1 and more: in that many unnamed structures and unions, which come before
  uint64_t offset = 0;  // in bytes, from the start of the structure
  uint32_t bit_offset = 0;  // from the lowest bit at `offset`; 7 at most
  uint64_t bits = 0;        // the size
  bool is_bit_field = false;
  std::string type = {}, name = {};  // arrays have their dimensions: char [16]
};

struct TypeLayout {
  std::string name;  // as the source spells it: struct request
  uint64_t bytes = 0;
  std::vector<LayoutPart> parts = {};  // by place
};

// Returns an empty layout if the type is no structure.
TypeLayout layout_of(DebugInfo& info, const Type& structure);

}  // namespace pinprick::debug
