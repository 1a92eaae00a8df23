// Expressions over what a hit has: values to record, and conditions.
//
//     $arg1==1                     the first argument is 1
//     $arg3>=4Ki && $arg1 in {3,5..9}
//     $arg2:s32<0                  its lower 32 bits, which have a sign
//     ($arg3-$arg2)/1k             what is recorded; a value has blanks in parentheses only
//     $retval<0 && $latency>=1ms   at the return of a function
//     fd==1 && level:s32<0         by name
//     *(u32*)($arg1+8)             what a pointer leads to
//     $farg1*1.5>*(f64*)$arg1      floating-point numbers
//     $arg7, $stack2:u32           words on the stack, which are what %rsp leads to
//     path:string=="/etc/passwd"   a text, up to its 0; =~ compares it with a pattern of * and ?
//     buf:bytes[count]             as many bytes as that, in which there may be zeros
//     buf@ret:string               what the argument leads to when the call has returned
//     r->peer->port, r->items[2]   where debug information says of which type r is
//     ((struct conn*)$arg2)->fd    the same of a type that it knows
//
// Weakest first: ||, &&, then == != < <= > >= and `in`, of which one may stand alone, then & | ^ <<
// >>, then + -, then * / %, then - ! ~ and casts, such as (u32). All integers have 64 bits and
// wrap. An argument or register without a type has a sign; of 64 bits without a sign are only u64,
// what is computed from one, and numbers of 2^63 and more. If one side is such a number, the
// operation is one of numbers without a sign. If one side of + - * / or of a comparison is a
// floating-point number, of 64 bits or widened to that, the other one becomes one, too; the other
// operators, and what needs an integer, take the integer next to 0 instead. Shifts take the lowest
// 6 bits of their right side.
//
// Names are not resolved here: a value holds a name (value.h), whose meaning depends on the place.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "select/value.h"

namespace pinprick::select {

enum class Operator : uint8_t {
  number,
  value,  // an argument, or a register
  cast,
  negate,
  complement,
  is_zero,
  load,  // `bytes` of memory, whose address is the left side
  // The next three mean something only where the type of the left side is known, and become loads
  // before they are compiled (session/typed_names.h). So does `element`.
  member,       // the member `text` of the structure that the left side is, or points to
  pointee,      // what the left side points to
  pointer_to,   // the left side, as a pointer to the program's type `text`
  text,         // the text there, of which `bytes` are taken at most; only by itself
  equals_text,  // is the text there `text`?
  like_text,    // does it match that pattern?
  multiply,
  divide,
  remainder,
  add,
  subtract,
  shift_left,
  shift_right,
  bit_and,
  bit_or,
  bit_xor,
  equal,
  not_equal,
  less,
  less_or_equal,
  greater,
  greater_or_equal,
  both,
  either,
  guarded,         // the right side if the left one is not 0, else 0: then it is not computed
  pair,            // both sides, as a key; the left one may be a pair itself
  text_of_length,  // the right side is how many bytes the text at the left one has; as `text`
  element,         // of the array or pointer that is the left side; the right one is its number
};

// Has it two sides?
constexpr bool has_right(Operator what) {
  return what >= Operator::multiply;
}

// Does it mean something only where the type of its left side is known?
constexpr bool needs_types(Operator what) {
  return what == Operator::member || what == Operator::pointee || what == Operator::pointer_to ||
         what == Operator::element;
}

struct Node {
  Operator what = Operator::number;
  uint8_t bytes = 8;        // of a cast, of what is loaded, or of a text
  bool is_signed = false;   // of a cast, or of what is loaded
  bool is_real = false;     // of a cast, of what is loaded, or a number: a floating-point one
  bool tells_null = false;  // of a text: whether there is none, as its address is 0
  bool at_return = false;   // what the argument, or the address, leads to is read at the return
  uint16_t left = 0;        // nodes before this one; of operators with one side, that side
  uint16_t right = 0;
  uint64_t number = 0;
  Value value = {};
  std::string text = {};

  friend bool operator==(const Node&, const Node&) = default;
};

inline bool is_text(const Node& node) {
  return node.what == Operator::text || node.what == Operator::text_of_length;
}

// Does it name a value, or a type?
inline bool names_something(const Node& node) {
  return !node.value.name.empty() || node.what == Operator::pointer_to;
}

// The last node is the result, and each is used by at most one later node.
struct Expression {
  std::vector<Node> nodes;

