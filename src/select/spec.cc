#include "select/spec.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "select/array.h"
#include "select/expression.h"
#include "select/format.h"
#include "select/words.h"

namespace pinprick::select {
namespace {

std::string_view trim(std::string_view text) {
  while (text.ends_with(' ')) text.remove_suffix(1);
  while (text.starts_with(' ')) text.remove_prefix(1);
  return text;
}

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_of_name(char c) {
  return is_lower(c) || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$';
}

// Does it have $ARGUMENT or %REGISTER in it? In names of functions, $ follows a letter, or comes
// before an underscore.
bool has_value(std::string_view word) {
  for (size_t i = 0; i + 1 < word.size(); ++i)
    if ((word[i] == '$' || word[i] == '%') && is_lower(word[i + 1]) &&
        (i == 0 || !is_of_name(word[i - 1])))
      return true;
  return false;
}

// Returns the expression of a value without a name; of an array, that of its first element.
std::string expression_of(std::string_view value) {
  const auto array = split_array(value);
  return array ? element_of(*array, 0) : std::string(split_form(value).value);
}

bool starts_like_value(std::string_view word) {
  const auto [name, value] = split_name(word);
  // With a name it may be a number, or what lies at one.
  if (!name.empty() && parse_expression(expression_of(value), Arguments::of_point)) return true;
  word = value;
  if (word.empty()) return false;
  if (word.front() == '"') return true;
  constexpr std::string_view kStarts = "$%(*-~!0123456789'";
  return kStarts.find(word.front()) != kStarts.npos && has_value(word);
}

// Is it a word of a name in C++ or Rust that another word follows?
bool is_unfinished(std::string_view word) {
  constexpr std::string_view kWords[] = {
      "operator", "new",    "delete", "void",     "bool",   "char",  "wchar_t",  "char8_t",
      "char16_t", "short",  "int",    "char32_t", "signed", "long",  "unsigned", "float",
      "double",   "auto",   "for",    "decltype", "to",     "as",    "co_await", "__int128",
      "dyn",      "struct", "impl",   "mut",      "class",  "union", "enum"};
  return std::ranges::find(kWords, word) != std::end(kWords);
}

// Is such a word the name of a variable in C, as others of them cannot be?
bool is_name_in_c(std::string_view word) {
  constexpr std::string_view kOfC[] = {"new", "delete", "to",  "as",      "class",
                                       "dyn", "impl",   "mut", "operator"};
  return std::ranges::find(kOfC, word) != std::end(kOfC);
}

// Does it follow the parameters of a function in its name?
bool ends_signature(std::string_view word) {
  return word == "const" || word == "volatile" || word == "noexcept";
}

// Is it an expression with a name, after `before`, which ends with no word that needs another one?
bool is_named_value(std::string_view word, std::string_view before) {
  const auto without_scope = [](std::string_view name) {
    size_t begin = name.size();
    while (begin > 0 && is_of_name(name[begin - 1])) --begin;
    return name.substr(begin);
  };
  // It is a longer name where that begins with such a word, and in what a template or a type of
  // Rust is given.
  const bool may_be_long = before.find('<') != before.npos ||
                           is_unfinished(without_scope(before.substr(0, before.find(' '))));
  const auto is_inside = [&](std::string_view one) {
    return is_unfinished(one) && (may_be_long || !is_name_in_c(one));
  };
  const std::string_view previous = without_scope(before.substr(before.rfind(' ') + 1));
  if (is_inside(word) || is_inside(previous) || ends_signature(word)) return false;
  const std::string value = expression_of(split_name(word).value);
  for (const auto arguments : {Arguments::of_return, Arguments::of_point}) {
    const auto expression = parse_expression(value, arguments);
    if (expression && has_name(*expression)) return true;
  }
  return false;
}

// Returns where the text in quotes that begins after a blank at or after `from` starts; npos if
// there is none.
size_t next_quotes(std::string_view text, size_t from) {
  const size_t blank = text.find(" \"", from);
  return blank == text.npos ? text.npos : blank + 1;
}

bool is_quoted(std::string_view text, size_t at) {
  for (size_t begin = next_quotes(text, 0); begin < at;) {
    const size_t end = begin + end_of_quotes(text.substr(begin));
    if (at < end) return true;
    begin = next_quotes(text, end);
  }
  return false;
}

// Returns where the last word of the text starts; blanks in parentheses, and in quotes, are part of
// a word.
size_t last_word(std::string_view text) {
  for (size_t at = next_quotes(text, 0); at != text.npos;) {
    const size_t end = at + end_of_quotes(text.substr(at));
    if (end == text.size()) return at;
    at = next_quotes(text, end);
  }
  int depth = 0;
  for (size_t i = text.size(); i > 0; --i) {
    const char c = text[i - 1];
    if (c == ')') ++depth;
    if (c == '(') --depth;
    if (c == ' ' && depth <= 0) return i;
  }
  return 0;
}

// NAME, or GROUP:NAME.
bool is_event_name(std::string_view text) {
  const auto is_name = [](std::string_view part) {
    return !part.empty() && is_letter(part.front()) && std::ranges::all_of(part, is_word);
  };
  const size_t colon = text.find(':');
  return colon == text.npos ? is_name(text)
                            : is_name(text.substr(0, colon)) && is_name(text.substr(colon + 1));
}

// `NAME = ` comes before a point, with blanks, as functions may have a = in their names.
GivenName split_event(std::string_view spec) {
  constexpr std::string_view kSign = " = ";
  const size_t sign = spec.find(kSign);
  if (sign == spec.npos) return {{}, spec};
  const std::string_view name = trim(spec.substr(0, sign));
  return is_event_name(name) ? GivenName{name, spec.substr(sign + kSign.size())}
                             : GivenName{{}, spec};
}

}  // namespace

GivenName split_name(std::string_view word) {
  const size_t end = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, end);
  const bool is_name =
      !name.empty() && !(name.front() >= '0' && name.front() <= '9') &&
      std::all_of(name.begin(), name.end(), [](char c) { return is_of_name(c) && c != '$'; });
  if (!is_name || end == word.size() || word.substr(end + 1).starts_with('=')) return {{}, word};
  return {name, word.substr(end + 1)};
}

