#include "select/fetch_argument.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "select/value.h"
#include "select/words.h"

namespace pinprick::select {
namespace {

using FetchCause = EventLineError::Cause;

constexpr size_t kMostArgumentName = 32;
constexpr uint64_t kKernelHalf = uint64_t{1} << 63;

// The part of an argument before its type.
struct Fetched {
  enum class Kind : uint8_t {
    value,      // `text` is a value
    memory,     // `text` is the address of what is fetched
    immediate,  // `text` is a number
    command,
  } kind = Kind::value;
  std::string text;
};

struct Type {
  enum class Kind : uint8_t {
    number,
    signed_number,
    hexadecimal,
    character,
    symbol,
    text,
    bits
  } kind = Kind::hexadecimal;
  unsigned bits = 64;                  // of a number, or of what holds a field of bits
  unsigned width = 0, offset = 0;      // of a field of bits
  std::optional<unsigned> count = {};  // of an array
};

struct FetchType {
  std::string_view name;
  Type::Kind kind;
  unsigned bits;
};
constexpr FetchType kFetchTypes[] = {
    {"char", Type::Kind::character, 8}, {"symbol", Type::Kind::symbol, 64},
    {"symstr", Type::Kind::symbol, 64}, {"string", Type::Kind::text, 64},
    {"ustring", Type::Kind::text, 64},
};

// Those that the kernel knows, and no hit has here.
constexpr std::string_view kOtherRegisters[] = {"ip", "flags", "cs", "ss", "orig_ax", "eip", "rip"};

class ArgumentParser {
 public:
  explicit ArgumentParser(const FetchPlace& place) : place_(place) {}

  Result<FetchedArgument, EventLineError> parse(std::string_view word, size_t number);

 private:
  template <class T>
  using Parsed = Result<T, EventLineError>;

  size_t position_of(std::string_view part) const {
    return static_cast<size_t>(part.data() - place_.line.data());
  }
  Failure<EventLineError> wrong(FetchCause cause, std::string_view at) const {
    return fail(EventLineError{cause, position_of(at)});
  }

  enum class Depth : bool { outermost, inside };
  Parsed<Fetched> fetched(std::string_view text, Depth depth);
  Parsed<Fetched> variable(std::string_view text, Depth depth);
  Parsed<Fetched> memory(std::string_view text);
  Parsed<Fetched> dereferenced(std::string_view text);
  Parsed<Fetched> immediate(std::string_view text);
  Parsed<Type> type(std::string_view text);
  Parsed<Type> field_of_bits(std::string_view text);
  Parsed<std::string> typed(const Fetched& what, const Type& type, std::string_view at);

