#include "session/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "action/at_return.h"
#include "action/divisors.h"
#include "arch/stub.h"
#include "layout/runtime_data.h"
#include "select/array.h"
#include "select/spec.h"
#include "session/array_field.h"

namespace pinprick::session {
namespace {

using placement::Kind;

struct Parsed {
  Selection selection;
  uint32_t measure = 0;  // the one whose points are parsed
  std::vector<action::Action> actions;
  std::vector<uint32_t> by_pattern;
  uint32_t spans_of_events = 0;
};

// The role that a point's event has besides telling its values.
struct Role {
  std::optional<action::Action::SpanPart> span_part = {};
  bool triggers_end = false;
  bool is_self_time = false;  // or the role of a value: it is the self time of calls
};

// The place of a selection's point: in a function or its instructions, or at returns.
struct Place {
  const image::Pattern& pattern;
  Sites sites;
  bool at_return;

  bool is_at_entry() const { return pattern.names_points() || is_at_entry_of_function(); }
  bool is_at_entry_of_function() const {
    return pattern.offset() == 0 && !pattern.names_source() && sites != Sites::every_instruction;
  }
  select::Arguments arguments() const {
    using select::Arguments;
    if (at_return) return Arguments::of_return;
    return pattern.names_points() ? Arguments::of_point : Arguments::of_function;
  }
  std::string text() const {
    return pattern.text() + std::string(at_return ? select::kReturnMark : "");
  }
};

Result<action::Computed, SelectionError> computed(std::string_view text, BadExpression::Of of,
                                                  const Place& place) {
  const image::Pattern& pattern = place.pattern;
  auto expression = select::parse_expression(text, place.arguments());
  if (!expression)
    return fail(
        SelectionError(BadExpression{of, place.text(), std::string(text), expression.error()}));
  using Cause = select::ExpressionError::Cause;
  const bool is_stack = select::is_stack(*expression);
  if (of != BadExpression::Of::key && of != BadExpression::Of::field &&
      (select::is_text(*expression) || is_stack))
    return fail(SelectionError(
        BadExpression{of,
                      place.text(),
                      std::string(text),
                      {.cause = is_stack ? Cause::stack : Cause::text, .value = {}, .text = {}}}));
  const bool is_at_entry = place.is_at_entry_of_function();
  // A compiler's entry site may come after pushes.
  const bool is_pushed =
      place.sites == Sites::entry_sites && (select::has_caller(*expression) || is_stack);
  if ((!is_at_entry || is_pushed) && !pattern.names_points() && select::has_argument(*expression))
    return fail(SelectionError(ArgumentAtOffset{of, pattern.text(), std::string(text)}));
  return action::Computed{*std::move(expression), std::string(text)};
}

Result<action::Computed, SelectionError> computed_key(std::string_view text, const Place& place) {
  std::vector<select::Expression> parts;
  const auto split = select::split_key(text);
  for (const std::string_view part : split) {
    const bool is_short =
        part == "caller" || part == "tid" || part == "stack" || part.starts_with("stack:");
    const std::string value = select::is_command_key(part) ? "$tid"
                              : is_short                   ? "$" + std::string(part)
                              : select::is_error_key(part)
                                  ? std::string(select::split_form(part).value)
                                  : std::string(part);
    auto expression = computed(value, BadExpression::Of::key, place);
    if (!expression) return expression;
    if (split.size() == 1)
      return action::Computed{std::move(expression->expression), std::string(text)};
    parts.push_back(std::move(expression->expression));
  }
  const auto list = select::list_of(parts);
  if (parts.size() > select::kMostParts || list.nodes.size() > select::kMostNodes)
    return fail(SelectionError(BadExpression{
        BadExpression::Of::key,
        place.text(),
        std::string(text),
        {.cause = parts.size() > select::kMostParts ? select::ExpressionError::Cause::parts
                                                    : select::ExpressionError::Cause::too_long,
         .value = {},
         .text = {}}}));
  return action::Computed{list, std::string(text)};
}

// A value ends at a blank, unless that is in parentheses.
Result<action::Computed, SelectionError> recorded_value(std::string_view text, const Place& place) {
  if (text.empty()) return fail(SelectionError(BadValue{place.text(), {}}));
  if (const size_t end = select::end_of_value(text); end != text.size())
    return fail(SelectionError(
        BadValue{place.text(), std::string(text.substr(text.find_first_not_of(' ', end)))}));
  return computed(text, BadExpression::Of::value, place);
}

// The expression, and how it is shown.
std::string take_form(std::string_view value, action::Field& field) {
  using Shown = action::Field::Shown;
  const auto given = select::split_form(value);
  if (given.form == select::ShownAs::symbol) field.shown = Shown::symbol;
  if (given.form == select::ShownAs::hexadecimal) field.shown = Shown::hexadecimal;
  if (given.form == select::ShownAs::error) field.shown = Shown::error;
  if (given.form == select::ShownAs::raw) field.shown = Shown::raw;
  if (given.form == select::ShownAs::character) field.shown = Shown::character;
  return std::string(given.value) + (given.bits.empty() ? "" : ":u" + std::string(given.bits));
}

// Removes the word, which stands for values that each place has, and returns whether it was there.
bool take_word(std::string& values, std::string_view word) {
  for (size_t at = values.find(word); at != values.npos; at = values.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool is_word =
        (at == 0 || values[at - 1] == ' ') && (end == values.size() || values[end] == ' ');
    if (!is_word) continue;
    values.erase(at, std::min(end + 1, values.size()) - at);
    return true;
  }
  return false;
}

// The values after a point, which may have names. A call's time is told without being asked for.
Result<std::vector<action::Field>, SelectionError> fields(std::string_view text,
                                                          const std::string& stack, bool has_place,
                                                          const Place& place) {
  constexpr std::string_view kLatency = "$latency", kErrno = "$errno", kCommand = "$comm";
  std::vector<action::Field> fields;
  const auto add = [&](std::string_view word) -> Result<void, SelectionError> {
    const auto [name, value] = select::split_name(word);
    action::Field field;
    field.name = name;
    // Each event has the thread, whose name is looked up when it is told.
    const bool is_command = value == kCommand;
    auto expression =
        computed(is_command ? "0" : take_form(value, field), BadExpression::Of::field, place);
    if (!expression) return fail(expression.error());
    action::tell_null(expression->expression);
    if (value == kErrno) field.shown = action::Field::Shown::error;
    if (is_command) field.shown = action::Field::Shown::command;
    field.value = {std::move(expression->expression), std::string(value)};
    action::tell_real(field);
    fields.push_back(std::move(field));
    return {};
  };
  const auto add_array = [&](std::string_view word,
                             const select::Array& array) -> Result<void, SelectionError> {
    const auto [name, value] = select::split_name(word);
    for (uint16_t i = 0; i < array.count; ++i) {
      if (auto added = add(select::element_of(array, i)); !added) return added;
      fields.back().value.text = value;
      if (i != 0) fields.back().shown = action::Field::Shown::part;
    }
    action::Field& first = fields[fields.size() - array.count];
    first.name = name;
    first.layout = layout_of(array);
    return {};
  };
  const auto add_format = [&](std::string_view quoted) -> Result<void, SelectionError> {
    auto format = select::parse_format(quoted);
    if (!format)
      return fail(SelectionError(BadFormat{place.text(), std::string(quoted), format.error()}));
    const bool has_values = !format->parts.empty();
    if (!has_values) format->parts.push_back({{}, "0"});
    for (select::Format::Part& part : format->parts) {
      if (auto added = add(part.value); !added) return fail(added.error());
      fields.back().words = action::Field::Words{std::move(part.before), {}, has_values};
    }
    fields.back().words->after = std::move(format->end);
    return {};
  };
  while (!text.empty()) {
    const size_t end = select::end_of_value(text);
    const std::string_view word = text.substr(0, end);
    const auto array = select::split_array(select::split_name(word).value);
    auto added = word.starts_with('"') ? add_format(word)
                 : array               ? add_array(word, *array)
                                       : add(word);
    if (!added) return fail(added.error());
    text.remove_prefix(std::min(text.find_first_not_of(' ', end), text.size()));
  }
  if (!stack.empty())
    if (auto added = add(stack); !added) return fail(added.error());
  if (has_place) {
    if (auto added = add("%rsp"); !added) return fail(added.error());
    fields.back().shown = action::Field::Shown::not_at_all;
  }
  if (place.at_return)
    if (auto added = add(kLatency); !added) return fail(added.error());
  if (fields.size() > arch::kMostEventValues)
    return fail(SelectionError(TooManyFields{place.text()}));
  return fields;
}

std::optional<NoReturn> why_no_return(const Place& place, Kind kind) {
  using Why = NoReturn::Why;
  if (place.pattern.names_inlined() && (place.at_return || kind == Kind::latency))
    return NoReturn{place.pattern.text(), Why::inlined};
  if (!place.at_return) return std::nullopt;
  if (place.pattern.names_points()) return NoReturn{place.pattern.text(), Why::sdt_point};
  if (place.pattern.offset() != 0 || place.pattern.names_lines())
    return NoReturn{place.pattern.text(), Why::offset};
  if (place.sites == Sites::every_instruction)
    return NoReturn{place.pattern.text(), Why::instructions};
  return std::nullopt;
}

// Adds the start and the end of each span to `points`.
Result<void, SelectionError> split_spans(const std::vector<std::string>& texts,
                                         const std::string& key, std::vector<std::string>& points,
                                         Selection& selection) {
  for (const std::string& text : texts) {
    if (!select::is_span(text)) return fail(SelectionError(NoSpan{text}));
    if (!key.empty()) return fail(SelectionError(NoKeyOfSpan{text, key}));
    if (select::split_spec(text).condition)
      return fail(SelectionError(NoCondition{NoCondition::Of::span, text}));
    const auto span = select::parse_span(text);
    if (!span) return fail(SelectionError(BadSpan{text, span.error()}));
    selection.spans.push_back({text, selection.wanted.size() + points.size()});
    if (span->start.ends_with(select::kReturnMark) || span->end.ends_with(select::kReturnMark))
      return fail(SelectionError(ReturnOfSpan{text}));
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
    return other.measure == action.measure && other.at_return == action.at_return &&
           other.event == action.event && other.value.text == action.value.text &&
           other.value.expression == action.value.expression &&
           other.key.expression == action.key.expression &&
           other.sum.expression == action.sum.expression && other.fields == action.fields &&
           other.tells_arguments == action.tells_arguments &&
           other.tells_variables == action.tells_variables &&
           other.leaves_out_arguments == action.leaves_out_arguments &&
           other.span_part == action.span_part && other.triggers_end == action.triggers_end &&
           other.condition.text == action.condition.text &&
           other.condition.expression == action.condition.expression;
  });
  const auto number = static_cast<uint32_t>(same - all.begin());
  if (same == all.end()) all.push_back(std::move(action));
  return number;
}

Result<void, SelectionError> add_point(const SelectionSpec& spec, Kind kind, std::string_view text,
                                       Parsed& parsed, const Role& role = {}) {
  const select::Spec parts = select::split_spec(text);
  if (!parts.event.empty() && kind != Kind::event)
    return fail(SelectionError(NamedPoint{std::string(parts.event), std::string(parts.point)}));
  auto pattern = image::Pattern::parse(parts.point, spec.syntax);
  if (!pattern) return fail(SelectionError(pattern.error()));
  const Place place = {*pattern, spec.sites, parts.at_return};
  if (const auto none = why_no_return(place, kind)) return fail(SelectionError(*none));
  action::Action action = {.kind = kind,
                           .measure = parsed.measure,
                           .event = std::string(parts.event),
                           .triggers_end = role.triggers_end,
                           .span_part = role.span_part,
                           .at_return = parts.at_return || role.is_self_time};
  if (role.is_self_time) {
    action.value = {select::self_time(), "self time"};
  } else if (kind == Kind::value) {
    auto value = recorded_value(parts.value, place);
    if (!value) return fail(value.error());
    action.value = *std::move(value);
  } else if (kind == Kind::event) {
    // In a tree, the entry of a call has told its stack.
    const bool tells_stack = !(spec.makes_tree && place.at_return);
    std::string values(parts.value);
    const bool has_variables = take_word(values, "$vars");
    const bool has_parameters = take_word(values, "$params") || has_variables;
    auto told = fields(values, tells_stack ? spec.stack : std::string(),
                       spec.makes_tree && !place.at_return, place);
    if (!told) return fail(told.error());
    action.fields = *std::move(told);
    action.every = spec.every;
    action.tells_arguments = has_parameters || (spec.tells_arguments &&
                                                (place.is_at_entry() || pattern->names_source()));
    action.tells_variables = has_variables;
    action.leaves_out_arguments = spec.makes_tree && place.at_return;
  } else if (!parts.value.empty()) {
    return fail(SelectionError(UnusedValue{place.text(), std::string(parts.value)}));
  }
  // The key of a timed call is one of its return.
  const Place of_key = {*pattern, spec.sites, action.times_call()};
  for (const auto& [given, of, result] :
       {std::tuple(&spec.key, BadExpression::Of::key, &action.key),
        std::tuple(&spec.sum, BadExpression::Of::sum, &action.sum)}) {
    if (given->empty() || (of == BadExpression::Of::sum && kind != Kind::count)) continue;
    auto expression =
        of == BadExpression::Of::key ? computed_key(*given, of_key) : computed(*given, of, of_key);
    if (!expression) return fail(expression.error());
    *result = *std::move(expression);
  }
  action.keeps_extremes = spec.keeps_extremes && action.has_sum();
  if (parts.condition) {
    auto condition = computed(*parts.condition, BadExpression::Of::condition, place);
    if (!condition) return fail(condition.error());
    action.condition = *std::move(condition);
  }
  action::require_divisors(action);
  if (action.condition.expression.nodes.size() > select::kMostNodes)
    return fail(SelectionError(BadExpression{
        BadExpression::Of::condition,
        place.text(),
        std::string(text),
        {.cause = select::ExpressionError::Cause::too_long, .value = {}, .text = {}}}));
  std::vector<select::Expression> kept;
  action::add_kept(action, action::Entry::decides, kept);
  if (kept.size() > action::kMostKept) return fail(SelectionError(TooManyKept{place.text()}));
  // A function's instructions may lie in its parts, too.
  if (spec.sites != Sites::every_instruction) pattern->leave_out_parts();
  if (spec.sites == Sites::entry_sites) pattern->mean_entry_sites();
  parsed.selection.wanted.push_back(*std::move(pattern));
  parsed.by_pattern.push_back(number_of(std::move(action), parsed.actions));
  return {};
}

// A span has an event at its start, which tells everything, and one at its end. Where both are the
// same point, each hit ends the span of the one before, and then starts another.
Result<void, SelectionError> add_span_of_events(const SelectionSpec& spec, std::string_view text,
                                                Parsed& parsed) {
  const select::Spec parts = select::split_spec(text);
  const auto points = select::parse_span(parts.point);
  if (!points) return fail(SelectionError(BadSpan{std::string(parts.point), points.error()}));
  std::string start = fmt::format("{} {}", points->start, parts.value), end(points->end);
  if (!parts.event.empty()) start = fmt::format("{} = {}", parts.event, start);
  if (parts.condition) start += fmt::format(" if {}", *parts.condition);
  if (parts.at_return) end += select::kReturnMark;
  const uint32_t span = parsed.spans_of_events++;
  SelectionSpec of_end = spec;
  of_end.stack.clear();
  of_end.tells_arguments = false;
  const auto add_start = [&] {
    return add_point(spec, Kind::event, start, parsed, {action::Action::SpanPart{span, true}});
  };
  const auto add_end = [&] {
    return add_point(of_end, Kind::event, end, parsed, {action::Action::SpanPart{span, false}});
  };
  const bool is_one_point = points->start == points->end && !parts.at_return;
  auto added = is_one_point ? add_end() : add_start();
  if (!added) return added;
  return is_one_point ? add_start() : add_end();
}

Result<void, SelectionError> add_measure(const SelectionSpec& spec, const MeasureSpec& measure,
                                         Parsed& parsed) {
  Selection& selection = parsed.selection;
  std::vector<std::string> points;
  parsed.measure = static_cast<uint32_t>(selection.measures.size());
  const size_t first = selection.wanted.size();
  if (measure.kind == Kind::span)
    if (auto added = split_spans(measure.wanted, spec.key, points, selection); !added) return added;
  const bool may_be_spans =
      measure.kind == Kind::event && spec.syntax == image::PatternSyntax::glob;
  for (const std::string& text : measure.kind == Kind::span ? points : measure.wanted) {
    auto added = may_be_spans && select::is_span(text)
                     ? add_span_of_events(spec, text, parsed)
                     : add_point(spec, measure.kind, text, parsed);
    if (!added) return added;
  }
  // It is an event by itself, also where others make a tree.
  SelectionSpec of_until = spec;
  of_until.makes_tree = false;
  of_until.every = 1;
  if (selection.measures.empty())
    for (const std::string& text : spec.until)
      if (auto added = add_point(of_until, Kind::event, text, parsed, {{}, true}); !added)
        return added;
  selection.measures.push_back({measure.name, measure.kind, first, selection.wanted.size()});
  return {};
}

Result<void, SelectionError> add_self_times(const SelectionSpec& spec, const MeasureSpec& of,
                                            Parsed& parsed) {
  Selection& selection = parsed.selection;
  parsed.measure = static_cast<uint32_t>(selection.measures.size());
  const size_t first = selection.wanted.size();
  for (const std::string& text : of.wanted)
    if (auto added = add_point(spec, Kind::value, text, parsed, {.is_self_time = true}); !added)
      return added;
  selection.measures.push_back({{}, Kind::value, first, selection.wanted.size(), true});
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

bool Selection::names_threads() const {
  return std::ranges::any_of(actions.all(), [](const action::Action& one) {
    return std::ranges::any_of(select::split_key(one.key.text), select::is_command_key);
  });
}

bool Selection::may_follow_pointers() const {
  bool has_name = false;
  for (const action::Action& action : actions.all())
    action.for_each_expression([&](const action::Computed& one) {
      has_name = has_name || select::has_name(one.expression);
    });
  return has_name || actions.follows_pointers();
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
  parsed.selection.limits = spec.limits;
  parsed.selection.functions = spec.functions;
  for (const MeasureSpec& measure : spec.measures)
    if (auto added = add_measure(spec, measure, parsed); !added) return fail(added.error());
  if (spec.tells_self_time)
    if (auto added = add_self_times(spec, spec.measures.front(), parsed); !added)
      return fail(added.error());
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
