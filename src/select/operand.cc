#include "select/operand.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace pinprick::select {
namespace {

using Cause = OperandError::Cause;
using Kind = OperandRegister::Kind;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// The first character of a symbol.
bool starts_symbol(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
}

bool continues_symbol(char c) {
  return starts_symbol(c) || is_digit(c) || c == '$' || c == '@';
}

constexpr uint8_t kStackPointer = 4;

struct NamedRegister {
  std::string_view name;
  uint8_t number;
  uint8_t bytes;
  bool is_high_byte = false;
};
constexpr NamedRegister kOldRegisters[] = {
    {"rax", 0, 8},     {"rcx", 1, 8}, {"rdx", 2, 8},      {"rbx", 3, 8},      {"rsp", 4, 8},
    {"rbp", 5, 8},     {"rsi", 6, 8}, {"rdi", 7, 8},      {"eax", 0, 4},      {"ecx", 1, 4},
    {"edx", 2, 4},     {"ebx", 3, 4}, {"esp", 4, 4},      {"ebp", 5, 4},      {"esi", 6, 4},
    {"edi", 7, 4},     {"ax", 0, 2},  {"cx", 1, 2},       {"dx", 2, 2},       {"bx", 3, 2},
    {"sp", 4, 2},      {"bp", 5, 2},  {"si", 6, 2},       {"di", 7, 2},       {"al", 0, 1},
    {"cl", 1, 1},      {"dl", 2, 1},  {"bl", 3, 1},       {"spl", 4, 1},      {"bpl", 5, 1},
    {"sil", 6, 1},     {"dil", 7, 1}, {"ah", 0, 1, true}, {"ch", 1, 1, true}, {"dh", 2, 1, true},
    {"bh", 3, 1, true}};

// Takes a number below `limit` from the front.
std::optional<uint8_t> take_number(std::string_view& text, unsigned limit) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number >= limit) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return static_cast<uint8_t>(number);
}

// r8, r8d, r8w, r8b, or r8l as some assemblers have it.
std::optional<OperandRegister> new_register(std::string_view name) {
  if (!name.starts_with('r') || name.size() < 2 || !is_digit(name[1])) return std::nullopt;
  name.remove_prefix(1);
  const auto number = take_number(name, 16);
  if (!number || *number < 8) return std::nullopt;
  constexpr std::pair<std::string_view, uint8_t> kParts[] = {
      {"", 8}, {"d", 4}, {"w", 2}, {"b", 1}, {"l", 1}};
  for (const auto& [suffix, bytes] : kParts)
    if (name == suffix) return OperandRegister{Kind::general, *number, bytes, false};
  return std::nullopt;
}

std::optional<OperandRegister> vector_or_other(std::string_view name) {
  if (name == "st") return OperandRegister{Kind::other, 0, 8, false};
  struct Numbered {
    std::string_view prefix;
    unsigned count;
    Kind kind = Kind::other;
  };
  constexpr Numbered kNumbered[] = {
      {"xmm", 32, Kind::vector}, {"ymm", 32}, {"zmm", 32}, {"mm", 8}, {"k", 8}, {"st(", 8}};
  for (const auto& [prefix, count, kind] : kNumbered) {
    if (!name.starts_with(prefix)) continue;
    std::string_view rest = name.substr(prefix.size());
    if (rest.empty() || !is_digit(rest[0])) continue;
    const auto number = take_number(rest, count);
    if (!number || rest != (prefix == "st(" ? ")" : "")) return std::nullopt;
    return OperandRegister{kind, kind == Kind::vector ? *number : uint8_t{0}, 8, false};
  }
  return std::nullopt;
}

// In the processor's numbering.
constexpr std::string_view kSegments[] = {"es", "cs", "ss", "ds", "fs", "gs"};
constexpr uint8_t kFs = 4, kGs = 5;

// `name` is without the %.
std::optional<OperandRegister> register_named(std::string_view name) {
  for (const NamedRegister& one : kOldRegisters)
    if (name == one.name)
      return OperandRegister{Kind::general, one.number, one.bytes, one.is_high_byte};
  if (const auto one = new_register(name)) return one;
  if (name == "rip" || name == "eip")
    return OperandRegister{Kind::instruction_pointer, 0, 8, false};
  for (size_t i = 0; i < std::size(kSegments); ++i)
    if (name == kSegments[i])
      return OperandRegister{Kind::segment, static_cast<uint8_t>(i), 8, false};
  return vector_or_other(name);
}

// What a stub can use to find memory.
bool is_whole(const OperandRegister& one) {
  return one.kind == Kind::general && one.bytes == 8;
}

