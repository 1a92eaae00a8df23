#include "cli/measure/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "cli/messages/verb_messages.h"
#include "select/expression.h"
#include "select/span.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

constexpr std::string_view kSlower = "--slower", kFaster = "--faster";

std::string_view without_blanks(std::string_view text) {
  while (text.ends_with(' ')) text.remove_suffix(1);
  while (text.starts_with(' ')) text.remove_prefix(1);
  return text;
}

size_t start_of_limits(std::string_view text) {
  return std::min(text.find(" --slower"), text.find(" --faster"));
}

// In the largest unit that leaves no fraction, as expressions have none.
std::string duration_text(uint64_t ns) {
  constexpr std::pair<uint64_t, const char*> kUnits[] = {
      {1'000'000'000, "s"}, {1'000'000, "ms"}, {1'000, "us"}};
  for (const auto& [factor, unit] : kUnits)
    if (ns != 0 && ns % factor == 0) return fmt::format("{}{}", ns / factor, unit);
  return fmt::format("{}ns", ns);
}

// Reads `--slower TIME`, or `--slower=TIME`, as often as it comes.
Result<void, Message> read_limits(std::string_view text, Limits& limits) {
  for (text = without_blanks(text); !text.empty();) {
    const bool is_slower = text.starts_with(kSlower);
    if (!is_slower && !text.starts_with(kFaster)) return fail(bad_limit(text));
    const std::string_view name = text.substr(0, kSlower.size());
    std::string_view rest = text.substr(kSlower.size());
    if (!rest.empty() && rest.front() != ' ' && rest.front() != '=') return fail(bad_limit(text));
    if (!rest.empty()) rest = without_blanks(rest.substr(1));
    const std::string_view word = rest.substr(0, rest.find(' '));
    const auto time = parse_time(word);
    if (!time) return fail(bad_time_of_limit(name, word));
    (is_slower ? limits.slower_ns : limits.faster_ns) = *time;
    text = without_blanks(rest.substr(word.size()));
  }
  return {};
}

}  // namespace

std::optional<uint64_t> parse_time(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
  constexpr double kMost = 1e18;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const auto* const known =
      std::ranges::find(kUnits, unit, &std::pair<std::string_view, double>::first);
  if (error != std::errc() || known == std::end(kUnits)) return std::nullopt;
  const double ns = value * known->second;
  if (!(ns >= 0 && ns <= kMost)) return std::nullopt;
  return static_cast<uint64_t>(std::llround(ns));
}

bool has_limits(std::string_view text) {
  return start_of_limits(text) != std::string_view::npos;
}

// At a return, arguments are what they were at the entry, so that what a condition says of them
// stays true. Registers are others then.
Result<std::string, Message> with_limits(std::string_view text, Limits limits) {
  const size_t start = start_of_limits(text);
  if (start != text.npos) {
    if (auto read = read_limits(text.substr(start), limits); !read) return fail(read.error());
    text = without_blanks(text.substr(0, start));
  }
  if (limits.empty()) return std::string(text);
  const select::Spec spec = select::split_spec(text);
  if (select::is_span(text)) return fail(limit_of_span(text));
  std::string condition;
  if (spec.condition) {
    const auto arguments =
        spec.at_return ? select::Arguments::of_return : select::Arguments::of_function;
    const auto expression = select::parse_expression(*spec.condition, arguments);
    if (!expression) return std::string(text);  // which says what is wrong
    if (!spec.at_return && select::has_register(*expression))
      return fail(limit_with_register(spec.point, *spec.condition));
    condition = spec.condition->find("||") == spec.condition->npos
                    ? std::string(*spec.condition)
                    : fmt::format("({})", *spec.condition);
  }
  const auto add = [&](std::string_view comparison, std::optional<uint64_t> ns) {
    if (ns)
      condition += fmt::format("{}$latency{}{}", condition.empty() ? "" : " && ", comparison,
                               duration_text(*ns));
  };
  add(">=", limits.slower_ns);
  add("<=", limits.faster_ns);
  return fmt::format("{}{}{}{}{}{} if {}", spec.event, spec.event.empty() ? "" : " = ", spec.point,
                     select::kReturnMark, spec.value.empty() ? "" : " ", spec.value, condition);
}

}  // namespace pinprick::cli
