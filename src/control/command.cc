#include "control/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "layout/recorded_file.h"

namespace pinprick::control {
namespace {

struct VerbWord {
  std::string_view word;
  Verb verb;
};
constexpr std::array kVerbs = {
    VerbWord{"trace", Verb::trace}, VerbWord{"remove", Verb::remove},
    VerbWord{"start", Verb::start}, VerbWord{"stop", Verb::stop},
    VerbWord{"reset", Verb::reset}, VerbWord{"list", Verb::list},
    VerbWord{"show", Verb::show},
};

struct GapWord {
  std::string_view word;
  Gap gap;
};
constexpr std::array kGaps = {GapWord{"cpu", Gap::cpu}, GapWord{"thread", Gap::thread},
                              GapWord{"none", Gap::none}};

Failure<ControlError> invalid(std::string reason) {
  return fail(ControlError{EINVAL, std::move(reason)});
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_keyword(std::string_view word, std::string_view keyword) {
  return std::equal(word.begin(), word.end(), keyword.begin(), keyword.end(),
                    [](char a, char b) { return lower(a) == b; });
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

bool is_quote(char c) {
  return c == '\'' || c == '"';
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), is_control);
}

// A word of the user's as it can stand in a message of one line.
std::string quoted(std::string_view word) {
  constexpr size_t kLongest = 64;
  std::string text = "'";
  for (char c : word.substr(0, kLongest)) text += is_control(c) ? '?' : c;
  return text + (word.size() > kLongest ? "...'" : "'");
}

// A word of the user's as split_words() reads it.
std::string as_word(std::string_view word) {
  const auto special = [](char c) { return is_blank(c) || is_quote(c); };
  if (!word.empty() && std::none_of(word.begin(), word.end(), special)) return std::string(word);
  std::string text = "'";
  for (char c : word) {
    if (c == '\'')
      text += R"('"'"')";
    else
      text += c;
  }
  return text + "'";
}

// Why a statistic cannot have the name, to go after "cannot be the name of a statistic: "; empty if
// it can. It is a file's name, and one word in a list. The last check is that of the readers of
// session files: with a name that they refuse, nothing could take the statistic out again.
std::string_view why_no_name(std::string_view name) {
  if (name.starts_with(kGapPrefix)) return "GAP-S belongs to the statistic S";
  if (name.empty()) return "it is empty";
  if (name.size() > kMaxNameLength) return "it is longer than 63 bytes";
  if (name.find('/') != name.npos) return "it has a '/'; give the function after `start`";
  if (std::any_of(name.begin(), name.end(), is_blank))
    return "it has a blank; give the function after `start`";
  if (name == "." || name == "..") return "folders have that name";
  if (name == kControlFile) return "the file for commands has that name";
  if (!layout::is_statistic_name(name)) return "it has a control character";
  return {};
}

Result<void, ControlError> check_name(Verb verb, std::string_view name) {
  const bool of_gap = name.starts_with(kGapPrefix);
  if (of_gap && verb == Verb::remove)
    return invalid(fmt::format("{} is not removed alone: it goes with its statistic, {}",
                               quoted(name), quoted(name.substr(kGapPrefix.size()))));
  const bool means_gaps = of_gap && verb != Verb::trace;
  const std::string_view why = why_no_name(means_gaps ? name.substr(kGapPrefix.size()) : name);
  if (why.empty()) return {};
  return invalid(fmt::format("{} cannot be the name of a statistic: {}", quoted(name), why));
}

Result<std::string, ControlError> parse_point(std::string_view keyword, const std::string& word) {
  if (word.empty()) return invalid(fmt::format("the function after `{}` is empty", keyword));
  if (has_control(word))
    return invalid(fmt::format("the function after `{}` has a control character", keyword));
  return word;
}

// As the kernel reads numbers: 0x2 and 02 are 2, and so is +2.
Result<unsigned, ControlError> parse_bits(const std::string& word) {
  static_assert(stats::kMinFractionBits == 0);
  std::string_view digits = word;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && lower(digits[1]) == 'x') {
    base = 16;
    digits.remove_prefix(2);
  } else if (digits.starts_with('0')) {
    base = 8;
  }
  unsigned bits = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), bits, base);
  if (error == std::errc() && end == digits.data() + digits.size() &&
      bits <= stats::kMaxFractionBits)
    return bits;
  return invalid(fmt::format("bits are a number from {} to {}, not {}", stats::kMinFractionBits,
                             stats::kMaxFractionBits, quoted(word)));
}

Result<Gap, ControlError> parse_gap(const std::string& word) {
  for (const GapWord& one : kGaps)
    if (is_keyword(word, one.word)) return one.gap;
  return invalid(fmt::format("gap is cpu, thread or none, not {}", quoted(word)));
}

// The words after the name come in pairs, in any order.
class TraceOptions {
 public:
  explicit TraceOptions(Command& command) : command_(command) {}

