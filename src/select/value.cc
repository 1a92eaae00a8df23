#include "select/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "select/operand.h"

namespace pinprick::select {
namespace {

constexpr std::array<std::string_view, 16> kRegisters = {"ax",  "cx",  "dx",  "bx", "sp",  "bp",
                                                         "si",  "di",  "r8",  "r9", "r10", "r11",
                                                         "r12", "r13", "r14", "r15"};
// rdi, rsi, rdx, rcx, r8, r9
constexpr std::array<uint8_t, 6> kArguments = {7, 6, 2, 1, 8, 9};

std::optional<uint8_t> general_register(std::string_view name) {
  for (size_t i = 0; i < kRegisters.size(); ++i) {
    const bool is_old = kRegisters[i][0] != 'r';
    if (name == kRegisters[i] ||
        (is_old && name.starts_with('r') && name.substr(1) == kRegisters[i]))
      return static_cast<uint8_t>(i);
  }
  return std::nullopt;
}

std::optional<uint8_t> argument_number(std::string_view digits, Arguments arguments) {
  const size_t most = arguments == Arguments::of_point ? kMostOperands : kArguments.size();
  unsigned number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.starts_with('0') ||
      number == 0 || number > most)
    return std::nullopt;
  return static_cast<uint8_t>(number);
}

// Of xmm0 to xmm15.
std::optional<uint8_t> vector_register(std::string_view name) {
  constexpr std::string_view kVector = "xmm";
  constexpr unsigned kLastVector = 15;
  if (!name.starts_with(kVector)) return std::nullopt;
  const std::string_view digits = name.substr(kVector.size());
  unsigned number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number = error == std::errc{} && end == digits.data() + digits.size() &&
                         (digits.size() == 1 || !digits.starts_with('0'));
  return is_number && number <= kLastVector ? std::optional(static_cast<uint8_t>(number))
                                            : std::nullopt;
}

// Returns the register of $farg1 to $farg8.
std::optional<uint8_t> real_argument(std::string_view name) {
  constexpr std::string_view kReal = "$farg";
  constexpr char kFirstReal = '1', kLastReal = '8';
  const bool is_one = name.starts_with(kReal) && name.size() == kReal.size() + 1 &&
                      name.back() >= kFirstReal && name.back() <= kLastReal;
  return is_one ? std::optional(static_cast<uint8_t>(name.back() - kFirstReal)) : std::nullopt;
}

Value in_vector(uint8_t number) {
  Value value = {.register_number = number, .is_real = true};
  value.is_vector = true;
  value.sign = Value::Sign::none;
  return value;
}

std::optional<uint8_t> number_of_frames(std::string_view digits) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || number == 0 ||
      number > kMostFrames)
    return std::nullopt;
  return static_cast<uint8_t>(number);
}

}  // namespace

uint8_t register_of_argument(uint8_t number) {
  return kArguments[number - 1];
}

Result<Value, ValueError> parse_value(std::string_view text, Arguments arguments) {
  using Cause = ValueError::Cause;
  const auto wrong = [](Cause cause, std::string_view what) {
    return fail(ValueError{cause, std::string(what)});
  };
  const size_t colon = text.find(':');
  const std::string_view what = text.substr(0, colon);
  Value value;
  constexpr std::string_view kArg = "$arg";
  if (arguments == Arguments::of_return && what == "$retval") {
    value.register_number = 0;          // %rax
    value.sign = Value::Sign::signed_;  // -1 says that a call has failed
  } else if (arguments == Arguments::of_return && what == "$fretval") {
    value = in_vector(0);
  } else if (const auto real = real_argument(what); real && arguments != Arguments::of_point) {
    value = in_vector(*real);
    value.argument = Value::kOfEntry;
  } else if (arguments == Arguments::of_return && what == "$latency") {
    value.is_latency = true;
  } else if (arguments == Arguments::of_return && what == "$errno") {
    value.is_error = true;
    value.bytes = 4;
    value.sign = Value::Sign::signed_;
  } else if (arguments != Arguments::of_point && what == "$caller") {
    value.argument = Value::kCaller;
    value.sign = Value::Sign::none;
  } else if (what == "$stack") {
    value.argument = Value::kStack;
    value.sign = Value::Sign::none;
    value.frames = kMostFrames;
    if (colon == text.npos) return value;
    const auto frames = number_of_frames(text.substr(colon + 1));
    if (!frames) return wrong(Cause::frames, text.substr(colon + 1));
    value.frames = *frames;
    return value;
  } else if (what == "$tid") {
    value.argument = Value::kThread;
    value.sign = Value::Sign::none;
  } else if (what.starts_with('$')) {
    const auto number = what.starts_with(kArg)
                            ? argument_number(what.substr(kArg.size()), arguments)
                            : std::nullopt;
    if (!number) return wrong(Cause::unknown_argument, what);
    value.argument = *number;
    if (arguments != Arguments::of_point) value.register_number = register_of_argument(*number);
  } else if (!what.starts_with('%')) {
    value.name = what;
  } else if (const auto vector = vector_register(what.substr(1))) {
    value = in_vector(*vector);
  } else {
    const auto number = general_register(what.substr(1));
    if (!number) return wrong(Cause::unknown_register, what);
    value.register_number = *number;
  }
  if (colon == text.npos) return value;
  const std::string_view type = text.substr(colon + 1);
  value.is_real = type == "f32" || type == "f64";
  if (value.is_real) {
    value.bytes = type == "f32" ? 4 : 8;
    value.sign = Value::Sign::none;
    return value;
  }
  constexpr std::pair<std::string_view, uint8_t> kWidths[] = {
      {"8", 1}, {"16", 2}, {"32", 4}, {"64", 8}};
  const auto width = std::find_if(std::begin(kWidths), std::end(kWidths), [&](const auto& one) {
    return !type.empty() && type.substr(1) == one.first;
  });
  if (width == std::end(kWidths) || (type[0] != 'u' && type[0] != 's' && type[0] != 'x'))
    return wrong(Cause::unknown_type, type);
  value.sign = type[0] == 's' ? Value::Sign::signed_ : Value::Sign::none;
  value.bytes = width->second;
  return value;
}

}  // namespace pinprick::select