// Completes `argument`, which the operand describes.
Result<Argument, ArgumentError> in_memory(const Operand& operand, Argument argument) {
  // The stub adds its own use of the stack.
  constexpr int64_t kFarthest = int64_t{1} << 30;
  const auto elsewhere = [] { return fail(ArgumentError::elsewhere); };
  const auto offset = static_cast<int64_t>(operand.offset);
  const bool by_name = operand.base && operand.base->kind == Kind::instruction_pointer;
  if (operand.size == 0 || operand.size > 8 || offset < -kFarthest || offset > kFarthest)
    return elsewhere();
  if (operand.base && !by_name) {
    if (!is_whole(*operand.base)) return elsewhere();
    argument.base = operand.base->number;
  }
  if (operand.index) {
    if (by_name || !is_whole(*operand.index) || operand.index->number == kStackPointer)
      return elsewhere();
    argument.index = operand.index->number;
  }
  // The others start at 0.
  if (operand.segment && operand.segment->number == kFs) argument.segment = Segment::fs;
  if (operand.segment && operand.segment->number == kGs) argument.segment = Segment::gs;
  argument.symbol = operand.symbol;
  if (argument.segment == Segment::none) {
    if (operand.symbol.empty() && (by_name || (!operand.base && !operand.index)))
      return elsewhere();
  } else if (by_name) {
    return elsewhere();
  } else if (!operand.symbol.empty()) {
    if (argument.segment != Segment::fs || argument.base || argument.index ||
        !operand.symbol.ends_with(Argument::kOfThreadPointer))
      return elsewhere();
  }
  argument.scale = operand.scale;
  argument.number = operand.offset;
  return argument;
}

Result<Argument, ArgumentError> in_register(const Operand& operand, Argument argument) {
  constexpr uint8_t kVectors = 16;
  const OperandRegister& one = *operand.base;
  argument.register_number = one.number;
  if (one.kind == Kind::vector && one.number < kVectors) {
    argument.is_vector = argument.is_floating_point = argument.is_signed = true;
    argument.bytes = operand.size;
    if (operand.size == 4 || operand.size == 8) return argument;
  }
  if (one.kind != Kind::general || (argument.is_floating_point && one.bytes < operand.size))
    return fail(ArgumentError::elsewhere);
  argument.is_high_byte = one.is_high_byte;
  argument.bytes = std::min(argument.bytes, one.bytes);
  return argument;
}

// As the program has it: with its sign, or with zeros.
Argument constant(const Operand& operand, Argument argument) {
  argument.number = operand.offset;
  if (argument.bytes == 8) return argument;
  const unsigned bits = 8u * argument.bytes;
  const uint64_t sign = uint64_t{1} << (bits - 1);
  argument.number &= (uint64_t{1} << bits) - 1;
  if (argument.is_signed) argument.number = (argument.number ^ sign) - sign;
  return argument;
}

// One operand.
class OperandParser {
 public:
  explicit OperandParser(std::string_view text) : rest_(text) {}
  Result<Operand, Cause> parse();

 private:
  bool take(char wanted);
  bool parse_size();
  bool parse_expression();
  bool parse_term(bool negative);
  Result<void, Cause> parse_address();
  Result<void, Cause> parse_scale();
  std::optional<OperandRegister> take_register();

  std::string_view rest_;
  Operand operand_;
};

bool OperandParser::take(char wanted) {
  if (!rest_.starts_with(wanted)) return false;
  rest_.remove_prefix(1);
  return true;
}

// -4@, 8f@. A symbol may have an @, too: only digits and a sign are a size. Returns false if it is
// none that a value can have.
bool OperandParser::parse_size() {
  const size_t digits = rest_.starts_with('-') ? 1 : 0;
  const size_t end = std::min(rest_.find_first_not_of("0123456789", digits), rest_.size());
  const bool has_letter = end < rest_.size() && rest_[end] == 'f';
  const size_t at = end + (has_letter ? 1 : 0);
  if (at >= rest_.size() || rest_[at] != '@') return true;
  unsigned size = 0;
  const auto [last, error] = std::from_chars(rest_.data() + digits, rest_.data() + end, size);
  constexpr unsigned kSizes[] = {1, 2, 4, 8, 10, 12, 16, 32, 64};
  if (error != std::errc{} || last != rest_.data() + end ||
      std::find(std::begin(kSizes), std::end(kSizes), size) == std::end(kSizes))
    return false;
  operand_.size = static_cast<uint8_t>(size);
  operand_.is_signed = digits != 0;
  operand_.is_floating_point = has_letter;
  rest_.remove_prefix(at + 1);
  return true;
}

std::optional<OperandRegister> OperandParser::take_register() {
  if (!take('%')) return std::nullopt;
  const size_t stacked = rest_.starts_with("st(") ? rest_.find(')') : rest_.npos;
  const size_t end =
      stacked != rest_.npos ? stacked + 1 : std::min(rest_.find_first_of("(),:"), rest_.size());
  const auto found = register_named(rest_.substr(0, end));
  rest_.remove_prefix(end);
  return found;
}

bool OperandParser::parse_term(bool negative) {
  if (rest_.empty()) return false;
  if (is_digit(rest_[0])) {
    const bool hex = rest_.starts_with("0x") || rest_.starts_with("0X");
    if (hex) rest_.remove_prefix(2);
    uint64_t number = 0;
    const auto [end, error] =
        std::from_chars(rest_.data(), rest_.data() + rest_.size(), number, hex ? 16 : 10);
    if (error != std::errc{}) return false;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    operand_.offset += negative ? uint64_t{0} - number : number;
    return rest_.empty() || !continues_symbol(rest_[0]);
  }
  if (negative || !operand_.symbol.empty() || !starts_symbol(rest_[0])) return false;
  size_t end = 1;
  while (end < rest_.size() && continues_symbol(rest_[end])) ++end;
  operand_.symbol = rest_.substr(0, end);
  rest_.remove_prefix(end);
  return true;
}