  const FetchPlace& place_;
  bool needs_entry_ = false;
  unsigned dereferences_ = 0;
};

std::optional<unsigned> small_number(std::string_view text) {
  const auto number = kernel_number(text);
  if (!number || *number > UINT16_MAX) return std::nullopt;
  return static_cast<unsigned>(*number);
}

ArgumentParser::Parsed<Fetched> ArgumentParser::variable(std::string_view text, Depth depth) {
  constexpr std::string_view kStack = "$stack", kArgument = "$arg";
  if (text == "$retval") {
    if (!place_.at_return) return wrong(FetchCause::retval_at_entry, text);
    return Fetched{.text = "$retval"};
  }
  if (text == "$comm" || text == "$COMM") return Fetched{Fetched::Kind::command, "$comm"};
  if (text == kStack) return Fetched{.text = "%sp"};
  const bool is_word = text.starts_with(kStack), is_argument = text.starts_with(kArgument);
  if (!is_word && !is_argument) return wrong(FetchCause::bad_variable, text);
  const auto number = small_number(text.substr(is_word ? kStack.size() : kArgument.size()));
  if (!number || *number > kMostStackWord || (is_argument && *number == 0))
    return wrong(FetchCause::bad_variable, text);
  needs_entry_ = needs_entry_ || is_argument;
  std::string name = (is_word ? "$stack" : "$arg") + std::to_string(*number);
  // The load is made when the event happens, although the argument is that of the entry.
  if (is_argument && place_.at_return && depth == Depth::inside) name += "@ret";
  return Fetched{.text = std::move(name)};
}

// @ADDRESS, @SYMBOL+OFFSET and @+OFFSET, which is one in the file.
ArgumentParser::Parsed<Fetched> ArgumentParser::memory(std::string_view text) {
  using Kind = Fetched::Kind;
  std::string_view rest = text.substr(1);
  if (rest.starts_with('+')) {
    const auto offset = kernel_number(rest.substr(1));
    if (!offset) return wrong(FetchCause::bad_file_offset, text);
    if (!place_.from_file) return wrong(FetchCause::offset_beside_symbol, text);
    return Fetched{Kind::memory, "&" + std::to_string(*offset + *place_.from_file)};
  }
  if (!rest.empty() && is_decimal(rest.front())) {
    const auto address = kernel_number(rest);
    if (!address) return wrong(FetchCause::bad_memory_address, text);
    if (*address >= kKernelHalf) return wrong(FetchCause::kernel_address, text);
    return Fetched{Kind::memory, std::to_string(*address)};
  }
  const size_t end = std::min(rest.find_first_of("+-"), rest.size());
  const std::string_view symbol = rest.substr(0, end), sum = rest.substr(end);
  const auto offset = sum.empty() ? std::optional<uint64_t>(0) : kernel_number(sum.substr(1));
  if (!is_kernel_name(symbol) || !offset) return wrong(FetchCause::bad_memory_address, text);
  std::string address = "&" + std::string(symbol);
  if (*offset != 0) address += sum.front() + std::to_string(*offset);
  return Fetched{Kind::memory, std::move(address)};
}

// +OFFSET(ARGUMENT), where u may come before the offset: all memory is that of the user.
ArgumentParser::Parsed<Fetched> ArgumentParser::dereferenced(std::string_view text) {
  constexpr unsigned kMostDereferences = 16;
  if (++dereferences_ > kMostDereferences) return wrong(FetchCause::too_deep, text);
  const char sign = text.front();
  std::string_view rest = text.substr(1);
  if (rest.starts_with('u')) rest.remove_prefix(1);
  const size_t open = rest.find('(');
  if (open == rest.npos) return wrong(FetchCause::dereference_needs_brace, rest);
  const auto offset = kernel_number(rest.substr(0, open));
  if (!offset || *offset >= kKernelHalf) return wrong(FetchCause::bad_dereference_offset, rest);
  if (!text.ends_with(')')) return wrong(FetchCause::dereference_open, text.substr(text.size()));
  const std::string_view inner = rest.substr(open + 1, rest.size() - open - 2);
  auto what = fetched(inner, Depth::inside);
  if (!what) return what;
  if (what->kind == Fetched::Kind::command) return wrong(FetchCause::command_dereferenced, inner);
  std::string address = std::move(what->text);
  if (what->kind == Fetched::Kind::memory) address = "*(u64*)(" + address + ")";
  if (*offset != 0) address += sign + std::to_string(*offset);
  return Fetched{Fetched::Kind::memory, std::move(address)};
}

ArgumentParser::Parsed<Fetched> ArgumentParser::immediate(std::string_view text) {
  std::string_view digits = text.substr(1);
  if (digits.starts_with('"')) {
    if (digits.size() < 2 || !digits.ends_with('"'))
      return wrong(FetchCause::immediate_open, text.substr(text.size()));
    return wrong(FetchCause::immediate_text, text);
  }
  const bool is_negative = digits.starts_with('-');
  if (is_negative) digits.remove_prefix(1);
  const auto number = kernel_number(digits);
  if (!number) return wrong(FetchCause::bad_immediate, text.substr(1));
  return Fetched{Fetched::Kind::immediate, (is_negative ? "-" : "") + std::to_string(*number)};
}

ArgumentParser::Parsed<Fetched> ArgumentParser::fetched(std::string_view text, Depth depth) {
  if (text.empty()) return wrong(FetchCause::no_argument_body, text);
  switch (text.front()) {
    case '$':
      return variable(text, depth);
    case '@':
      return memory(text);
    case '+':
    case '-':
      return dereferenced(text);
    case '\\':
      return immediate(text);
    case '%':
      break;
    default:
      return wrong(FetchCause::bad_fetch_argument, text);
  }
  if (std::ranges::find(kOtherRegisters, text.substr(1)) != std::end(kOtherRegisters))
    return wrong(FetchCause::register_unknown, text);
  if (text.find(':') != text.npos || !parse_value(text))
    return wrong(FetchCause::bad_register, text);
  return Fetched{.text = std::string(text)};
}

// b3@5/32: three bits of 32, from the fifth on.
ArgumentParser::Parsed<Type> ArgumentParser::field_of_bits(std::string_view text) {
  const size_t at = text.find('@'), slash = text.find('/');
  if (at == text.npos || slash == text.npos || slash < at)
    return wrong(FetchCause::unknown_type, text);
  const auto width = small_number(text.substr(1, at - 1));
  const auto offset = small_number(text.substr(at + 1, slash - at - 1));
  const auto bits = small_number(text.substr(slash + 1));
  constexpr unsigned kSizes[] = {8, 16, 32, 64};
  if (!bits || std::ranges::find(kSizes, *bits) == std::end(kSizes))
    return wrong(FetchCause::unknown_type, text);
  if (!width || !offset || *width == 0 || *width + *offset > *bits)
    return wrong(FetchCause::bad_bitfield, text);
  return Type{Type::Kind::bits, *bits, *width, *offset};
}

ArgumentParser::Parsed<Type> ArgumentParser::type(std::string_view text) {
  constexpr unsigned kMostElements = 64;
  const size_t open = std::min(text.find('['), text.size());
  const std::string_view name = text.substr(0, open);
  std::optional<unsigned> count;
  if (open != text.size()) {
    const size_t close = text.find(']', open);
    const std::string_view digits =
        text.substr(open + 1, close == text.npos ? close : close - open - 1);
    if (close == text.npos) return wrong(FetchCause::array_open, text.substr(text.size()));
    if (close + 1 != text.size())
      return wrong(FetchCause::bad_array_suffix, text.substr(close + 1));
    count = small_number(digits);
    if (!count || *count == 0) return wrong(FetchCause::bad_array_size, digits);
    if (*count > kMostElements) return wrong(FetchCause::array_too_big, digits);
  }
  Type type;
  const auto* const known = std::ranges::find(kFetchTypes, name, &FetchType::name);
  if (known != std::end(kFetchTypes)) {
    type.kind = known->kind;
    type.bits = known->bits;
  } else if (name.starts_with('b')) {
    auto bits = field_of_bits(name);
    if (!bits) return bits;
    if (count) return wrong(FetchCause::array_of_bits, text);
    type = *bits;
  } else {
    constexpr std::string_view kSizes[] = {"8", "16", "32", "64"};
    constexpr std::string_view kLetters = "usx";
    const bool is_number = !name.empty() && kLetters.find(name.front()) != kLetters.npos &&
                           std::ranges::find(kSizes, name.substr(1)) != std::end(kSizes);
    if (!is_number) return wrong(FetchCause::unknown_type, text);
    type.kind = name.front() == 'u'   ? Type::Kind::number
                : name.front() == 's' ? Type::Kind::signed_number
                                      : Type::Kind::hexadecimal;
    type.bits = *small_number(name.substr(1));
  }
  type.count = count;
  return type;
}

// The name of the type for loads and parts: u32.
std::string name_of(const Type& type) {
  return (type.kind == Type::Kind::signed_number ? 's' : 'u') + std::to_string(type.bits);
}

// Returns what comes after a value that is as wide as the type already, to show it so.
std::string form_of(const Type& type) {
  switch (type.kind) {
    case Type::Kind::hexadecimal:
      return ":x";
    case Type::Kind::character:
      return ":char";
    case Type::Kind::symbol:
      return ":sym";
    default:
      return "";
  }
}

std::string of_array(const std::string& address, const Type& type) {
  constexpr std::pair<Type::Kind, std::string_view> kNames[] = {
      {Type::Kind::character, "char"}, {Type::Kind::symbol, "sym"}, {Type::Kind::text, "strings"}};
  const auto* const known =
      std::ranges::find(kNames, type.kind, &std::pair<Type::Kind, std::string_view>::first);
  const bool is_hexadecimal = type.kind == Type::Kind::hexadecimal;
  const std::string name = known != std::end(kNames) ? std::string(known->second)
                           : is_hexadecimal          ? "x" + std::to_string(type.bits)
                                                     : name_of(type);
  return "(" + address + "):" + name + "[" + std::to_string(*type.count) + "]";
}

// The bits of a number that is as wide as the type.
std::string bits_of(const std::string& number, const Type& type) {
  const uint64_t mask = type.width == 64 ? UINT64_MAX : (uint64_t{1} << type.width) - 1;
  return "((" + number + ")>>" + std::to_string(type.offset) + ")&" + std::to_string(mask);
}

// `at` is what an error is about.
ArgumentParser::Parsed<std::string> ArgumentParser::typed(const Fetched& what, const Type& type,
                                                          std::string_view at) {
  if (what.kind == Fetched::Kind::command) return what.text;
  if (what.kind == Fetched::Kind::memory) {
    if (type.count) return of_array(what.text, type);
    if (type.kind == Type::Kind::text) return "(" + what.text + "):string";
    const std::string load = "*(" + name_of(type) + "*)(" + what.text + ")";
    return type.kind == Type::Kind::bits ? bits_of(load, type) : load + form_of(type);
  }
  if (type.count || type.kind == Type::Kind::text) return wrong(FetchCause::bad_string, at);
  if (what.kind == Fetched::Kind::immediate) {
    const std::string number = "(" + name_of(type) + ")" + what.text;
    return type.kind == Type::Kind::bits ? bits_of(number, type) : number + form_of(type);
  }
  if (type.kind == Type::Kind::bits) return bits_of(what.text + ":" + name_of(type), type);
  if (type.kind == Type::Kind::hexadecimal) return what.text + ":x" + std::to_string(type.bits);
  const std::string form = form_of(type);
  return what.text + (form.empty() ? ":" + name_of(type) : form);
}

Result<FetchedArgument, EventLineError> ArgumentParser::parse(std::string_view word,
                                                              size_t number) {
  FetchedArgument argument = {.name = "arg" + std::to_string(number), .value = {}};
  std::string_view rest = word;
  if (const size_t equals = word.find('='); equals != word.npos) {
    const std::string_view name = word.substr(0, equals);
    if (name.empty()) return wrong(FetchCause::no_argument_name, word);
    if (name.size() > kMostArgumentName) return wrong(FetchCause::argument_name_too_long, word);
    if (!is_kernel_name(name)) return wrong(FetchCause::bad_argument_name, word);
    argument.name = name;
    rest = word.substr(equals + 1);
  }
  const size_t colon = std::min(rest.find(':'), rest.size());
  const auto what = fetched(rest.substr(0, colon), Depth::outermost);
  if (!what) return fail(what.error());
  const std::string_view name = rest.substr(std::min(colon + 1, rest.size()));
  const auto found = colon == rest.size() ? Parsed<Type>(Type{}) : type(name);
  if (!found) return fail(found.error());
  const bool is_command = what->kind == Fetched::Kind::command;
  if (is_command && colon != rest.size() && found->kind != Type::Kind::text)
    return wrong(FetchCause::command_type, name);
  auto value = typed(*what, *found, name);
  if (!value) return fail(value.error());
  argument.value = *std::move(value);
  argument.needs_entry = needs_entry_;
  return argument;
}

}  // namespace

std::optional<uint64_t> kernel_number(std::string_view text) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    base = 16;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text.starts_with('0')) {
    base = 8;
  }
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_kernel_name(std::string_view text) {
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, is_word);
}

Result<FetchedArgument, EventLineError> fetched_argument(std::string_view word, size_t number,
                                                         const FetchPlace& place) {
  return ArgumentParser(place).parse(word, number);
}

}  // namespace pinprick::select
