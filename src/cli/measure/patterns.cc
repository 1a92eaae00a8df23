#include "cli/measure/patterns.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "base/fd.h"
#include "cli/messages/verb_messages.h"
#include "select/span.h"

namespace pinprick::cli {
namespace {

bool times_calls(const Options& options) {
  return options.verb == "latency" || options.verb == "top";
}

// Appends the patterns in a file: one in each line, but for empty ones and those that start with #.
Result<void, Message> append_patterns(const std::string& path, std::vector<std::string>& patterns) {
  const auto text = read_file(path);
  if (!text) return fail(cannot_read(path, text.error().number));
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kBlanks = " \t\r";
    const size_t first = line.find_first_not_of(kBlanks);
    if (first == std::string::npos || line[first] == '#') continue;
    patterns.push_back(line.substr(first, line.find_last_not_of(kBlanks) + 1 - first));
  }
  return {};
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
  for (const std::string& path : options.excluded_in)
    if (auto read = append_patterns(path, spec.excluded); !read) return fail(read.error());
  if (options.regex) spec.syntax = image::PatternSyntax::regex;
  if (options.entry_sites) spec.sites = session::Sites::entry_sites;
  if (options.instructions) spec.sites = session::Sites::every_instruction;
  auto selection = session::parse_selection(spec);
  if (!selection) return fail(message(selection.error()));
  return *std::move(selection);
}

}  // namespace pinprick::cli
