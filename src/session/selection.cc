#include "session/selection.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "layout/runtime_data.h"
#include "select/spec.h"

namespace pinprick::session {
namespace {

using placement::Kind;

struct Parsed {
  Selection selection;
  uint32_t measure = 0;  // the one whose points are parsed
  std::vector<action::Action> actions;
  std::vector<uint32_t> by_pattern;
};

Result<action::Computed, SelectionError> computed(std::string_view text, BadExpression::Of of,
                                                  const image::Pattern& pattern, Sites sites) {
  auto expression = select::parse_expression(
      text, pattern.names_points() ? select::Arguments::of_point : select::Arguments::of_function);
  if (!expression)
    return fail(
        SelectionError(BadExpression{of, pattern.text(), std::string(text), expression.error()}));
  const bool is_at_entry = pattern.offset() == 0 && sites != Sites::every_instruction;
  if (!is_at_entry && !pattern.names_points() && select::has_argument(*expression))
    return fail(SelectionError(ArgumentAtOffset{of, pattern.text(), std::string(text)}));
  return action::Computed{*std::move(expression), std::string(text)};
}

// A value ends at a blank, unless that is in parentheses.
Result<action::Computed, SelectionError> recorded_value(std::string_view text,
                                                        const image::Pattern& pattern,
                                                        Sites sites) {
  if (text.empty()) return fail(SelectionError(BadValue{pattern.text(), {}}));
  if (const size_t end = select::end_of_value(text); end != text.size())
    return fail(SelectionError(
        BadValue{pattern.text(), std::string(text.substr(text.find_first_not_of(' ', end)))}));
  return computed(text, BadExpression::Of::value, pattern, sites);
}

// Adds the start and the end of each span to `points`.
Result<void, SelectionError> split_spans(const std::vector<std::string>& texts,
                                         std::vector<std::string>& points, Selection& selection) {
  for (const std::string& text : texts) {
    if (!select::is_span(text)) return fail(SelectionError(NoSpan{text}));
    if (select::split_spec(text).condition)
      return fail(SelectionError(NoCondition{NoCondition::Of::span, text}));
    const auto span = select::parse_span(text);
    if (!span) return fail(SelectionError(BadSpan{text, span.error()}));
    selection.spans.push_back({text, selection.wanted.size() + points.size()});
    points.emplace_back(span->start);
    points.emplace_back(span->end);
  }
  if (selection.spans.size() > layout::kMostSpans)
    return fail(SelectionError(TooManySpans{selection.spans.size(), layout::kMostSpans}));
  return {};
}

// Returns the number of the action, which other patterns may have, too.
uint32_t number_of(action::Action action, std::vector<action::Action>& all) {
  const auto same = std::find_if(all.begin(), all.end(), [&](const action::Action& other) {
    // One text means other places at an SDT point than in a function.
    return other.measure == action.measure && other.value.text == action.value.text &&
           other.value.expression == action.value.expression && other.sum.text == action.sum.text &&
           other.sum.expression == action.sum.expression &&
           other.condition.text == action.condition.text &&
           other.condition.expression == action.condition.expression;
  });
  const auto number = static_cast<uint32_t>(same - all.begin());
  if (same == all.end()) all.push_back(std::move(action));
  return number;
}

Result<void, SelectionError> add_point(const SelectionSpec& spec, Kind kind, std::string_view text,
                                       Parsed& parsed) {
  const select::Spec parts = select::split_spec(text);
  auto pattern = image::Pattern::parse(parts.point, spec.syntax);
  if (!pattern) return fail(SelectionError(pattern.error()));
  action::Action action = {.kind = kind, .measure = parsed.measure};
  if (kind == Kind::value) {
    auto value = recorded_value(parts.value, *pattern, spec.sites);
    if (!value) return fail(value.error());
    action.value = *std::move(value);
  } else if (!parts.value.empty()) {
    return fail(SelectionError(UnusedValue{pattern->text(), std::string(parts.value)}));
  } else if (kind == Kind::count && !spec.key.empty()) {
    auto key = computed(spec.key, BadExpression::Of::key, *pattern, spec.sites);
    if (!key) return fail(key.error());
    action.value = *std::move(key);
  }
  if (kind == Kind::count && !spec.sum.empty()) {
    auto sum = computed(spec.sum, BadExpression::Of::sum, *pattern, spec.sites);
    if (!sum) return fail(sum.error());
    action.sum = *std::move(sum);
  }
  if (parts.condition) {
    auto condition = computed(*parts.condition, BadExpression::Of::condition, *pattern, spec.sites);
    if (!condition) return fail(condition.error());
    action.condition = *std::move(condition);
  }
  // A function's instructions may lie in its parts, too.
  if (spec.sites != Sites::every_instruction) pattern->leave_out_parts();
  if (spec.sites == Sites::entry_sites) pattern->mean_entry_sites();
  parsed.selection.wanted.push_back(*std::move(pattern));
  parsed.by_pattern.push_back(number_of(std::move(action), parsed.actions));
  return {};
}

Result<void, SelectionError> add_measure(const SelectionSpec& spec, const MeasureSpec& measure,
                                         Parsed& parsed) {
  Selection& selection = parsed.selection;
  std::vector<std::string> points;
  parsed.measure = static_cast<uint32_t>(selection.measures.size());
  const size_t first = selection.wanted.size();
  if (measure.kind == Kind::span)
    if (auto added = split_spans(measure.wanted, points, selection); !added) return added;
  for (const std::string& text : measure.kind == Kind::span ? points : measure.wanted)
    if (auto added = add_point(spec, measure.kind, text, parsed); !added) return added;
  selection.measures.push_back({measure.name, measure.kind, first, selection.wanted.size()});
  return {};
}

}  // namespace

bool Selection::has(Kind kind) const {
  return std::any_of(measures.begin(), measures.end(),
                     [&](const Measure& one) { return one.kind == kind; });
}

bool Selection::has_others_than(Kind kind) const {
  return std::any_of(measures.begin(), measures.end(),
                     [&](const Measure& one) { return one.kind != kind; });
}

Kind Selection::kind() const {
  return measures.empty() ? Kind::count : measures.front().kind;
}

size_t Selection::measure_of(size_t pattern) const {
  size_t number = 0;
  while (number + 1 < measures.size() && measures[number].end <= pattern) ++number;
  return number;
}

Result<Selection, SelectionError> parse_selection(const SelectionSpec& spec) {
  Parsed parsed;
  parsed.selection.sites = spec.sites;
  for (const MeasureSpec& measure : spec.measures)
    if (auto added = add_measure(spec, measure, parsed); !added) return fail(added.error());
  Selection selection = std::move(parsed.selection);
  selection.actions = action::Actions(std::move(parsed.actions), std::move(parsed.by_pattern));
  for (const std::string& text : spec.excluded) {
    if (select::split_spec(text).condition)
      return fail(SelectionError(NoCondition{NoCondition::Of::excluded, text}));
    auto pattern = image::Pattern::parse(text, spec.syntax);
    if (!pattern) return fail(SelectionError(pattern.error()));
    selection.excluded.push_back(*std::move(pattern));
  }
  return selection;
}

}  // namespace pinprick::session
