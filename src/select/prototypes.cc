#include "select/prototypes.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <iterator>

namespace pinprick::select {
namespace {

#include "select/prototypes.inc"

template <size_t n>
constexpr std::string_view text_of(const char (&literal)[n]) {
  return {literal, n - 1};
}

struct Library {
  std::string_view name;
  std::string_view functions;
};

// Before glibc 2.34, parts of the C library were libraries of their own. musl has one file, which
// is its loader as well.
constexpr Library kLibraries[] = {{"libc", text_of(kLibcLines)},
                                  {"libpthread", text_of(kLibcLines)},
                                  {"libm", text_of(kLibcLines)},
                                  {"librt", text_of(kLibcLines)},
                                  {"libdl", text_of(kLibcLines)},
                                  {"libresolv", text_of(kLibcLines)},
                                  {"libutil", text_of(kLibcLines)},
                                  {"libanl", text_of(kLibcLines)},
                                  {"ld-linux-x86-64", text_of(kLibcLines)},
                                  {"ld-musl-x86_64", text_of(kLibcLines)},
                                  {"libc.musl-x86_64", text_of(kLibcLines)},
                                  {"libcrypto", text_of(kLibcryptoLines)},
                                  {"libpq", text_of(kLibpqLines)},
                                  {"libsqlite3", text_of(kLibsqlite3Lines)},
                                  {"libssl", text_of(kLibsslLines)},
                                  {"libz", text_of(kLibzLines)}};

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kLibraries)> names;
  for (size_t i = 0; i < names.size(); ++i) names[i] = kLibraries[i].name;
  return names;
}();

// Takes what precedes `end` from the front, and `end`; all, if it does not occur.
std::string_view take_until(std::string_view& text, char end) {
  const size_t at = std::min(text.find(end), text.size());
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return taken;
}

// The lines are sorted. Returns the one of the function, without its name; empty if there is none.
std::string_view line_of(std::string_view lines, std::string_view function) {
  while (!lines.empty()) {
    const size_t before = lines.substr(0, lines.size() / 2).rfind('\n');
    const size_t start = before == lines.npos ? 0 : before + 1;
    std::string_view after = lines.substr(start);
    std::string_view line = take_until(after, '\n');
    const std::string_view name = take_until(line, ':');
    if (name == function) return line;
    lines = name < function ? after : lines.substr(0, start);
  }
  return {};
}

// A type's line: its letter, and how C spells it.
std::string_view type_numbered(unsigned number) {
  std::string_view types = text_of(kTypeLines);
  for (; number != 0; --number) take_until(types, '\n');
  return take_until(types, '\n');
}

std::string_view take_type(std::string_view& text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  assert(error == std::errc{});
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return type_numbered(number);
}

struct Size {
  char letter;
  uint8_t bytes;
  bool is_signed;
};
constexpr Size kSizes[] = {{'b', 1, true},  {'B', 1, false}, {'h', 2, true}, {'H', 2, false},
                           {'i', 4, true},  {'u', 4, false}, {'l', 8, true}, {'z', 8, false},
                           {'p', 8, false}, {'s', 8, false}};

// Sets what the type says of it. Returns whether it is in a general register, or on the stack like
// one.
bool set_type(std::string_view type, Parameter& parameter) {
  parameter.type = type.substr(1);
  const char letter = type.front();
  const auto* const size = std::ranges::find(kSizes, letter, &Size::letter);
  if (size == std::end(kSizes)) return false;
  parameter.bytes = size->bytes;
  parameter.is_signed = size->is_signed;
  parameter.is_pointer = letter == 'p' || letter == 's';
  return true;
}

// `integers` is how many parameters in general registers, or after those on the stack, precede it.
Parameter take_parameter(std::string_view text, uint8_t& integers) {
  using Is = Parameter::Kind;
  Parameter parameter;
  const std::string_view type = take_type(text);
  parameter.name = text.substr(0, text.find_first_of("[>|"));
  text.remove_prefix(parameter.name.size());
  if (text.starts_with('[')) {
    text.remove_prefix(1);
    parameter.length = take_until(text, ']');
  }
  const char letter = type.front();
  if (set_type(type, parameter)) {
    constexpr uint8_t kInRegisters = 6;
    if (++integers <= kInRegisters) parameter.argument = integers;
  }
  const bool is_output = text == ">", has_length = !parameter.length.empty();
  parameter.kind = letter == 'f' || letter == 'm' ? Is::floating_point
                   : is_output                    ? has_length ? Is::output_bytes : Is::output
                   : has_length                   ? Is::bytes
                   : letter == 's'                ? Is::text
                   : text == "|"                  ? Is::flags
                                                  : Is::other;
  return parameter;
}

}  // namespace

const Parameter* Prototype::find(std::string_view name) const {
  const auto found = std::ranges::find(parameters, name, &Parameter::name);
  return found == parameters.end() || name.empty() ? nullptr : &*found;
}

std::span<const std::string_view> libraries_with_prototypes() {
  return kNames;
}

std::optional<Prototype> find_prototype(std::string_view library, std::string_view function) {
  const auto* const known = std::ranges::find(kLibraries, library, &Library::name);
  if (known == std::end(kLibraries)) return std::nullopt;
  std::string_view line = line_of(known->functions, function);
  if (line.empty() && known->functions.data() == kLibcLines)
    for (const std::string_view prefix : {"__libc_", "__"})
      if (line.empty() && function.starts_with(prefix))
        line = line_of(known->functions, function.substr(prefix.size()));
  if (line.empty()) return std::nullopt;
  Prototype prototype;
  prototype.function = function;
  std::string_view result = take_until(line, ' ');
  const std::string_view type = take_type(result);
  prototype.result = type.substr(1);
  if (Parameter returned; set_type(type, returned)) {
    const bool is_text = prototype.result == "char *" || prototype.result == "const char *";
    if (is_text) returned.kind = Parameter::Kind::text;
    prototype.returned = returned;
  }
  prototype.failure = result == "!"   ? Prototype::Failure::minus_one
                      : result == "?" ? Prototype::Failure::null
                                      : Prototype::Failure::none;
  for (uint8_t integers = 0; !line.empty();) {
    const std::string_view text = take_until(line, ',');
    if (text == "...")
      prototype.takes_more = true;
    else
      prototype.parameters.push_back(take_parameter(text, integers));
  }
  return prototype;
}

Value value_of(const Parameter& parameter, const Value& wanted) {
  assert(parameter.argument != 0);
  Value value;
  value.argument = parameter.argument;
  value.register_number = register_of_argument(parameter.argument);
  value.bytes = parameter.bytes;
  value.sign = parameter.is_signed ? Value::Sign::signed_ : Value::Sign::none;
  if (wanted.sign != Value::Sign::of_site) {
    value.bytes = wanted.bytes;
    value.sign = wanted.sign;
  }
  return value;
}

}  // namespace pinprick::select
