// Finds out what a function does with its arguments: which of them it stores, returns, or passes to
// the functions that it calls.
//
// This identifies functions that have no symbol by what they do. The instructions are interpreted
// symbolically: a value says which argument, field or number it comes from. The results of an
// instruction that is not understood are unknown. Pure, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"

namespace pinprick::arch {

struct Value {
  enum class Kind : uint8_t {
    unknown,
    number,    // `offset`
    argument,  // that argument, plus `offset`
    field,     // the 8 bytes of memory at that argument plus `offset`
    stack,     // the address of the return address, plus `offset`
  } kind = Kind::unknown;
  uint8_t argument = 0;  // index in the calling convention's order: rdi, rsi, rdx, rcx, r8, r9
  bool exact = true;     // for a field; false: its value plus something unknown
  int64_t offset = 0;

  bool operator==(const Value&) const = default;
  bool is_argument(uint8_t number, int64_t plus = 0) const {
    return kind == Kind::argument && argument == number && offset == plus;
  }
  bool is_number(int64_t number) const { return kind == Kind::number && offset == number; }
};

inline constexpr size_t kArguments = 6;

struct Store {
  Value to;
  Value value;
  uint8_t size = 0;  // bytes
};

struct DirectCall {
  Address target = 0;
  std::array<Value, kArguments> arguments;
};

// One path through a function, up to its return or its first call.
struct Path {
  std::vector<Store> stores;  // except those to its own stack
  bool returns = false;
  Value result;  // in rax
};

// Returns the code from an address on; empty if there is none.
using CodeAt = std::function<std::span<const uint8_t>(Address)>;

// Returns all paths through a small function without loops, one for each combination of branch
// outcomes; nullopt if it is not such a function. `second` is the value of its second argument, if
// known.
std::optional<std::vector<Path>> paths_through(const CodeAt& code, Address function,
                                               std::optional<int64_t> second = {});

// Returns the direct calls of a function with their arguments, and its tail calls, as far as a
// single pass over its instructions can tell.
std::vector<DirectCall> direct_calls(std::span<const uint8_t> code, Address function);

}  // namespace pinprick::arch