  Result<void, ControlError> take(const std::string& word, const std::string* value) {
    constexpr std::array<std::string_view, 4> kKeywords = {"bits", "start", "end", "gap"};
    const auto* keyword = std::find_if(kKeywords.begin(), kKeywords.end(),
                                       [&](std::string_view one) { return is_keyword(word, one); });
    if (keyword == kKeywords.end())
      return invalid(fmt::format("{} is not bits, start, end, gap or if", quoted(word)));
    bool& taken = taken_[static_cast<size_t>(keyword - kKeywords.begin())];
    if (taken) return invalid(fmt::format("`{}` is there twice", *keyword));
    taken = true;
    if (value == nullptr) return invalid(fmt::format("nothing follows `{}`", *keyword));
    if (*keyword == "bits") return set(command_.bits, parse_bits(*value));
    if (*keyword == "start") return set(command_.start, parse_point(*keyword, *value));
    if (*keyword == "end") return set(command_.end, parse_point(*keyword, *value));
    return set(command_.gap, parse_gap(*value));
  }

 private:
  template <class To, class From>
  static Result<void, ControlError> set(To& to, Result<From, ControlError> parsed) {
    if (!parsed) return fail(parsed.error());
    to = *std::move(parsed);
    return {};
  }

  Command& command_;
  std::array<bool, 4> taken_ = {};
};

// A condition and the word `if` before it.
std::string joined(std::span<const std::string> words) {
  std::string text = "if";
  for (const std::string& word : words.subspan(1)) text += " " + word;
  return text;
}

std::optional<Verb> verb_of(std::string_view word) {
  for (const VerbWord& one : kVerbs)
    if (is_keyword(word, one.word)) return one.verb;
  return std::nullopt;
}

}  // namespace

std::string error_name(int number) {
  const char* name = ::strerrorname_np(number);
  return name != nullptr ? name : fmt::format("errno {}", number);
}

Result<std::vector<std::string>, ControlError> split_words(std::string_view line) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (char c : line) {
    if (quote == 0 && is_blank(c)) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (quote == 0 && is_quote(c))
      quote = c;
    else if (c == quote)
      quote = 0;
    else
      words.back() += c;
  }
  if (quote != 0) return invalid(fmt::format("a quote ({}) is not closed", quote));
  return words;
}

Result<Command, ControlError> parse_command(std::span<const std::string> words) {
  if (words.empty()) return invalid("there is no command");
  const auto condition = std::find_if(
      words.begin(), words.end(), [](const std::string& word) { return is_keyword(word, "if"); });
  if (static_cast<size_t>(condition - words.begin()) > kMaxWords)
    return invalid(fmt::format("there are more than {} words", kMaxWords));
  const auto verb = verb_of(words[0]);
  if (!verb)
    return invalid(
        fmt::format("{} is not trace, remove, start, stop, reset, list or show", quoted(words[0])));
  Command command;
  command.verb = *verb;
  if (*verb == Verb::show && words.size() == 1) return command;
  if (*verb != Verb::list) {
    if (words.size() == 1) return invalid(fmt::format("{} needs a name", quoted(words[0])));
    if (auto checked = check_name(*verb, words[1]); !checked) return fail(checked.error());
    command.name = words[1];
  }
  const size_t used = *verb == Verb::list ? 1 : 2;
  if (*verb != Verb::trace) {
    if (words.size() > used)
      return invalid(
          fmt::format("{} is one word too many after {}", quoted(words[used]), quoted(words[0])));
    return command;
  }
  command.start = command.name;
  TraceOptions options(command);
  size_t next = used;
  for (; next < words.size() && !is_keyword(words[next], "if"); next += 2) {
    const std::string* value = next + 1 < words.size() ? &words[next + 1] : nullptr;
    if (auto taken = options.take(words[next], value); !taken) return fail(taken.error());
  }
  if (next < words.size()) {
    const std::string last = joined(words.subspan(next));
    if (has_control(last)) return invalid("the condition after `if` has a control character");
    command.start += " " + last;
  }
  return command;
}

Result<Command, ControlError> parse_command(std::string_view line) {
  const auto words = split_words(line);
  if (!words) return fail(words.error());
  return parse_command(*words);
}

Result<Command, ControlError> parse_state(std::string_view line, std::string_view name) {
  const auto words = split_words(line);
  if (!words) return fail(words.error());
  const auto verb = words->size() == 1 ? verb_of(words->front()) : std::nullopt;
  if (verb != Verb::start && verb != Verb::stop && verb != Verb::reset)
    return invalid("a statistic's file takes START, STOP or RESET");
  Command command;
  command.verb = *verb;
  command.name = name;
  return command;
}

std::string to_text(const Command& command) {
  const auto* verb = std::find_if(kVerbs.begin(), kVerbs.end(),
                                  [&](const VerbWord& one) { return one.verb == command.verb; });
  std::string text(verb->word);
  if (!command.name.empty()) text += " " + as_word(command.name);
  if (command.verb != Verb::trace) return text;
  if (command.bits != stats::kDefaultFractionBits) text += fmt::format(" bits {}", command.bits);
  if (command.start != command.name) text += " start " + as_word(command.start);
  if (command.end) text += " end " + as_word(*command.end);
  const auto* gap = std::find_if(kGaps.begin(), kGaps.end(),
                                 [&](const GapWord& one) { return one.gap == command.gap; });
  if (command.gap != Gap::cpu) text += fmt::format(" gap {}", gap->word);
  return text;
}

}  // namespace pinprick::control
