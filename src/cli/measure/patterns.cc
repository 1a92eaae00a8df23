#include "cli/measure/patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/fd.h"
#include "cli/measure/limits.h"
#include "cli/messages/verb_messages.h"
#include "cli/render/ftrace.h"
#include "select/span.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

// Splits off the first word.
std::pair<std::string_view, std::string_view> split_word(std::string_view text) {
  const size_t end = std::min(text.find_first_of(kBlanks), text.size());
  return {text.substr(0, end), trimmed(text.substr(end))};
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  });
}

// All patterns of a verb other than `measure` are of one kind.
placement::Kind kind_of(const Options& options) {
  if (options.verb == "hist") return placement::Kind::value;
  if (options.verb == "trace" || options.verb == "report" || options.verb == "leaks" ||
      options.verb == "locks")
    return placement::Kind::event;
  if (options.verb != "latency" && options.verb != "top") return placement::Kind::count;
  return means_spans(options) ? placement::Kind::span : placement::Kind::latency;
}

// Texts with one name and of one kind are one measure with several patterns.
std::vector<session::MeasureSpec> measures_of(const Options& options) {
  if (options.verb != "measure") return {{{}, kind_of(options), options.patterns}};
  std::vector<session::MeasureSpec> all;
  for (const std::string& text : options.patterns) {
    auto one = parse_measure(text, options.regex);
    if (!one) continue;  // was refused when the command line was parsed
    const auto same = std::find_if(all.begin(), all.end(), [&](const auto& other) {
      return other.name == one->name && other.kind == one->kind;
    });
    if (same == all.end())
      all.push_back(*std::move(one));
    else
      same->wanted.push_back(one->wanted.front());
  }
  return all;
}

bool has(const Options& options, placement::Kind kind) {
  const auto all = measures_of(options);
  return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.kind == kind; });
}

}  // namespace

Result<void, Message> append_lines(const std::string& path, std::vector<std::string>& lines) {
  const auto text = read_file(path);
  if (!text) return fail(cannot_read(path, text.error().number));
  std::istringstream all(*text);
  for (std::string line; std::getline(all, line);)
    if (const auto content = trimmed(line); !content.empty() && content.front() != '#')
      lines.emplace_back(content);
  return {};
}

std::optional<session::MeasureSpec> parse_measure(std::string_view text, bool is_regex) {
  using placement::Kind;
  text = trimmed(text);
  std::string name(text);
  auto [word, rest] = split_word(text);
  if (const size_t equals = text.find('=');
      equals != std::string_view::npos && is_name(trimmed(text.substr(0, equals)))) {
    name = trimmed(text.substr(0, equals));
    std::tie(word, rest) = split_word(trimmed(text.substr(equals + 1)));
  }
  if (rest.empty()) return std::nullopt;
  session::MeasureSpec measure = {std::move(name), Kind::count, {std::string(rest)}};
  if (word == "hist")
    measure.kind = Kind::value;
  else if (word == "latency")
    measure.kind = !is_regex && select::is_span(rest) ? Kind::span : Kind::latency;
  else if (word != "count")
    return std::nullopt;
  return measure;
}

bool means_spans(const Options& options) {
  if (options.verb == "measure") return has(options, placement::Kind::span);
  return (options.verb == "latency" || options.verb == "top") && !options.regex &&
         std::any_of(options.patterns.begin(), options.patterns.end(), select::is_span);
}

bool means_points(const Options& options) {
  return !options.patterns.empty() &&
         std::all_of(options.patterns.begin(), options.patterns.end(),
                     [](const std::string& text) { return text.starts_with("usdt:"); });
}

bool records_more_than_hits(const Options& options) {
  const auto all = measures_of(options);
  return std::any_of(all.begin(), all.end(),
                     [](const auto& one) { return one.kind != placement::Kind::count; });
}

bool times_calls(const Options& options) {
  const auto all = measures_of(options);
  return std::any_of(all.begin(), all.end(), [](const auto& one) {
    return one.kind == placement::Kind::latency ||
           std::any_of(one.wanted.begin(), one.wanted.end(),
                       [](const std::string& text) { return select::split_spec(text).at_return; });
  });
}

static bool is_of_return(std::string_view text) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{"$retval", "$latency", "@ret"},
                             [&](std::string_view word) { return text.find(word) != text.npos; });
}

// Returns the name that the user gave the event, as it stands before the point.
static std::string named(const select::Spec& spec) {
  return spec.event.empty() ? "" : std::string(spec.event) + " = ";
}

// A point whose values or condition are of the return is one of the return.
static std::string point_of_until(const std::string& text) {
  const select::Spec spec = select::split_spec(text);
  if (spec.at_return || !(is_of_return(spec.value) || is_of_return(spec.condition.value_or(""))))
    return text;
  std::string all = fmt::format("{}{}{}", named(spec), spec.point, select::kReturnMark);
  if (!spec.value.empty()) all += fmt::format(" {}", spec.value);
  if (spec.condition) all += fmt::format(" if {}", *spec.condition);
  return all;
}