  bool empty() const { return nodes.empty(); }
  friend bool operator==(const Expression&, const Expression&) = default;
};

struct ExpressionError {
  enum class Cause : uint8_t {
    nothing,          // the text is empty
    no_value,         // a value is missing before `text`, or at the end
    no_operator,      // `text` cannot follow a value
    unclosed,         // a parenthesis or brace
    bad_number,       // too large, or another unit than there is
    bad_value,        // `value` says why
    name,             // a word that is no name of a value
    of_another_time,  // $retval or $latency, of which a hit knows nothing but at a return
    members,          // of structures, or elements of arrays
    pointee,          // * without the type of what is there
    not_a_text,       // a number is compared with the text `text`
    text,             // a text where only a number can be
    text_of_pointee,  // the text at a pointer to follow, which needs parentheses
    text_in_set,      // a text among those of `in`
    unclosed_text,
    text_length,      // no length that a text can have
    no_length,        // `bytes` without how many there are
    length_compared,  // a length, of a text that is compared as a whole
    pattern,          // =~ without a pattern
    zero_divisor,     // division by the number 0
    single_equals,    // = for ==
    empty_range,      // from a number to a smaller one
    parts,            // of a key, and there are too many
    stack,            // a stack where only a number can be
    too_long,
  } cause = Cause::nothing;
  ValueError value = {};
  std::string text;  // the part that is wrong
  size_t at = 0;     // where it starts
  friend bool operator==(const ExpressionError&, const ExpressionError&) = default;
};

inline constexpr size_t kMostNodes = 64;
inline constexpr uint8_t kMostText = 64;          // bytes of a text by itself
inline constexpr size_t kMostComparedText = 255;  // and of one that others are compared with

Result<Expression, ExpressionError> parse_expression(std::string_view text, Arguments arguments);

// Adds a copy of `node`, of `from`, and of all that it is made of. Returns its number in `to`.
uint16_t append_copy(const Expression& from, const Node& node, Expression& to);

// Makes `to` one that holds if it did, and if `node` of `from` does. Empty: it always did.
void add_term(const Expression& from, const Node& node, Expression& to);

// Has it one side at least?
constexpr bool has_side(Operator what) {
  return what != Operator::number && what != Operator::value;
}

// Does it have an argument, whose place is known at entries and points only?
bool has_argument(const Expression& expression);

// Does it have a register, or $retval, which is one?
bool has_register(const Expression& expression);

// Does it have $caller?
bool has_caller(const Expression& expression);

// Is it $caller alone?
bool is_caller(const Expression& expression);

// Does it have $tid?
bool has_thread(const Expression& expression);

// Does it have $errno?
bool has_error(const Expression& expression);

// Is the result of the node a floating-point number? Names have to be resolved before.
bool is_real(const Expression& all, const Node& node);
bool is_real(const Expression& expression);

// Returns the expression, or if it is a floating-point number the integer next to 0.
Expression as_integer(const Expression& expression);

// Does it have $stack, which only keys and events can have?
bool has_stack(const Expression& expression);

// Is it $stack alone?
bool is_stack(const Expression& expression);
// Is it the time of a call without that of calls within it? No text means that.
bool is_self_time(const Expression& expression);
Expression self_time();

// Is it a text?
bool is_text(const Expression& expression);

// Makes of several expressions a key that has all of them. At least one.
inline constexpr size_t kMostParts = 4;
Expression list_of(const std::vector<Expression>& parts);
// Returns the parts of such a key, each as an expression; or of another expression that alone.
std::vector<Expression> parts_of(const Expression& expression);
inline bool is_list(const Expression& expression) {
  return !expression.empty() && expression.nodes.back().what == Operator::pair;
}

// Does the node, or what it is made of, follow a pointer?
bool follows_pointer(const Expression& all, const Node& node);
bool follows_pointer(const Expression& expression);

// Does it have a name, of a value or of a type?
bool has_name(const Expression& expression);

// Returns where the name is in the text of an expression; npos if it is not there.
size_t position_of_name(std::string_view text, std::string_view name);

}  // namespace pinprick::select
