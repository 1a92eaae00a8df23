// From a process id and patterns to a target with planned probes: what count, latency and list
// share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/messages.h"
#include "cli/options.h"
#include "engine/disarm.h"
#include "image/match.h"
#include "image/process.h"
#include "ledger/discovery.h"
#include "placement/probe_set.h"
#include "target/remote_target.h"

namespace pinprick::cli {

struct Patterns {
  std::vector<image::Pattern> wanted;
  std::vector<image::Pattern> excluded;
  std::vector<placement::RecordedValue> values;  // hist: of each wanted one
  std::vector<std::string> spans;                // latency: of two wanted ones each, start and end
};

// Do the patterns of `latency` name spans?
bool means_spans(const Options& options);

Result<Patterns, Message> parse_patterns(const Options& options);

// A process that can be attached to, looked at but not touched yet.
struct Subject {
  target::RemoteTarget target;
  std::unique_ptr<image::ProcessImage> image;
  std::vector<std::string> warnings;
};

// What is known of objects: kept for this process, and from use_cache() on in the user's cache. To
// be called before anything is looked at.
void use_cache();
image::ObjectStore& object_store();

// In turn with other pinpricks (session/turn.h).
Result<target::RemoteTarget, Message> open_target(pid_t pid);
Result<Subject, Message> look_at(pid_t pid);
Result<Subject, Message> look_at(const target::RemoteTarget& target);

// Takes out what the session of a controller that is gone, or that had to leave memory behind, has
// in its target. `timeout_ns`: how long to wait for threads to leave it.
Result<engine::DisarmReport, Message> finish(const ledger::FoundSession& found,
                                             uint64_t timeout_ns = engine::kDisarmTimeoutNs);

// The functions that the patterns mean. Patterns without a match are errors, unless allowed; so is
// it that there is no match at all, unless some may come (`later`).
Result<std::vector<image::Match>, Message> match(image::ProcessImage& image,
                                                 const Patterns& patterns, bool allow_missing,
                                                 bool later = false);

// The points of the patterns' spans, each of which is one place. With `allow_missing`, without
// spans of which a point is nowhere.
Result<std::vector<placement::SpanMatches>, Message> match_spans(image::ProcessImage& image,
                                                                 const Patterns& patterns,
                                                                 bool allow_missing);

// May objects that are not loaded yet hold what the patterns mean?
bool may_match_later(const image::ProcessImage& image, const Patterns& patterns);

}  // namespace pinprick::cli
