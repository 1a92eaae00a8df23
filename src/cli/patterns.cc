#include "cli/patterns.h"

#include <algorithm>

#include "select/span.h"

namespace pinprick::cli {
namespace {

bool times_calls(const Options& options) {
  return options.verb == "latency" || options.verb == "top";
}

}  // namespace

bool means_spans(const Options& options) {
  return times_calls(options) && !options.regex &&
         std::any_of(options.patterns.begin(), options.patterns.end(), select::is_span);
}

bool means_points(const Options& options) {
  return std::all_of(options.patterns.begin(), options.patterns.end(),
                     [](const std::string& text) { return text.starts_with("usdt:"); });
}

placement::Kind kind_of(const Options& options) {
  if (options.verb == "hist") return placement::Kind::value;
  if (!times_calls(options)) return placement::Kind::count;
  return means_spans(options) ? placement::Kind::span : placement::Kind::latency;
}

Result<session::Selection, Message> parse_patterns(const Options& options) {
  session::SelectionSpec spec;
  spec.kind = kind_of(options);
  spec.wanted = options.patterns;
  spec.excluded = options.excluded;
  if (options.regex) spec.syntax = image::PatternSyntax::regex;
  if (options.instructions) spec.sites = session::Sites::every_instruction;
  auto selection = session::parse_selection(spec);
  if (!selection) return fail(message(selection.error()));
  return *std::move(selection);
}

}  // namespace pinprick::cli
