// Parses the selection in the options of count, latency, top, hist and list.
#pragma once

#include "base/result.h"
#include "cli/messages/messages.h"
#include "cli/options.h"
#include "placement/probe_set.h"
#include "session/selection.h"

namespace pinprick::cli {

// Do the patterns of `latency` or `top` name spans?
bool means_spans(const Options& options);

// Do all patterns name SDT points?
bool means_points(const Options& options);

// The kind of probes, by the verb and its patterns. For `list` it is Kind::count.
placement::Kind kind_of(const Options& options);

Result<session::Selection, Message> parse_patterns(const Options& options);

}  // namespace pinprick::cli
