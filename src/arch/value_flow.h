// What a function does with its arguments: where the values come from that it stores, returns, or
// hands on to what it calls.
//
// For functions that nothing names, known by what they do. Each instruction is interpreted, with
// values that say where they come from; what is not understood makes them unknown. Pure.
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
    stack,     // the return address's place, plus `offset`
  } kind = Kind::unknown;
  uint8_t argument = 0;  // in the order of the calling convention: rdi, rsi, rdx, rcx, r8, r9
  bool exact = true;     // of a field; false: plus or minus something
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

// One way through a function, up to where it returns, or calls something.
struct Path {
  std::vector<Store> stores;  // but for those to its own stack
  bool returns = false;
  Value result;  // in rax
};

// Code from an address on; empty: none.
using CodeAt = std::function<std::span<const uint8_t>(Address)>;

// All ways through a small function without loops, one for each outcome of each of its branches.
// Nothing: it is not of that kind. `second`: its second argument, where that is a number.
std::optional<std::vector<Path>> paths_through(const CodeAt& code, Address function,
                                               std::optional<int64_t> second = {});

// What it calls with what, and what it ends in a jump to, as far as one look at each of its
// instructions tells.
std::vector<DirectCall> direct_calls(std::span<const uint8_t> code, Address function);

}  // namespace pinprick::arch
