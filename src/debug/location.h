// Where a variable is: the few operations of DWARF's location expressions that a hit can compute.
//
// Pure; plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pinprick::debug {

// One step of a stack machine. All numbers have 64 bits and wrap.
struct LocationStep {
  enum class Kind : uint8_t {
    number,         // pushes `number`
    register_,      // pushes register `number`, in DWARF's numbering
    vector,         // pushes the lowest 8 bytes of %xmm `number`
    frame_address,  // pushes what the stack pointer was before the call (the CFA)
    object_base,    // pushes `number`, an address of the file: the load bias is to be added
    load,           // replaces an address by the `bytes` there, without a sign
    add,            // these replace two by one
    subtract,
    multiply,
    bit_and,
    bit_or,
    bit_xor,
    shift_left,
    shift_right,
    shift_right_signed,  // all numbers of this one, and of those that follow, have a sign
    divide,
    equal,
    not_equal,
    less,
    less_or_equal,
    greater,
    greater_or_equal,
    negate,  // these replace one
    complement,
  } kind = Kind::number;
  uint8_t bytes = 8;
  uint64_t number = 0;

  friend bool operator==(const LocationStep&, const LocationStep&) = default;
};

// What the steps compute: the variable's address, or its value. none: it has no place here. pieces:
// its parts have places of their own.
enum class LocationKind : uint8_t { none, address, value, pieces };

// Why there is none.
enum class LocationCause : uint8_t {
  optimized_out,  // the debug information gives it no place at this instruction
  of_caller,      // it is what a parameter was at the entry, which is not known later
  in_pieces,      // its parts are in several places, in a way that is none of these
  thread_local_,
  vector_register,
  unknown,  // an operation that is none of the steps, or a broken expression
};

// A part of a variable.
struct LocationPiece {
  uint64_t bytes = 0;
  LocationKind kind = LocationKind::none;  // no pieces
  LocationCause cause = LocationCause::optimized_out;
  std::vector<LocationStep> steps = {};
  friend bool operator==(const LocationPiece&, const LocationPiece&) = default;
};

struct Location {
  using Kind = LocationKind;
  using Cause = LocationCause;
  using Piece = LocationPiece;

  Kind kind = Kind::none;
  Cause cause = Cause::optimized_out;
  std::vector<LocationStep> steps = {};
  std::vector<Piece> pieces = {};  // from the lowest address on

  // Returns where a part is.
  static Location of(const Piece& piece) { return {piece.kind, piece.cause, piece.steps}; }
  Piece as_piece(uint64_t bytes) const { return {bytes, kind, cause, steps}; }
  friend bool operator==(const Location&, const Location&) = default;
};

// Returns where it is, as assembly has it: in %rdi, at 8(%rsp), is 5, optimized away.
std::string text_of(const Location& location);

}  // namespace pinprick::debug
