#include "image/pattern.h"

#include <fmt/format.h>
#include <regex.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "image/names/demangle.h"

namespace pinprick::image {

struct Pattern::Regex {
  regex_t compiled = {};
  bool ok = false;
  Regex() = default;
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;
  ~Regex() {
    if (ok) regfree(&compiled);
  }
};

namespace {

// Returns the first single colon: `a:b`, but not in `a::b` nor in brackets: `name[abi:cxx11]`,
// `{lambda(auto:1)#1}`, `[[:alpha:]]`.
size_t object_separator(std::string_view text) {
  const size_t bracket = std::min(text.find_first_of("([{<"), text.size());
  for (size_t i = 0; i < bracket; ++i) {
    if (text[i] != ':') continue;
    if (i + 1 < text.size() && text[i + 1] == ':')
      ++i;
    else
      return i;
  }
  return text.npos;
}

// Returns the @ of `@file:line` or `object:@file:line`.
size_t line_sign(std::string_view text) {
  if (text.starts_with('@')) return 0;
  const size_t colon = object_separator(text);
  return colon != text.npos && text.substr(colon + 1).starts_with('@') ? colon + 1 : text.npos;
}

bool parse_offset(std::string_view digits, uint64_t& offset) {
  const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
  if (hex) digits.remove_prefix(2);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), offset, hex ? 16 : 10);
  return !digits.empty() && error == std::errc{} && end == digits.data() + digits.size();
}

// 0x4*, 0x1???
bool is_glob_of_addresses(std::string_view text) {
  return text.starts_with("0x") && text.find_first_of("*?") != text.npos &&
         text.find_first_not_of("0123456789abcdef*?", 2) == text.npos;
}

// Returns a text that every mangled name has whose demangled form matches the glob; empty if none
// is known. Demangling takes most of the time of matching, and few names have it. A name's last
// component is written out in the mangled name, with its length before it, except for the
// abbreviated ones of the C++ ABI (5.1.10: Sa to Sd, and St).
std::string_view in_mangled(std::string_view glob) {
  constexpr std::string_view kIdentifier =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  constexpr std::array<std::string_view, 9> kAbbreviated = {
      "allocator",      "basic_string", "string",  "basic_istream", "basic_ostream",
      "basic_iostream", "istream",      "ostream", "iostream"};
  const size_t before = glob.find_last_not_of(kIdentifier);
  std::string_view last = glob;
  if (before != glob.npos) {
    if (before == 0 || glob[before] != ':' || glob[before - 1] != ':') return {};
    last.remove_prefix(before + 1);
  }
  const bool is_abbreviated =
      std::find(kAbbreviated.begin(), kAbbreviated.end(), last) != kAbbreviated.end();
  return is_abbreviated ? std::string_view() : last;
}

}  // namespace

std::string explanation(const PatternError& error) {
  switch (error.cause) {
    case PatternCause::empty:
      return "it names no function; write [object:]function, with * and ?";
    case PatternCause::bad_offset:
      return fmt::format("'{}' is not an offset; write +0x1f", error.detail);
    case PatternCause::bad_regex:
      return fmt::format("not a regular expression: {}", error.detail);
    case PatternCause::bad_line:
      return "write @FILE:LINE or @FILE:FIRST-LAST, such as @server.c:42";
    case PatternCause::inlined_offset:
      return "an inlined function has no offsets, as it is different code at each place";
    case PatternCause::bad_point:
      return "write usdt:[OBJECT:]PROVIDER:NAME or __tracepoint_NAME, with * and ? in each part";
    case PatternCause::point_regex:
      return "SDT points are named with * and ?; leave out -r";
    case PatternCause::not_implemented:
      return "static tracepoints cannot be probed by name yet";
  }
  return "unknown cause";
}

