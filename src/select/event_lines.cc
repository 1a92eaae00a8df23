#include "select/event_lines.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "select/fetch_argument.h"
#include "select/spec.h"
#include "select/words.h"

namespace pinprick::select {
namespace {

using LineCause = EventLineError::Cause;

constexpr size_t kMostEventName = 63;
constexpr size_t kMostArguments = 128;
constexpr uint64_t kMostActive = 4096;

std::string hexadecimal(uint64_t number) {
  constexpr int kBase = 16;
  char digits[16];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number, kBase).ptr;
  return "0x" + std::string(digits, end);
}

// Takes the next word from the front; empty if there is none.
std::string_view take_word(std::string_view& rest) {
  constexpr std::string_view kBlanks = " \t\r\n";
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
  rest.remove_prefix(word.size());
  return word;
}

// Of a name that the kernel makes, what cannot be in it is an underscore.
std::string as_kernel_name(std::string text) {
  for (char& c : text)
    if (!is_word(c)) c = '_';
  return text.substr(0, kMostEventName);
}

class EventLine {
 public:
  EventLine(std::string_view line, EventFiles& files) : line_(line), files_(files) {}

  Result<std::string, EventLineError> parse();

 private:
  using Done = Result<void, EventLineError>;

  Failure<EventLineError> wrong(LineCause cause, std::string_view at) const {
    return fail(EventLineError{cause, static_cast<size_t>(at.data() - line_.data())});
  }
  Done parse_kind(std::string_view word);
  Done parse_maxactive(std::string_view digits);
  Done parse_name(std::string_view name);
  Done parse_place(std::string_view word);
  Done parse_offset(std::string_view text);
  Done parse_suffix(std::string_view text);
  Done parse_symbol(std::string_view text);
  Result<std::string, EventLineError> arguments(std::string_view rest);
  std::string point() const;

