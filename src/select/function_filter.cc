#include "select/function_filter.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace pinprick::select {
namespace {

constexpr std::string_view kBetweenFilters = " \t\r\n";
constexpr std::string_view kModule = ":mod:";

// As the kernel's filter_parse_regex: a * in the middle, or one of the others anywhere, makes it a
// glob, whatever was found before.
FilterPattern parse_pattern(std::string_view text) {
  using Is = FilterPattern::Type;
  FilterPattern pattern;
  if (text.starts_with('!')) {
    pattern.is_negated = true;
    text.remove_prefix(1);
  }
  pattern.text = text;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '*' && i == 0) {
      pattern.type = Is::end;
    } else if (text[i] == '*' && i + 1 == text.size()) {
      pattern.type = pattern.type == Is::end ? Is::middle : Is::front;
      pattern.text.pop_back();
    } else if (std::string_view("*[?\\").find(text[i]) != std::string_view::npos) {
      pattern.type = Is::glob;
      return pattern;
    }
  }
  if (text.starts_with('*')) pattern.text.erase(0, 1);
  return pattern;
}

// Returns whether the character is in the class whose first character, after the [, is at `at`, and
// moves `at` to the character after its ]. Without a ], `is_class` becomes false: the [ stands for
// itself.
bool in_class(std::string_view glob, size_t& at, char sought, bool& is_class) {
  const auto c = static_cast<unsigned char>(sought);
  size_t i = at;
  const bool is_inverted = i < glob.size() && glob[i] == '!';
  if (is_inverted) ++i;
  bool is_in = false, is_first = true;
  is_class = false;
  while (i < glob.size() && (is_first || glob[i] != ']')) {
    is_first = false;
    const auto low = static_cast<unsigned char>(glob[i++]);
    auto high = low;
    if (i + 1 < glob.size() && glob[i] == '-' && glob[i + 1] != ']') {
      high = static_cast<unsigned char>(glob[i + 1]);
      i += 2;
    }
    is_in = is_in || (low <= c && c <= high);
  }
  if (i >= glob.size()) return false;
  is_class = true;
  at = i + 1;
  return is_in != is_inverted;
}

// As the kernel's glob_match. After a mismatch, the last * takes one character more.
bool glob_matches(std::string_view glob, std::string_view text) {
  size_t at = 0, here = 0;
  size_t after_star = std::string_view::npos, retry = 0;
  while (here < text.size() || at < glob.size()) {
    if (at < glob.size() && glob[at] == '*') {
      after_star = ++at;
      retry = here;
      continue;
    }
    bool fits = false;
    if (at < glob.size() && here < text.size()) {
      size_t next = at + 1;
      bool is_class = false;
      if (glob[at] == '?') {
        fits = true;
      } else if (glob[at] == '[') {
        fits = in_class(glob, next, text[here], is_class);
        if (!is_class) fits = text[here] == '[';
      } else {
        if (glob[at] == '\\' && at + 1 < glob.size()) ++next;
        fits = text[here] == glob[next - 1];
      }
      if (fits) {
        at = next;
        ++here;
      }
    }
    if (fits) continue;
    if (after_star == std::string_view::npos || retry >= text.size()) return false;
    at = after_star;
    here = ++retry;
  }
  return true;
}

bool matches_any(const FilterPattern& pattern, const std::vector<std::string_view>& names) {
  return std::ranges::any_of(names, [&](std::string_view name) { return pattern.matches(name); });
}

// The program is to its libraries what the kernel is to its modules. It has a name, though.
bool is_in_module(const FilterPattern& module, const FilteredFunction& function) {
  if (module.is_blank()) return function.is_of_program == module.is_negated;
  return matches_any(module, function.objects) != module.is_negated;
}

Result<FunctionFilter, FilterError> parse_word(std::string_view word) {
  using Cause = FilterError::Cause;
  const auto wrong = [&](Cause cause) { return fail(FilterError{cause, std::string(word)}); };
  const size_t mark = word.find(kModule);
  FunctionFilter filter;
  filter.text = word;
  filter.function = parse_pattern(word.substr(0, mark));
  if (mark != std::string_view::npos) {
    filter.module = parse_pattern(word.substr(mark + kModule.size()));
    if (word.size() == mark + kModule.size() || word.ends_with(":!")) return wrong(Cause::module);
  }
  const std::string& name = filter.function.text;
  const char first =
      word.substr(filter.removes() ? 1 : 0, 1).empty() ? '\0' : word[filter.removes() ? 1 : 0];
  if (std::isdigit(static_cast<unsigned char>(first)) != 0) return wrong(Cause::number);
  // In C++, :: is a part of names.
  for (size_t colon = name.find(':'); colon != name.npos; colon = name.find(':', colon + 2))
    if (name.compare(colon, 2, "::") != 0) return wrong(Cause::command);
  return filter;
}

}  // namespace

bool FilterPattern::matches(std::string_view name) const {
  switch (type) {
    case Type::full:
      return text.empty() || name == text;
    case Type::front:
      return name.starts_with(text);
    case Type::middle:
      return name.find(text) != std::string_view::npos;
    case Type::end:
      return name.ends_with(text);
    case Type::glob:
      return glob_matches(text, name);
  }
  return false;
}

bool FunctionFilter::matches(const FilteredFunction& of) const {
  return (!module || is_in_module(*module, of)) && matches_any(function, of.names);
}

Result<std::vector<FunctionFilter>, FilterError> parse_function_filters(std::string_view text) {
  std::vector<FunctionFilter> filters;
  for (size_t begin = text.find_first_not_of(kBetweenFilters); begin != text.npos;) {
    const size_t end = std::min(text.find_first_of(kBetweenFilters, begin), text.size());
    auto filter = parse_word(text.substr(begin, end - begin));
    if (!filter) return fail(filter.error());
    filters.push_back(*std::move(filter));
    begin = text.find_first_not_of(kBetweenFilters, end);
  }
  return filters;
}

bool FunctionFilters::has_added() const {
  return std::ranges::any_of(filters_, [](const FunctionFilter& one) { return !one.removes(); });
}

bool FunctionFilters::contain(const FilteredFunction& function) const {
  if (!has_added())
    return default_ == Default::all || (default_ == Default::program && function.is_of_program);
  const auto last = std::find_if(filters_.rbegin(), filters_.rend(),
                                 [&](const FunctionFilter& one) { return one.matches(function); });
  return last != filters_.rend() && !last->removes();
}

}  // namespace pinprick::select
