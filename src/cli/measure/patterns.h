// Parses the selection in the options of count, latency, top, hist and list.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/messages/messages.h"
#include "cli/options.h"
#include "placement/probe_set.h"
#include "session/selection.h"

namespace pinprick::cli {

// Do the patterns of `latency` or `top`, or a text of `measure`, name spans?
bool means_spans(const Options& options);

// Do all patterns name SDT points?
bool means_points(const Options& options);

// Is a call timed, or a value recorded, so that probes need more than a counter?
bool records_more_than_hits(const Options& options);
// Are calls timed, from entry to return?
bool times_calls(const Options& options);

// A text of `measure`: `[NAME =] count PATTERN`, `latency PATTERN`, `latency START..END`, or `hist
// PATTERN VALUE`. Without a name it is called as it is written. A regular expression names no span.
// Returns nullopt if the text is no measure.
std::optional<session::MeasureSpec> parse_measure(std::string_view text, bool is_regex);

// Appends the lines of a file, but for empty ones and those that start with #.
Result<void, Message> append_lines(const std::string& path, std::vector<std::string>& lines);

// `rewrite`, if there is one, is given the patterns of each measure, and returns those to use.
using RewritePatterns = std::function<std::vector<std::string>(const std::vector<std::string>&)>;
Result<session::Selection, Message> parse_patterns(const Options& options,
                                                   const RewritePatterns& rewrite = {});

}  // namespace pinprick::cli
