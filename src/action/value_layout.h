// ValueLayout: how the parts of a value, which a hit tells as numbers and texts, make up a
// structure, an array or a container again. Pure; plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pinprick::action {

struct ValueLayout {
  enum class Kind : uint8_t {
    left_out,  // nothing is read: there is no room for it, or it is of a type that is not shown
    number,
    signed_number,
    hexadecimal,
    symbol,     // an address in code, by its name
    character,  // of one byte
    floating,   // a floating-point number of `bits`, in the format of IEEE 754
    text,       // the whole part; in an array of `count` bytes, if that is not 0
    members,    // a structure: `inner` are its members, with their names
    // Lists, of which `inner` are the first elements. They have as many elements as
    array,        // `count` says
    of_length,    // the number in the part says
    of_range,     // fit between the addresses in the part and in `end`, if each has `count` bytes
    counted,      // the number in the part says
    alternative,  // the number in the part says: none, or one, which is shown without the list
    // One of `inner`: that whose number in `names` is the one in the part, or else the last one, if
    // it has no number. Those that have names are structures. Without numbers, it is the only one.
    variant,
  } kind = Kind::left_out;
  std::string name = {};  // of a member
  // Which part the number is in, and which bits of it.
  uint8_t part = 0, shift = 0, bits = 64;
  uint8_t end = 0;             // of a range: the part with its other address
  bool may_be_unread = false;  // can reading the part fail?
  bool is_mixed = false;       // is the part combined with kMix?
  bool is_cut = false;         // has the structure more members?
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

// One number stands for a part that could not be read (PP_KEPT_UNREAD). Memory may well have that
// number, as it is -0.0. So a hit changes these bits of each word of 8 bytes that it reads.
inline constexpr uint64_t kMix = 0x5bd1e995a7c3f28d;

// How much of a value is read and shown.
struct ValueLimits {
  uint32_t nesting = 4;   // structures in structures
  uint32_t elements = 4;  // of an array or a container
  uint8_t text = 64;      // bytes
  friend bool operator==(const ValueLimits&, const ValueLimits&) = default;
};

}  // namespace pinprick::action