  std::string_view line_;
  EventFiles& files_;
  bool at_return_ = false;
  bool needs_entry_ = false;  // of a function
  std::string group_, name_;  // empty: none was given
  std::string_view path_;     // or the name of an object
  std::string object_, symbol_;
  uint64_t offset_ = 0;   // from the symbol, or in the file
  uint64_t address_ = 0;  // the same as an address of the object; without a symbol
};

EventLine::Done EventLine::parse_maxactive(std::string_view digits) {
  if (digits.empty()) return {};
  const auto number = kernel_number(digits);
  if (!at_return_ && number) return wrong(LineCause::maxactive_of_entry, digits);
  if (!number) return wrong(at_return_ ? LineCause::bad_maxactive : LineCause::no_probe, digits);
  if (*number > kMostActive) return wrong(LineCause::maxactive_too_big, digits);
  return {};
}

// [GROUP/][EVENT]
EventLine::Done EventLine::parse_name(std::string_view name) {
  const size_t slash = name.find_first_of("/.");
  if (slash != name.npos) {
    const std::string_view group = name.substr(0, slash);
    if (group.empty()) return wrong(LineCause::no_group_name, name);
    if (group.size() > kMostEventName) return wrong(LineCause::group_too_long, group);
    if (!is_kernel_name(group)) return wrong(LineCause::bad_group_name, group);
    group_ = group;
    name.remove_prefix(slash + 1);
    if (name.empty()) return {};
  }
  if (name.empty()) return wrong(LineCause::no_event_name, name);
  if (name.size() > kMostEventName) return wrong(LineCause::event_too_long, name);
  if (!is_kernel_name(name)) return wrong(LineCause::bad_event_name, name);
  name_ = name;
  return {};
}

// p, r10, p:NAME
EventLine::Done EventLine::parse_kind(std::string_view word) {
  switch (word.front()) {
    case 'p':
    case 'r':
      break;
    case '-':
      return wrong(LineCause::removes, word);
    case 'e':
    case 'f':
    case 't':
      return wrong(LineCause::of_kernel, word);
    default:
      return wrong(LineCause::no_probe, word);
  }
  at_return_ = word.front() == 'r';
  const size_t colon = std::min(word.find(':'), word.size());
  if (auto done = parse_maxactive(word.substr(1, colon - 1)); !done) return done;
  return colon == word.size() ? Done() : parse_name(word.substr(colon + 1));
}

// Parses the end of a place: nothing, or %return. Reference counters are refused.
EventLine::Done EventLine::parse_suffix(std::string_view text) {
  if (text.starts_with('(')) {
    const size_t close = text.find(')');
    if (close == text.npos) return wrong(LineCause::counter_open, text.substr(text.size()));
    if (!kernel_number(text.substr(1, close - 1)))
      return wrong(LineCause::bad_counter, text.substr(1));
    if (close + 1 != text.size()) return wrong(LineCause::counter_suffix, text.substr(close + 1));
    return wrong(LineCause::counter, text);
  }
  if (text.empty()) return {};
  if (text != kReturnMark) return wrong(LineCause::bad_address_suffix, text);
  at_return_ = true;
  return {};
}

// An offset in the file.
EventLine::Done EventLine::parse_offset(std::string_view text) {
  const size_t end = std::min(text.find_first_of("%("), text.size());
  const auto offset = kernel_number(text.substr(0, end));
  if (!offset) return wrong(LineCause::bad_offset, text);
  if (auto done = parse_suffix(text.substr(end)); !done) return done;
  const auto address = files_.address_of(path_, *offset);
  if (!address) {
    const bool is_of_path = address.error() == LineCause::file_not_found ||
                            address.error() == LineCause::no_regular_file;
    return wrong(address.error(), is_of_path ? path_ : text);
  }
  offset_ = *offset;
  address_ = *address;
  return {};
}

// SYMBOL, SYMBOL+OFFSET. Patterns that stand for several functions are none of the kernel's.
EventLine::Done EventLine::parse_symbol(std::string_view text) {
  const size_t end = std::min(text.find('%'), text.size());
  const std::string_view sum = text.substr(0, end), suffix = text.substr(end);
  const size_t plus = std::min(sum.find('+'), sum.size());
  const std::string_view symbol = sum.substr(0, plus);
  constexpr std::string_view kOthers = ".$@";
  const bool is_symbol = !symbol.empty() && std::ranges::all_of(symbol, [&](char c) {
    return is_word(c) || kOthers.find(c) != kOthers.npos;
  });
  if (!is_symbol || symbol.front() == '@') return wrong(LineCause::bad_address, text);
  if (plus != sum.size()) {
    const auto offset = kernel_number(sum.substr(plus + 1));
    if (!offset) return wrong(LineCause::bad_address, sum.substr(plus));
    offset_ = *offset;
  }
  if (auto done = parse_suffix(suffix); !done) return done;
  if (at_return_ && offset_ != 0) return wrong(LineCause::bad_return_probe, text);
  symbol_ = symbol;
  return {};
}

EventLine::Done EventLine::parse_place(std::string_view word) {
  const size_t colon = word.rfind(':');
  if (colon == word.npos)
    return wrong(word.starts_with("0x") ? LineCause::kernel_address : LineCause::kernel_symbol,
                 word);
  path_ = word.substr(0, colon);
  const std::string_view rest = word.substr(colon + 1);
  if (path_.empty()) return wrong(LineCause::file_not_found, word);
  if (rest.empty()) return wrong(LineCause::bad_offset, rest);
  auto object = files_.object_of(path_);
  if (!object) return wrong(object.error(), path_);
  object_ = *std::move(object);
  return is_decimal(rest.front()) ? parse_offset(rest) : parse_symbol(rest);
}

Result<std::string, EventLineError> EventLine::arguments(std::string_view rest) {
  FetchPlace place = {.line = line_, .at_return = at_return_};
  if (symbol_.empty()) place.from_file = address_ - offset_;
  std::string values;
  std::set<std::string> names = {"common_type",  "common_flags",  "common_preempt_count",
                                 "common_pid",   "common_tgid",   "__probe_ip",
                                 "__probe_func", "__probe_ret_ip"};
  size_t number = 0;
  for (std::string_view word = take_word(rest); !word.empty(); word = take_word(rest)) {
    if (++number > kMostArguments) return wrong(LineCause::too_many_arguments, word);
    const auto argument = fetched_argument(word, number, place);
    if (!argument) return fail(argument.error());
    if (!names.insert(argument->name).second) return wrong(LineCause::used_argument_name, word);
    needs_entry_ = needs_entry_ || argument->needs_entry;
    values += " " + argument->name + "=" + argument->value;
  }
  return values;
}

// A function by its address has no offset, and then its arguments are known; any instruction has
// one from the object, which is named before it as well, as a function could have its name.
std::string EventLine::point() const {
  std::string point = object_;
  if (!symbol_.empty()) {
    point += ":" + symbol_;
    if (offset_ != 0) point += "+" + hexadecimal(offset_);
  } else {
    if (!at_return_ && !needs_entry_) point += ":" + object_ + "+";
    if (at_return_ || needs_entry_) point += ":";
    point += hexadecimal(address_);
  }
  return point + std::string(at_return_ ? kReturnMark : "");
}

Result<std::string, EventLineError> EventLine::parse() {
  std::string_view rest = line_;
  if (auto done = parse_kind(take_word(rest)); !done) return fail(done.error());
  const std::string_view word = take_word(rest);
  if (word.empty()) return wrong(LineCause::no_place, rest);
  if (auto done = parse_place(word); !done) return fail(done.error());
  const auto values = arguments(rest);
  if (!values) return fail(values.error());
  // As the kernel names them.
  if (name_.empty() && symbol_.empty())
    name_ = as_kernel_name("p_" + object_.substr(0, object_.find_first_of(".-_")) + "_" +
                           hexadecimal(offset_));
  if (name_.empty())
    name_ = as_kernel_name((at_return_ ? "r_" : "p_") + symbol_ + "_" + std::to_string(offset_));
  return (group_.empty() ? "" : group_ + ":") + name_ + " = " + point() + *values;
}

}  // namespace

Result<std::optional<std::string>, EventLineError> spec_of_event_line(std::string_view line,
                                                                      EventFiles& files) {
  std::string_view rest = line;
  const std::string_view first = take_word(rest);
  if (first.empty() || first.starts_with('#')) return std::optional<std::string>();
  auto spec = EventLine(line, files).parse();
  if (!spec) return fail(spec.error());
  return std::optional(*std::move(spec));
}

}  // namespace pinprick::select
