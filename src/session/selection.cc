#include "session/selection.h"

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

// Returns the start and the end of each span.
Result<std::vector<std::string>, SelectionError> points_of(const std::vector<std::string>& spans) {
  std::vector<std::string> points;
  for (const std::string& text : spans) {
    if (!select::is_span(text)) return fail(SelectionError(NoSpan{text}));
    const auto span = select::parse_span(text);
    if (!span) return fail(SelectionError(BadSpan{text, span.error()}));
    points.emplace_back(span->start);
    points.emplace_back(span->end);
  }
  if (spans.size() > layout::kMostSpans)
    return fail(SelectionError(TooManySpans{spans.size(), layout::kMostSpans}));
  return points;
}

Result<void, SelectionError> parse_wanted(const SelectionSpec& spec,
                                          const std::vector<std::string>& texts,
                                          Selection& selection) {
  const bool has_values = spec.kind == Kind::value;
  for (const std::string& text : texts) {
    const auto parts = has_values ? select::split_spec(text) : select::PointAndValue{text, {}};
    auto pattern = image::Pattern::parse(parts.point, spec.syntax);
    if (!pattern) return fail(SelectionError(pattern.error()));
    if (has_values) {
      auto value = recorded_value(parts.value, *pattern);
      if (!value) return fail(value.error());
      selection.values.push_back(*std::move(value));
    }
    // A function's instructions may lie in its parts, too.
    if (spec.sites != Sites::every_instruction) pattern->leave_out_parts();
    if (spec.sites == Sites::entry_sites) pattern->mean_entry_sites();
    selection.wanted.push_back(*std::move(pattern));
  }
  return {};
}

}  // namespace

Result<Selection, SelectionError> parse_selection(const SelectionSpec& spec) {
  Selection selection;
  selection.kind = spec.kind;
  selection.sites = spec.sites;
  std::vector<std::string> wanted = spec.wanted;
  if (spec.kind == Kind::span) {
    auto points = points_of(wanted);
    if (!points) return fail(points.error());
    selection.spans = std::exchange(wanted, *std::move(points));
  }
  if (auto parsed = parse_wanted(spec, wanted, selection); !parsed) return fail(parsed.error());
  for (const std::string& text : spec.excluded) {
    auto pattern = image::Pattern::parse(text, spec.syntax);
    if (!pattern) return fail(SelectionError(pattern.error()));
    selection.excluded.push_back(*std::move(pattern));
  }
  return selection;
}

}  // namespace pinprick::session