bool glob_matches(std::string_view glob, std::string_view text) {
  size_t g = 0, t = 0, star = glob.npos, resume = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      resume = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star != glob.npos) {
      g = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

namespace {

// Returns libc-2.31 for libc-2.31.so.
std::string_view before_suffix(std::string_view file_name) {
  const size_t at = file_name.find(".so");
  const bool is_library =
      at != file_name.npos && at != 0 && (at + 3 == file_name.size() || file_name[at + 3] == '.');
  return is_library ? file_name.substr(0, at) : file_name;
}

}  // namespace

std::string_view without_version(std::string_view file_name) {
  constexpr std::string_view kDigits = "0123456789", kVersion = "0123456789.-";
  const std::string_view name = before_suffix(file_name);
  if (name == file_name) return name;
  const size_t last = name.find_last_not_of(kVersion);
  const size_t dash = last == name.npos ? last : name.find('-', last);
  if (dash == name.npos || dash + 1 == name.size() || kDigits.find(name[dash + 1]) == kDigits.npos)
    return name;
  // In ld-linux-x86-64 it is part of a word.
  const bool ends_a_word = dash == last + 1 || name.find('.', dash) != name.npos;
  return ends_a_word ? name.substr(0, dash) : name;
}

bool is_library(std::string_view file_name, std::string_view library) {
  return before_suffix(file_name) != file_name && without_version(file_name) == library;
}

Result<Pattern, PatternError> Pattern::parse(std::string_view text, PatternSyntax syntax) {
  const auto bad = [&](PatternCause cause, std::string detail = {}) {
    return fail(PatternError{cause, std::string(text), std::move(detail)});
  };
  Pattern pattern;
  pattern.text_ = text;
  std::string_view rest = text;
  if (const size_t sign = syntax == PatternSyntax::glob ? line_sign(text) : text.npos;
      sign != text.npos) {
    pattern.object_ = text.substr(0, sign == 0 ? 0 : sign - 1);
    if (!pattern.parse_lines(text.substr(sign + 1))) return bad(PatternCause::bad_line);
    return pattern;
  }
  if (const size_t colon = object_separator(rest); colon != rest.npos) {
    pattern.object_ = rest.substr(0, colon);
    rest.remove_prefix(colon + 1);
    if (pattern.object_.empty()) return bad(PatternCause::empty);
    if (pattern.object_ == "point") return bad(PatternCause::not_implemented);
    if (pattern.object_ == "usdt") {
      if (syntax == PatternSyntax::regex) return bad(PatternCause::point_regex);
      if (auto parsed = pattern.parse_point(rest); !parsed) return bad(parsed.error());
      return pattern;
    }
  }
  pattern.inlined_ = rest.ends_with(kInlineMark);
  if (pattern.inlined_) rest.remove_suffix(kInlineMark.size());
  if (rest.empty()) return bad(PatternCause::empty);

  if (syntax == PatternSyntax::regex) {
    pattern.function_ = rest;
    // First as written: in parentheses, `a)(b` would mean something else.
    for (const std::string& form : {pattern.function_, "^(" + pattern.function_ + ")$"}) {
      pattern.regex_ = std::make_shared<Regex>();
      const int error = regcomp(&pattern.regex_->compiled, form.c_str(), REG_EXTENDED | REG_NOSUB);
      pattern.regex_->ok = error == 0;
      if (error == 0) continue;
      char message[128];
      regerror(error, &pattern.regex_->compiled, message, sizeof message);
      return bad(PatternCause::bad_regex, message);
    }
    return pattern;
  }

  // There is a function of such a name in few programs: a callback that LTTng generates.
  if (rest.starts_with(kTracepoint) && !pattern.inlined_) {
    pattern.is_tracepoint_ = true;
    pattern.provider_ = "*";
    pattern.function_ = rest.substr(kTracepoint.size());
    if (pattern.function_.empty()) return bad(PatternCause::bad_point);
    return pattern;
  }

  // The + of `operator+` does not start an offset, nor does any that is not followed by a digit.
  if (const size_t plus = rest.rfind('+');
      plus != rest.npos && plus != 0 && plus + 1 < rest.size() && rest[plus + 1] >= '0' &&
      rest[plus + 1] <= '9' && !is_glob_of_addresses(rest.substr(plus + 1))) {
    if (!parse_offset(rest.substr(plus + 1), pattern.offset_))
      return bad(PatternCause::bad_offset, std::string(rest.substr(plus + 1)));
    pattern.has_offset_ = true;
    rest = rest.substr(0, plus);
    if (pattern.inlined_ || rest.ends_with(kInlineMark)) return bad(PatternCause::inlined_offset);
  }
  pattern.function_ = rest;
  pattern.in_mangled_ = in_mangled(rest);
  return pattern;
}

// `rest` is FILE:LINE or FILE:FIRST-LAST.
bool Pattern::parse_lines(std::string_view rest) {
  const size_t colon = rest.rfind(':');
  if (colon == rest.npos || colon == 0) return false;
  lines_.file = rest.substr(0, colon);
  const char* const end = rest.data() + rest.size();
  auto read = std::from_chars(rest.data() + colon + 1, end, lines_.first);
  lines_.last = lines_.first;
  if (read.ec == std::errc{} && read.ptr != end && *read.ptr == '-')
    read = std::from_chars(read.ptr + 1, end, lines_.last);
  return read.ec == std::errc{} && read.ptr == end && lines_.first != 0 &&
         lines_.last >= lines_.first;
}

Result<void, PatternCause> Pattern::parse_point(std::string_view rest) {
  std::vector<std::string> parts;
  while (true) {
    const size_t colon = rest.find(':');
    parts.emplace_back(rest.substr(0, colon));
    if (parts.back().empty()) return fail(PatternCause::bad_point);
    if (colon == rest.npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (parts.size() > 3) return fail(PatternCause::bad_point);
  if (parts.size() == 1) parts.emplace_back("*");
  function_ = parts.back();
  provider_ = parts[parts.size() - 2];
  object_ = parts.size() == 3 ? parts.front() : "";
  return {};
}

bool Pattern::has_wildcard() const {
  if (names_lines()) return lines_.first != lines_.last;
  if (!is_tracepoint_ && provider_.find_first_of("*?") != provider_.npos) return true;
  return function_.find_first_of(regex_ ? ".[]()*+?{}|^$\\" : "*?") != function_.npos;
}

bool Pattern::may_name_address() const {
  return has_offset_ || function_.find("0x") != function_.npos;
}

bool Pattern::means_part(bool has_symbol) const {
  if (with_parts_) return true;
  if (!has_symbol) return !has_wildcard();
  return function_.find(".cold") != function_.npos || function_.find(".warm") != function_.npos;
}

namespace {

bool matches_any(std::string_view glob, const std::vector<std::string>& objects) {
  return std::any_of(objects.begin(), objects.end(), [&](const std::string& name) {
    return glob_matches(glob, name) || glob_matches(glob, before_suffix(name)) ||
           glob_matches(glob, without_version(name));
  });
}

}  // namespace

bool Pattern::matches_object(const std::vector<std::string>& names) const {
  return object_.empty() || matches_any(object_, names);
}

bool Pattern::matches_address(const std::vector<std::string>& names, uint64_t address) const {
  if (names_inlined() || function_.find("0x") == function_.npos) return false;
  const std::string hex = fmt::format("{:#x}", address);
  return matches_text(hex) || std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return matches_text(fmt::format("{}+{}", name, hex)) ||
                  matches_text(fmt::format("{}+{}", without_version(name), hex));
         });
}

bool Pattern::has_address_in(const std::vector<std::string>& names) const {
  return has_offset_ && !names_points() && matches_any(function_, names);
}

bool Pattern::matches_text(std::string_view text) const {
  if (!regex_) return glob_matches(function_, text);
  return regexec(&regex_->compiled, std::string(text).c_str(), 0, nullptr, 0) == 0;
}

bool Pattern::matches_point(std::string_view provider, std::string_view name) const {
  if (!names_points()) return false;
  if (is_tracepoint_ && glob_matches(function_, fmt::format("{}__{}", provider, name))) return true;
  return glob_matches(provider_, provider) && glob_matches(function_, name);
}

bool Pattern::matches_function(std::string_view name, Copies copies) const {
  return !names_points() && !names_source() && matches_name(name, copies);
}

bool Pattern::matches_inlined(std::string_view name) const {
  return names_inlined() && matches_name(name, Copies::of_function);
}

bool Pattern::matches_name(std::string_view name, Copies copies) const {
  if (matches_text(name)) return true;
  // An offset is one of this very code.
  const bool takes_copies = copies == Copies::of_function && !has_offset_;
  if (!is_mangled(name)) {
    const auto function = takes_copies ? without_copy_suffix(name) : name;
    return function.size() != name.size() && matches_text(function);
  }
  if (name.find(in_mangled_) == name.npos) return false;
  const std::string demangled = demangle(name);
  if (matches_text(demangled)) return true;
  return (takes_copies || !is_of_copy(demangled)) && matches_text(without_signature(demangled));
}

}  // namespace pinprick::image