// 8+sym, sym-8, -20, 0x10: numbers, and at most one symbol.
bool OperandParser::parse_expression() {
  bool negative = take('-');
  if (!negative) take('+');
  while (parse_term(negative)) {
    negative = rest_.starts_with('-');
    if (!negative && !rest_.starts_with('+')) return true;
    rest_.remove_prefix(1);
    if (take('-')) negative = !negative;  // sym+-8
  }
  return false;
}

Result<void, Cause> OperandParser::parse_scale() {
  const auto scale = take_number(rest_, 9);
  constexpr uint8_t kScales[] = {1, 2, 4, 8};
  if (!scale || std::find(std::begin(kScales), std::end(kScales), *scale) == std::end(kScales))
    return fail(Cause::bad_scale);
  operand_.scale = *scale;
  return {};
}

// (%base), (%base,%index), (%base,%index,scale), (,%index,scale)
Result<void, Cause> OperandParser::parse_address() {
  const auto is_address = [](const std::optional<OperandRegister>& one) {
    return one && (one->kind == Kind::instruction_pointer ||
                   (one->kind == Kind::general && one->bytes >= 4));
  };
  if (!rest_.starts_with(',')) {
    operand_.base = take_register();
    if (!is_address(operand_.base)) return fail(Cause::bad_register);
  }
  if (take(',')) {
    operand_.index = take_register();
    if (!is_address(operand_.index) || operand_.index->kind != Kind::general)
      return fail(Cause::bad_register);
    if (take(','))
      if (auto scale = parse_scale(); !scale) return scale;
  }
  if (!take(')')) return fail(Cause::bad_expression);
  return {};
}

Result<Operand, Cause> OperandParser::parse() {
  if (!parse_size()) return fail(Cause::bad_size);
  if (rest_.starts_with('%')) {
    const auto first = take_register();
    if (!first) return fail(Cause::bad_register);
    if (rest_.empty()) {
      operand_.base = first;
      if (first->kind == Kind::instruction_pointer) return fail(Cause::bad_register);
      return operand_;
    }
    if (first->kind != Kind::segment || !take(':')) return fail(Cause::bad_register);
    operand_.segment = first;
  }
  const bool is_constant = !operand_.segment && take('$');
  operand_.kind = is_constant ? Operand::Kind::constant : Operand::Kind::in_memory;
  if (!rest_.starts_with('(') && !parse_expression()) return fail(Cause::bad_expression);
  if (!is_constant && take('('))
    if (auto address = parse_address(); !address) return fail(address.error());
  if (!rest_.empty()) return fail(Cause::bad_expression);
  return operand_;
}

}  // namespace

Result<std::vector<Operand>, OperandError> parse_operands(std::string_view arguments) {
  std::vector<Operand> operands;
  while (true) {
    arguments.remove_prefix(std::min(arguments.find_first_not_of(' '), arguments.size()));
    if (arguments.empty()) return operands;
    const std::string_view text = arguments.substr(0, arguments.find(' '));
    arguments.remove_prefix(text.size());
    if (operands.size() == kMostOperands)
      return fail(OperandError{Cause::too_many, std::string(text)});
    auto operand = OperandParser(text).parse();
    if (!operand) return fail(OperandError{operand.error(), std::string(text)});
    operands.push_back(*operand);
  }
}

Result<Argument, ArgumentError> argument_of(std::string_view arguments, const Value& wanted) {
  const auto operands = parse_operands(arguments);
  if (!operands) return fail(ArgumentError::unreadable);
  if (wanted.argument == 0 || wanted.argument > operands->size())
    return fail(ArgumentError::none_such);
  const Operand& operand = (*operands)[wanted.argument - size_t{1}];
  Argument argument;
  argument.kind = operand.kind;
  argument.bytes = wanted.bytes;
  if (operand.size != 0) argument.bytes = std::min(argument.bytes, operand.size);
  argument.is_signed = wanted.sign == Value::Sign::signed_ ||
                       (wanted.sign == Value::Sign::of_site && operand.is_signed);
  if (operand.is_floating_point) {
    if ((operand.size != 4 && operand.size != 8) || operand.kind == Operand::Kind::constant)
      return fail(ArgumentError::floating_point);
    argument.is_floating_point = argument.is_signed = true;
    argument.bytes = operand.size;
  }
  switch (operand.kind) {
    case Operand::Kind::in_register:
      return in_register(operand, argument);
    case Operand::Kind::constant:
      if (!operand.symbol.empty()) return fail(ArgumentError::elsewhere);
      return constant(operand, argument);
    case Operand::Kind::in_memory:
      return in_memory(operand, argument);
  }
  return fail(ArgumentError::elsewhere);
}

}  // namespace pinprick::select
