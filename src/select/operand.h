// Where the arguments of an SDT point are: operands of the assembler, as compilers write them into
// a note for x86-64.
//
//     8@%rax          8 bytes in a register          -4@-20(%rbp)    a signed int in memory
//     1@$7            a constant                     8f@%xmm0        a double
//     4@8+sym(%rip)   a variable                     8@(%rax,%rbx,8) an element of an array
//
//     8f@%rdx         the bits of a double           -4@%fs:n@tpoff  a thread-local variable
//
// The size may be missing; then it follows from the operand, if at all. Notes are not trusted: any
// text may be given. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "select/value.h"

namespace pinprick::select {

// A register, in the processor's numbering of its kind.
struct OperandRegister {
  enum class Kind : uint8_t {
    general,
    instruction_pointer,
    segment,
    vector,  // %xmm0 to %xmm31
    other,
  } kind = Kind::general;
  uint8_t number = 0;         // of a general register, a vector register or a segment
  uint8_t bytes = 8;          // of a general register
  bool is_high_byte = false;  // %ah, %bh, %ch, %dh

  friend bool operator==(const OperandRegister&, const OperandRegister&) = default;
};

struct Operand {
  // in_register: `base`. constant: `offset`, plus the address of `symbol` if that is not empty.
  // in_memory: at offset + symbol + base + index * scale, in `segment`.
  enum class Kind : uint8_t { in_register, constant, in_memory } kind = Kind::in_register;
  uint8_t size = 0;  // 0: not given
  bool is_signed = false;
  bool is_floating_point = false;
  std::optional<OperandRegister> base;
  std::optional<OperandRegister> index;
  std::optional<OperandRegister> segment;
  uint8_t scale = 1;
  uint64_t offset = 0;      // two's complement
  std::string_view symbol;  // of the text that was parsed

  friend bool operator==(const Operand&, const Operand&) = default;
};

inline constexpr size_t kMostOperands = 12;  // that <sys/sdt.h> has

struct OperandError {
  enum class Cause : uint8_t {
    bad_size,        // what precedes the @
    bad_register,    // no register of the processor, or one that cannot be here
    bad_expression,  // neither a number nor a symbol, nor a sum of both
    bad_scale,       // not 1, 2, 4 or 8
    too_many,
  } cause = Cause::bad_expression;
  std::string text;  // the operand that is wrong

  friend bool operator==(const OperandError&, const OperandError&) = default;
};

// Parses the operands of a note, which blanks separate.
Result<std::vector<Operand>, OperandError> parse_operands(std::string_view arguments);

enum class ArgumentError : uint8_t {
  none_such,       // the site has fewer arguments
  floating_point,  // a floating-point number of another size than 4 and 8 bytes, or a constant
  elsewhere,       // in a way that hits cannot read it
  unreadable,      // parse_operands() fails
};

// What the address of memory is relative to.
enum class Segment : uint8_t { none, fs, gs };

// Where a hit finds an argument.
struct Argument {
  Operand::Kind kind = Operand::Kind::in_register;
  uint8_t bytes = 8;  // 1, 2, 4 or 8: as many as the operand, its register, and what is wanted have
  bool is_signed = false;
  bool is_floating_point = false;  // of 4 or 8 bytes; recorded as the integer next to 0
  uint8_t register_number = 0;     // in_register
  bool is_high_byte = false;       // of %ah to %dh, of which `register_number` is the whole
  bool is_vector = false;          // the register is %xmm0 to %xmm15
  // in_memory: at number + symbol + base + index * scale, in `segment`. The number has 31 bits
  // then. constant: the number.
  std::optional<uint8_t> base;
  std::optional<uint8_t> index;
  uint8_t scale = 1;
  Segment segment = Segment::none;
  uint64_t number = 0;      // two's complement
  std::string_view symbol;  // of the text that was parsed; that of a thread-local variable ends so:
  static constexpr std::string_view kOfThreadPointer = "@tpoff";

  // Does the symbol stand for an address that has to fit in a displacement of 32 bits?
  bool has_symbol_and_register() const { return !symbol.empty() && (base || index); }
  friend bool operator==(const Argument&, const Argument&) = default;
};

// Returns where a site with these arguments has its argument `wanted.argument`: in a register, in
// memory that general registers, a symbol or a segment lead to, or in the note itself.
Result<Argument, ArgumentError> argument_of(std::string_view arguments, const Value& wanted);

}  // namespace pinprick::select