// A tree has an event at the entry of each function, with all values but those of the return, and
// one at its return with these. Points, and places within functions, have one.
static Result<std::vector<std::string>, Message> events_of_tree(
    const std::vector<std::string>& texts, image::PatternSyntax syntax) {
  std::vector<std::string> all;
  for (const std::string& text : texts) {
    const select::Spec spec = select::split_spec(text);
    const auto pattern = image::Pattern::parse(spec.point, syntax);
    if (!pattern || pattern->names_points() || pattern->names_source() || pattern->offset() != 0) {
      all.push_back(text);
      continue;
    }
    if (spec.condition) {
      const auto condition =
          select::parse_expression(*spec.condition, select::Arguments::of_return);
      if (is_of_return(*spec.condition) || (condition && select::has_register(*condition)))
        return fail(condition_of_tree(text));
    }
    const std::string point = named(spec) + std::string(spec.point);
    std::string entry = point, ret = point + std::string(select::kReturnMark);
    for (std::string_view rest = spec.value; !rest.empty();) {
      const size_t end = select::end_of_value(rest);
      const std::string_view value = rest.substr(0, end);
      (is_of_return(value) ? ret : entry) += " " + std::string(value);
      rest.remove_prefix(std::min(rest.find_first_not_of(' ', end), rest.size()));
    }
    for (std::string* const one : {&entry, &ret}) {
      if (spec.condition) *one += " if " + std::string(*spec.condition);
      all.push_back(*one);
    }
  }
  return all;
}

// Returns the point of --until that --exclude leaves out. Malformed patterns are reported later.
static std::optional<std::string> first_excluded(const session::SelectionSpec& spec) {
  for (const std::string& text : spec.until) {
    const auto point = image::Pattern::parse(select::split_spec(text).point, spec.syntax);
    if (!point || point->names_points() || point->names_source()) continue;
    for (const std::string& excluded : spec.excluded)
      if (const auto pattern = image::Pattern::parse(excluded, spec.syntax);
          pattern && pattern->matches_function(point->function()))
        return text;
  }
  return std::nullopt;
}

// Events of a return tell where it leads, too, if that is to be shown.
static std::string with_return_address(const std::string& text) {
  const select::Spec spec = select::split_spec(text);
  if (!spec.at_return) return text;
  const std::string all =
      named(spec) + fmt::format("{}{} {} {}=$caller", spec.point, select::kReturnMark, spec.value,
                                FtraceRenderer::kReturnsTo);
  return spec.condition ? fmt::format("{} if {}", all, *spec.condition) : all;
}

// Events of the function tracer tell who called.
static std::string with_caller(const std::string& text) {
  const select::Spec spec = select::split_spec(text);
  const std::string all = fmt::format("{} {}=$caller:sym", spec.point, FtraceRenderer::kParent);
  return spec.condition ? fmt::format("{} if {}", all, *spec.condition) : all;
}

// Makes conditions of the limits of timed calls.
static Result<void, Message> apply_limits(const Options& options,
                                          std::vector<session::MeasureSpec>& measures) {
  for (session::MeasureSpec& measure : measures)
    for (std::string& text : measure.wanted) {
      const bool is_timed = measure.kind == placement::Kind::latency ||
                            measure.kind == placement::Kind::span ||
                            measure.kind == placement::Kind::event;
      const bool has_own = options.verb == "measure" && has_limits(text);
      if (!is_timed && has_own) return fail(limit_of_what_is_not_timed(text));
      if (!is_timed || (options.limits.empty() && !has_own)) continue;
      // Spans of events are compared when they are printed.
      if (measure.kind == placement::Kind::event && !options.regex && select::is_span(text))
        continue;
      auto limited = with_limits(text, options.limits);
      if (!limited) return fail(limited.error());
      text = *std::move(limited);
    }
  return {};
}

Result<session::Selection, Message> parse_patterns(const Options& options,
                                                   const RewritePatterns& rewrite) {
  session::SelectionSpec spec;
  spec.measures = measures_of(options);
  if (options.tree) {
    auto events =
        events_of_tree(spec.measures.front().wanted,
                       options.regex ? image::PatternSyntax::regex : image::PatternSyntax::glob);
    if (!events) return fail(events.error());
    spec.measures.front().wanted = *std::move(events);
    spec.makes_tree = true;
  } else if (auto applied = apply_limits(options, spec.measures); !applied) {
    return fail(applied.error());
  }
  for (const std::string& text : options.until) spec.until.push_back(point_of_until(text));
  if (options.event_format == EventFormat::ftrace)
    for (auto* const texts : {&spec.measures.front().wanted, &spec.until})
      for (std::string& text : *texts) text = with_return_address(text);
  if (options.event_format == EventFormat::function)
    for (std::string& text : spec.measures.front().wanted) text = with_caller(text);
  if (rewrite) {
    for (session::MeasureSpec& measure : spec.measures) measure.wanted = rewrite(measure.wanted);
    if (!spec.until.empty()) spec.until = rewrite(spec.until);
  }
  spec.excluded = options.excluded;
  spec.key = options.key;
  spec.sum = options.sum;
  spec.keeps_extremes = options.figures_of_sums.has_extremes();
  spec.every = options.every;
  spec.tells_self_time = options.self_time;
  spec.functions = options.functions_traced;
  if (options.stack_frames != 0) spec.stack = fmt::format("$stack:{}", options.stack_frames);
  spec.tells_arguments = options.verb == "trace" && options.arguments;
  spec.limits = options.value_limits;
  for (const std::string& path : options.excluded_in)
    if (auto read = append_lines(path, spec.excluded); !read) return fail(read.error());
  if (options.regex) spec.syntax = image::PatternSyntax::regex;
  if (const auto left_out = first_excluded(spec)) return fail(until_is_excluded(*left_out));
  if (options.entry_sites) spec.sites = session::Sites::entry_sites;
  if (options.instructions) spec.sites = session::Sites::every_instruction;
  auto selection = session::parse_selection(spec);
  if (!selection) return fail(message(selection.error()));
  const auto& actions = selection->actions.all();
  if (options.budget != 0 && std::any_of(actions.begin(), actions.end(), [](const auto& action) {
        return !action.condition.empty();
      }))
    return fail(condition_with_budget());
  if (options.budget != 0 && selection->actions.follows_pointers())
    return fail(pointer_with_budget());
  return *std::move(selection);
}

}  // namespace pinprick::cli
