#include "select/format.h"

#include <utility>

namespace pinprick::select {
namespace {

// Returns where the text of an expression ends that starts at `at`, with its closing quote.
size_t end_of_text(std::string_view expression, size_t at) {
  for (++at; at < expression.size() && expression[at] != '"'; ++at)
    if (expression[at] == '\\') ++at;
  return at;
}

// Returns where the brace closes that is open before `at`; npos if it does not. Values may have
// texts and sets in them.
size_t end_of_brace(std::string_view text, size_t at) {
  int depth = 1;
  for (; at < text.size(); ++at) {
    if (text[at] == '"') {
      at = end_of_text(text, at);
    } else if (text[at] == '{') {
      ++depth;
    } else if (text[at] == '}' && --depth == 0) {
      return at;
    }
  }
  return text.npos;
}

}  // namespace

size_t end_of_quotes(std::string_view text) {
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    } else if (text[i] == '{' && text.substr(i, 2) != "{{") {
      const size_t end = end_of_brace(text, i + 1);
      if (end == text.npos) return text.size();
      i = end;
    } else if (text[i] == '{') {
      ++i;
    }
  }
  return text.size();
}

Result<Format, FormatError> parse_format(std::string_view text) {
  using Cause = FormatError::Cause;
  Format format;
  std::string words;
  size_t i = 1;
  for (; i < text.size() && text[i] != '"'; ++i) {
    const std::string_view two = text.substr(i, 2);
    if (two == "{{" || two == "}}") {
      words += text[i++];
    } else if (text[i] == '}') {
      return fail(FormatError{Cause::stray, i});
    } else if (text[i] == '{') {
      const size_t end = end_of_brace(text, i + 1);
      if (end == text.npos) return fail(FormatError{Cause::no_brace, i});
      const std::string_view value = text.substr(i + 1, end - i - 1);
      if (value.find_first_not_of(' ') == value.npos) return fail(FormatError{Cause::no_value, i});
      format.parts.push_back({std::exchange(words, {}), value});
      i = end;
    } else if (text[i] == '\\') {
      constexpr std::pair<std::string_view, char> kEscapes[] = {
          {"\\\"", '"'}, {"\\\\", '\\'}, {"\\n", '\n'}, {"\\t", '\t'}};
      char character = 0;
      for (const auto& [escape, meaning] : kEscapes)
        if (two == escape) character = meaning;
      if (character == 0) return fail(FormatError{Cause::unknown, i});
      words += character;
      ++i;
    } else {
      words += text[i];
    }
  }
  if (i + 1 != text.size()) return fail(FormatError{Cause::no_end, 0});
  format.end = std::move(words);
  return format;
}

}  // namespace pinprick::select
