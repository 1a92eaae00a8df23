// Values that hits record: a register, as users write it.
//
//     $arg3          the third argument, at a function's entry: %rdx; or of an SDT point
//     %rdi, %di      a register
//     $arg3:u32      its lower 32 bits; u8, u16, u32 or u64
//     $arg3:s32      the same with a sign
//     $farg2         the second floating-point argument, %xmm1, as one of 64 bits; :f32 of 32 bits
//     $fretval       at the return of a function: what it returns in %xmm0
//     %xmm3          the lowest 64 bits of a vector register, as a floating-point number
//     x:f64          what is at the name, as a floating-point number
//     $retval        at the return of a function: what it returns, %rax; it has a sign
//     $latency       at the return of a function: how long the call took, in nanoseconds
//     $arg7          and above: on the stack, above the return address (expression.h)
//     $stack0        the word that the stack pointer leads to, as $stack1 is the next one
//     $caller        where a function returns to; like an argument, it is known at the entry
//     $stack         the addresses of all callers, which is known at the entry, too
//     $stack:5       the same of five frames at most
//     $tid           the number of the thread
//     count, x:u32   a name, which means a parameter of the function, or a global variable
//     &x             the address of a global variable
//     &0x4010        where the object's file has that address
//
// At a return a register is as the call has left it, and $argN is what it was at the entry. By the
// System V ABI the first six integer arguments are in registers. Where those of an SDT point
// are, each of its sites says (operand.h). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pinprick::select {

struct Value {
  uint8_t register_number = 0;  // in the processor's numbering: rax, rcx, rdx, rbx, rsp, ...
  uint8_t bytes = 8;            // 1, 2, 4 or 8; the upper bytes count as 0
  uint8_t argument = 0;         // n of $argN, or one of the next four; 0: it is something else
  uint8_t frames = 0;           // of a stack: how many are wanted at most
  bool is_real = false;         // a floating-point number, of 4 or 8 bytes
  bool is_latency = false;      // $latency, and no register
  bool is_error = false;        // $errno, and no register
  bool is_vector = false;       // the register is one of xmm0 to xmm15: its lowest bytes are meant
  // Of the argument of an SDT point without a type, each site says whether it has one.
  enum class Sign : uint8_t { of_site, none, signed_ } sign = Sign::of_site;
  // A name, which means something else at each place; before it is used, it becomes an argument or
  // a variable. Empty: there is none. Without a type, the sign is `of_site`. With & before a name,
  // or before a number, it becomes an address.
  std::string name = {};
  uint64_t variable = 0;  // the address of a variable; 0: there is none
  // The distance of $errno from the thread pointer. If `variable` is not 0, it is the address of a
  // word that has the distance instead. Both are set before the value is used.
  int64_t thread_offset = 0;

  static constexpr uint8_t kCaller = 255, kStack = 254, kThread = 253;
  // At a return, the time of the call without that of calls within it of which it is asked, too. No
  // text means it.
  static constexpr uint8_t kSelfTime = 251;
  // Any register as it was at the function's entry: $farg1, and what names become.
  static constexpr uint8_t kOfEntry = 252;
  // Does each hit have it, wherever it is?
  bool is_of_any_hit() const { return argument == kStack || argument == kThread; }
  bool is_register() const {
    return argument == 0 && !is_latency && !is_error && !is_vector && name.empty() && variable == 0;
  }
  friend bool operator==(const Value&, const Value&) = default;
};

struct ValueError {
  enum class Cause : uint8_t {
    unknown_argument,  // one that cannot be there: $arg0
    unknown_register,
    unknown_type,
    frames,  // a number of frames that no stack can have
  } cause = Cause::unknown_argument;
  std::string text;  // the part that is wrong

  friend bool operator==(const ValueError&, const ValueError&) = default;
};

// A function has six arguments in registers, also at its return. An SDT point has up to twelve,
// whose register is left open (argument_of() in operand.h).
enum class Arguments : uint8_t { of_function, of_point, of_return };

// The last word of the stack that $stackN can mean, as in the kernel's events.
inline constexpr uint16_t kMostStackWord = 2047;

// The most frames of which a stack can have the addresses.
inline constexpr uint8_t kMostFrames = 63;

// Returns the register in which a function has its argument `number`, from 1 to 6, at its entry.
uint8_t register_of_argument(uint8_t number);

// The text starts with $, with %, or with a letter of a name.
Result<Value, ValueError> parse_value(std::string_view text,
                                      Arguments arguments = Arguments::of_function);

}  // namespace pinprick::select
