// What a user has selected, parsed: functions, values to record, and spans. Pure. matching.h finds
// what a selection means in a process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "action/action.h"
#include "base/result.h"
#include "image/pattern.h"
#include "placement/probe_set.h"
#include "select/expression.h"
#include "select/format.h"
#include "select/function_filter.h"
#include "select/span.h"
#include "select/value.h"

namespace pinprick::session {

enum class Sites : uint8_t {
  named,
  entry_sites,  // of these only functions with an entry site of the compiler
  every_instruction,
};

// The texts that the user wrote.
struct MeasureSpec {
  std::string name = {};  // empty: it has none
  placement::Kind kind = placement::Kind::count;
  // Points, which may have conditions; for Kind::value each with a value, for Kind::event with any
  // number of them; for Kind::span spans.
  std::vector<std::string> wanted = {};
};

struct SelectionSpec {
  std::vector<MeasureSpec> measures;
  std::vector<std::string> excluded;
  image::PatternSyntax syntax = image::PatternSyntax::glob;
  Sites sites = Sites::named;
  std::string sum = {};         // an expression, whose results are added up where hits are counted
  bool keeps_extremes = false;  // the least and the greatest of these, too
  std::string key = {};    // an expression, by whose results hits are counted; empty: there is none
  std::string stack = {};  // what each event tells as its last value; empty: no stack
  // Each function has two events, and the one at its return tells no arguments.
  bool makes_tree = false;
  uint32_t every = 1;  // of hits that events tell, only each Nth is recorded
  // Points of events, of which a hit ends the recording. They belong to the first measure.
  std::vector<std::string> until = {};
  bool tells_arguments = false;  // events tell what functions are called with, where that is known
  // Calls of the first measure have a self time, too: that without the calls within them. Not of
  // spans.
  bool tells_self_time = false;
  // Which of the functions that the patterns match are meant; null: all.
  std::shared_ptr<const select::TracedFunctions> functions = {};
  action::ValueLimits limits = {};
};

struct Measure {
  std::string name;
  placement::Kind kind = placement::Kind::count;
  size_t first = 0;  // its wanted patterns
  size_t end = 0;
  // It records the self times of the first measure's calls, and has no report of its own.
  bool is_self_time = false;
};

// From the wanted pattern `first` to the next one.
struct SelectedSpan {
  std::string text;
  size_t first = 0;
};

struct Selection {
  Sites sites = Sites::named;
  std::vector<Measure> measures;
  std::vector<image::Pattern> wanted;  // of all measures, one after the other
  std::vector<image::Pattern> excluded;
  action::Actions actions = placement::Kind::count;  // by wanted pattern
  std::vector<SelectedSpan> spans;
  action::ValueLimits limits = {};
  std::shared_ptr<const select::TracedFunctions> functions = {};  // as in the spec

  bool has(placement::Kind kind) const;
  bool has_others_than(placement::Kind kind) const;
  bool times_calls() const { return actions.times_calls(); }
  // Are threads told apart by the names of their commands?
  bool names_threads() const;
  // Does a probe need to know all libraries that the program starts with? Unwinders are hooked in
  // them, and what installs filters of system calls.
  bool needs_libraries() const { return times_calls() || may_follow_pointers(); }
  // Does a hit follow pointers, or might it, as a name may mean a variable in memory?
  bool may_follow_pointers() const;
  // The kind of the first measure, for what is said of all.
  placement::Kind kind() const;
  // The number of the measure that has this wanted pattern.
  size_t measure_of(size_t pattern) const;
};

// There is no value to record at `point`, or there are several.
struct BadValue {
  std::string point;
  std::string others;  // those after the first one; empty: there is none at all
};

// A condition, the value to record, or the key by which hits are counted makes no sense.
struct BadExpression {
  enum class Of : uint8_t { value, condition, key, sum, field } of = Of::value;
  std::string point;
  std::string text;  // of the expression
  select::ExpressionError error;
};

// Nothing records the value.
struct UnusedValue {
  std::string point;
  std::string value;
};

// Only events have names.
struct NamedPoint {
  std::string name;
  std::string point;
};

// Spans have no conditions, nor has a pattern of what is left out.
struct NoCondition {
  enum class Of : bool { span, excluded } of = Of::span;
  std::string text;
};
// The times of spans are not told apart by a key.
struct NoKeyOfSpan {
  std::string span;
  std::string key;
};
// A span neither starts nor ends at a return.
struct ReturnOfSpan {
  std::string text;
};

// An argument is in its register only at the entry of a function.
struct ArgumentAtOffset {
  BadExpression::Of of = BadExpression::Of::value;
  std::string point;
  std::string text;  // of the expression
};

// Only a function returns, and from its entry on.
struct NoReturn {
  std::string point;
  enum class Why : uint8_t { offset, instructions, sdt_point, inlined } why = Why::offset;
};

// What is computed at the return needs more arguments than a call can keep.
struct TooManyKept {
  std::string point;
};

// An event has no room for as many values.
struct TooManyFields {
  std::string point;
};

struct BadFormat {
  std::string point;
  std::string text;
  select::FormatError error = {};
};

struct BadSpan {
  std::string text;
  select::SpanError error = select::SpanError::no_start;
};

// Some of the texts are spans, and this one is not.
struct NoSpan {
  std::string text;
};

struct TooManySpans {
  size_t spans = 0;
  size_t most = 0;  // that are possible at once
};

using SelectionError =
    std::variant<image::PatternError, BadValue, BadExpression, UnusedValue, NamedPoint, NoCondition,
                 NoKeyOfSpan, ReturnOfSpan, ArgumentAtOffset, NoReturn, TooManyKept, TooManyFields,
                 BadFormat, BadSpan, NoSpan, TooManySpans>;

Result<Selection, SelectionError> parse_selection(const SelectionSpec& spec);

}  // namespace pinprick::session