GivenForm split_form(std::string_view value) {
  const size_t colon = std::min(value.rfind(':'), value.size());
  const std::string_view before = value.substr(0, colon), after = value.substr(colon);
  if (after == ":sym") return {ShownAs::symbol, before, {}};
  if (after == ":raw") return {ShownAs::raw, before, {}};
  if (after == ":errno") return {ShownAs::error, before, {}};
  if (after == ":char") return {ShownAs::character, before, {}};
  for (const std::string_view one : {":x", ":x8", ":x16", ":x32", ":x64"})
    if (after == one) return {ShownAs::hexadecimal, before, after.substr(2)};
  return {ShownAs::as_it_is, value, {}};
}

std::vector<std::string_view> split_key(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  bool is_quoted = false;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '"') is_quoted = !is_quoted;
    if (c == '(' || c == '{') ++depth;
    if (c == ')' || c == '}') --depth;
    const bool ends = i == text.size() || (c == ',' && depth <= 0 && !is_quoted);
    if (!ends) continue;
    std::string_view part = text.substr(begin, i - begin);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

bool is_error_key(std::string_view part) {
  return part == "$errno" || split_form(part).form == ShownAs::error;
}

bool is_command_key(std::string_view part) {
  return part == "comm";
}

size_t end_of_value(std::string_view text) {
  if (text.starts_with('"')) return end_of_quotes(text);
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')') --depth;
    if (text[i] == ' ' && depth <= 0) return i;
  }
  return text.size();
}

std::string_view without_event(std::string_view spec) {
  return split_event(spec).value;
}

Spec split_spec(std::string_view text) {
  constexpr std::string_view kIf = " if";
  Spec spec;
  const GivenName given = split_event(text);
  spec.event = given.name;
  text = given.value;
  size_t end_of_rest = text.size();
  for (size_t at = text.find(kIf); at != text.npos; at = text.find(kIf, at + 1)) {
    if (is_quoted(text, at)) continue;
    const std::string_view after = text.substr(at + kIf.size());
    if (!after.empty() && after.front() != ' ' && after.front() != '(') continue;
    spec.condition = trim(after);
    end_of_rest = at;
    break;
  }
  const std::string_view rest = trim(text.substr(0, end_of_rest));
  size_t at = rest.size();
  for (size_t end = at; end > 0;) {
    const std::string_view before = trim(rest.substr(0, end));
    const size_t word = last_word(before);
    if (word == 0) break;
    const std::string_view last = before.substr(word);
    if (!starts_like_value(last) && !is_named_value(last, trim(before.substr(0, word)))) break;
    at = end = word;
  }
  spec.point = trim(rest.substr(0, at));
  spec.value = trim(rest.substr(at));
  spec.at_return = spec.point.ends_with(kReturnMark);
  if (spec.at_return)
    spec.point = trim(spec.point.substr(0, spec.point.size() - kReturnMark.size()));
  return spec;
}

}  // namespace pinprick::select
