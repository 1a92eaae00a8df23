// What a hit records: the value of a register, as a user names it.
//
//     $arg3          the third argument, at a function's entry: %rdx
//     %rdi, %di      a register
//     $arg3:u32      its lower 32 bits; u8, u16, u32 or u64
//
// By the System V ABI the first six integer arguments are in registers. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pinprick::select {

struct Value {
  uint8_t register_number = 0;  // as the processor counts them: rax, rcx, rdx, rbx, rsp, ...
  uint8_t bytes = 8;            // 1, 2, 4 or 8; the upper ones count as 0
  bool is_argument = false;     // means something at a function's entry only
  friend bool operator==(const Value&, const Value&) = default;
};

struct ValueError {
  enum class Cause : uint8_t {
    no_value,          // neither $ARGUMENT nor %REGISTER
    unknown_argument,  // $arg7, $retval
    unknown_register,
    unknown_type,
    signed_type,  // histograms are of numbers from 0 on
  } cause = Cause::no_value;
  std::string text;  // what is wrong

  friend bool operator==(const ValueError&, const ValueError&) = default;
};

Result<Value, ValueError> parse_value(std::string_view text);

// A point and what is recorded there: `libc:write $arg3`. The value is what follows the last blank
// before a `$` or `%`, as a C++ signature may have blanks. Without one all of it is the point, and
// `value` is empty.
struct PointAndValue {
  std::string_view point;
  std::string_view value;
};
PointAndValue split_spec(std::string_view spec);

}  // namespace pinprick::select
