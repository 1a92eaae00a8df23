// Values that a hit computes from what the program has there: conditions, and what is recorded.
//
// An expression is data. stub.h emits the code that computes it, which preserves all registers and
// flags, jumps forward only, and writes nothing but words below the stack pointer. All values are
// integers of 64 bits that wrap, or the bits of floating-point numbers of 64 bits (double). Memory
// that the program has only a pointer to is read by the runtime (runtime/reads.inc), which does not
// fault. Where it cannot be read, the expression that needs it has no value. Any module may make an
// expression; a value of another module's language becomes one by action/compile.h. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "layout/runtime_offsets.h"

namespace pinprick::arch {

// A value that the program has: in a register, or instead in memory, or a constant, or kept with a
// call.
struct Source {
  enum class Segment : uint8_t { none, fs, gs };
  // At displacement + base + index * scale, in a segment. The displacement has 32 bits, or is the
  // address if there is nothing else. The program must be able to read there at this instruction.
  struct Memory {
    std::optional<uint8_t> base = std::nullopt;
    std::optional<uint8_t> index = std::nullopt;  // not the stack pointer
    uint8_t scale = 1;                            // 1, 2, 4 or 8
    uint64_t displacement = 0;
    Segment segment = Segment::none;
    friend bool operator==(const Memory&, const Memory&) = default;
  };
  struct Constant {
    uint64_t value = 0;
    friend bool operator==(const Constant&, const Constant&) = default;
  };
  // What is kept with a timed call; at its return only (AtReturn in stub.h).
  struct OfCall {
    std::optional<uint8_t> kept = std::nullopt;  // which one of the kept values; else nanoseconds
    bool may_be_unread = false;  // it is PP_KEPT_UNREAD if it had no value when it was to be kept
    friend bool operator==(const OfCall&, const OfCall&) = default;
  };
  // Where the function returns to; at its entry only.
  struct ReturnAddress {
    friend bool operator==(const ReturnAddress&, const ReturnAddress&) = default;
  };
  // The number of the stack (layout::TextEntry), of which at most `frames` are told. The first one
  // is the instruction itself, or at a function's entry the return address.
  struct Stack {
    uint8_t frames = PP_MOST_FRAMES;
    bool is_at_entry = false;
    friend bool operator==(const Stack&, const Stack&) = default;
  };
  // The thread's TID; 0 if it is not known.
  struct Thread {
    friend bool operator==(const Thread&, const Thread&) = default;
  };
  // An int that each thread has: at the thread pointer plus `offset`, or plus the word at
  // `offset_at` if that is not 0. It is 0 where the thread's TID is not known. Of more than 4
  // bytes, the upper ones are the sign.
  struct OfThread {
    uint64_t offset_at = 0;
    int32_t offset = 0;
    friend bool operator==(const OfThread&, const OfThread&) = default;
  };
  // The nanoseconds of the thread that calls with a SelfTime account for, each of them once. Is
  // kept with such a call, as one of its values.
  struct AccountedTime {
    friend bool operator==(const AccountedTime&, const AccountedTime&) = default;
  };
  // The call's nanoseconds less those that calls within it account for, which the thread's
  // AccountedTime has gained since it was kept. They are accounted for from then on, so that a call
  // has one SelfTime. At its return only.
  struct SelfTime {
    uint8_t kept = 0;
    friend bool operator==(const SelfTime&, const SelfTime&) = default;
  };
  uint8_t register_number = 0;  // in the processor's numbering
  uint8_t bytes = 8;            // 1, 2, 4 or 8; the upper bytes count as 0, or as the sign
  std::variant<std::monostate, Memory, Constant, OfCall, ReturnAddress, Stack, Thread, OfThread,
               AccountedTime, SelfTime>
      instead = {};
  bool is_signed = false;
  bool is_high_byte = false;  // the second byte of rax, rcx, rdx or rbx
  // Of 4 or 8 bytes, and no constant: the value is the integer next to 0. Neither a vector register
  // nor the state of the program's floating-point unit changes.
  bool is_floating_point = false;
  bool is_vector = false;  // the register is one of xmm0 to xmm15: its lowest bytes are meant
  bool calls_routine() const {
    return std::holds_alternative<Stack>(instead) || std::holds_alternative<Thread>(instead) ||
           std::holds_alternative<OfThread>(instead) ||
           std::holds_alternative<AccountedTime>(instead) ||
           std::holds_alternative<SelfTime>(instead);
  }
  friend bool operator==(const Source&, const Source&) = default;
};

enum class Operation : uint8_t {
  take,        // `source`
  narrow,      // the lowest `bytes` of the left one, with their sign if `is_signed`
  negate,      // of the left one, as the next two
  complement,  // each bit
  is_zero,     // 1 or 0, as all comparisons, and as `both` and `either`
  add,
  subtract,
  multiply,
  divide,     // towards 0; of anything by 0: 0
  remainder,  // has the sign of the left one; of anything by 0: 0
  bit_and,
  bit_or,
  bit_xor,
  shift_left,  // by the lowest 6 bits of the right one
  shift_right,
  equal,
  not_equal,
  less,
  less_or_equal,
  both,        // neither is 0; the right one is computed if the left one is not 0
  either,      // the right one is computed if the left one is 0
  guarded,     // the right one if the left one is not 0; else 0, and the right one is not computed
  pair,        // the number of these two together (layout::TextEntry)
  to_real,     // the left one, an integer, as a floating-point number: the nearest there is
  widen,       // the left one, a floating-point number of 32 bits, as one of 64 bits
  to_integer,  // the left one, a floating-point number, as the integer next to 0 (as Source)
  load,        // the `bytes` at the address that is the left one, with their sign if `is_signed`
  // Of the text at the address that is the left one, up to its 0:
  // Its number (layout::TextEntry), of its first `bytes`; of none at address 0 if `tells_null`.
  text,
  equals_text,  // is it the text `right` of the expression?
  like_text,    // do its first 256 bytes match that pattern of * and ?
  // The number of the text at the address that is the left one, which has as many bytes as the
  // right one says, but at most kMostText. It may have zeros in it. Else as `text`.
  text_of_length,
};

// Does it follow a pointer?
constexpr bool follows(Operation operation) {
  return operation >= Operation::load;
}

// One operation. Its operands are results of earlier steps.
struct Step {
  Operation operation = Operation::take;
  // Of divide, remainder, shift_right, less and less_or_equal: whether values of 2^63 and more are
  // negative. Of to_real: whether such an integer is.
  bool is_signed = true;
  // Of negate, add, subtract, multiply, divide, and comparisons: whether the values are
  // floating-point numbers, by the rules of IEEE 754. Nothing is equal to or less than NaN.
  bool is_real = false;
  bool tells_null = false;
  uint8_t bytes = 8;
  uint16_t left = 0;  // numbers of steps
  uint16_t right = 0;
  Source source = {};
  friend bool operator==(const Step&, const Step&) = default;
};

struct Expression {
  Expression() = default;
  Expression(Source only) : steps{{.source = only}} {}
  explicit Expression(std::vector<Step> all) : steps(std::move(all)) {}

  // The last one is the result. Each is used by at most one later step. Empty: there is no
  // expression.
  std::vector<Step> steps;
  std::vector<std::string> texts = {};  // each of at most kMostComparedText bytes

  bool empty() const { return steps.empty(); }
  // Is it a value that is taken from where the program has it?
  bool is_source() const { return steps.size() == 1 && !steps.front().source.calls_routine(); }
  friend bool operator==(const Expression&, const Expression&) = default;
};

// So that its code stays small, and what it pushes on the program's stack.
inline constexpr size_t kMostSteps = 64;
inline constexpr size_t kMostComparedText = PP_MOST_COMPARED - 1;
inline constexpr uint8_t kMostText = PP_MOST_TEXT;  // bytes of a text that has a number

// Can it turn out to have no value?
bool may_be_unread(const Expression& expression);

// Upper bound on the code that an expression takes in a stub, besides that of its action.
uint64_t most_expression_bytes(const Expression& expression);

}  // namespace pinprick::arch
