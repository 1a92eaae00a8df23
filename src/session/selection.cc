#include "session/selection.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "layout/runtime_data.h"

namespace pinprick::session {
namespace {

using placement::Kind;

Result<placement::RecordedValue, SelectionError> recorded_value(std::string_view text,
                                                                const image::Pattern& pattern) {
  const auto value = select::parse_value(
      text, pattern.names_points() ? select::Arguments::of_point : select::Arguments::of_function);
  if (!value) return fail(SelectionError(BadValue{pattern.text(), value.error()}));
  if (value->argument != 0 && pattern.offset() != 0)
    return fail(SelectionError(ArgumentAtOffset{pattern.text(), std::string(text)}));
  return placement::RecordedValue{*value, std::string(text)};
}

// Adds the start and the end of each span to `points`.
Result<void, SelectionError> split_spans(const std::vector<std::string>& texts,
                                         std::vector<std::string>& points, Selection& selection) {
  for (const std::string& text : texts) {
    if (!select::is_span(text)) return fail(SelectionError(NoSpan{text}));
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

Result<void, SelectionError> add_measure(const SelectionSpec& spec, const MeasureSpec& measure,
                                         Selection& selection) {
  std::vector<std::string> points;
  const bool has_values = measure.kind == Kind::value;
  const size_t first = selection.wanted.size();
  if (measure.kind == Kind::span)
    if (auto added = split_spans(measure.wanted, points, selection); !added) return added;
  for (const std::string& text : measure.kind == Kind::span ? points : measure.wanted) {
    const auto parts = has_values ? select::split_spec(text) : select::PointAndValue{text, {}};
    auto pattern = image::Pattern::parse(parts.point, spec.syntax);
    if (!pattern) return fail(SelectionError(pattern.error()));
    selection.values.emplace_back();
    if (has_values) {
      auto value = recorded_value(parts.value, *pattern);
      if (!value) return fail(value.error());
      selection.values.back() = *std::move(value);
    }
    // A function's instructions may lie in its parts, too.
    if (spec.sites != Sites::every_instruction) pattern->leave_out_parts();
    if (spec.sites == Sites::entry_sites) pattern->mean_entry_sites();
    selection.wanted.push_back(*std::move(pattern));
  }
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

placement::Measures Selection::by_pattern() const {
  if (measures.size() <= 1) return kind();
  std::vector<placement::Measure> all;
  for (size_t number = 0; number < measures.size(); ++number)
    all.resize(measures[number].end, {measures[number].kind, static_cast<uint32_t>(number)});
  return placement::Measures(std::move(all));
}

Result<Selection, SelectionError> parse_selection(const SelectionSpec& spec) {
  Selection selection;
  selection.sites = spec.sites;
  for (const MeasureSpec& measure : spec.measures)
    if (auto added = add_measure(spec, measure, selection); !added) return fail(added.error());
  for (const std::string& text : spec.excluded) {
    auto pattern = image::Pattern::parse(text, spec.syntax);
    if (!pattern) return fail(SelectionError(pattern.error()));
    selection.excluded.push_back(*std::move(pattern));
  }
  return selection;
}

}  // namespace pinprick::session
