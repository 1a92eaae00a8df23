// ValueLayout: how the parts of a value, which a hit tells as numbers and texts, make up a
// structure, an array or a container again. Pure; plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pinprick::action {

struct ValueLayout {
  enum class Kind : uint8_t {
    number,
    signed_number,
    hexadecimal,
    symbol,    // an address in code, by its name
    floating,  // a floating-point number of `bits`, in the format of IEEE 754
    text,      // the whole part
    unknown,   // nothing is read, as its type cannot be shown
    members,   // `inner`: those of a structure, with their names
    // The first elements are `inner`. How many there are:
    array,       // `count`
    of_length,   // the number that `part` has
    of_range,    // what lies between the addresses in `part` and `end`, of `count` bytes each
    unordered,   // as of_length, and no element is read
    alternative  // of_length for 0 or 1 elements: one that may be missing
  } kind = Kind::unknown;
  std::string name = {};  // as a member
  // The bits of a part that the number consists of.
  uint8_t part = 0, shift = 0, bits = 64;
  uint8_t end = 0;
  bool may_be_unread = false;  // so may be its part, and that of the end
  bool is_mixed = false;       // so are they: what was read is combined with kMix
  bool is_cut = false;         // it has more members
  uint64_t count = 0;
  // The numbers that have names.
  struct Named {
    uint64_t number = 0;
    std::string name = {};
    friend bool operator==(const Named&, const Named&) = default;
  };
  std::vector<Named> names = {};
  std::vector<ValueLayout> inner = {};

  friend bool operator==(const ValueLayout&, const ValueLayout&) = default;
};

// All numbers may be in memory, and one of them stands for what cannot be read. Words of 8 bytes
// are told with these bits changed, so that it is one that no program has.
inline constexpr uint64_t kMix = 0x5bd1e995a7c3f28d;

// How much of a value is read and shown.
struct ValueLimits {
  uint32_t nesting = 4;   // structures in structures
  uint32_t elements = 4;  // of an array or a container
  uint8_t text = 64;      // bytes
  friend bool operator==(const ValueLimits&, const ValueLimits&) = default;
};

}  // namespace pinprick::action
