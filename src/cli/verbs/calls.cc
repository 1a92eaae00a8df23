// pinprick calls: the timed calls that are in flight, of all owners. It only reads.
#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "cli/messages/verb_messages.h"
#include "cli/object_store.h"
#include "cli/verbs/unknown_process.h"
#include "cli/verbs/verbs.h"
#include "image/pattern.h"
#include "ledger/discovery.h"
#include "session/selection.h"
#include "session/timed_calls.h"
#include "target/procfs.h"

namespace pinprick::cli {
namespace {

Result<std::vector<image::Pattern>, Message> parse(const std::vector<std::string>& texts) {
  std::vector<image::Pattern> patterns;
  for (const std::string& text : texts) {
    auto pattern = image::Pattern::parse(text, image::PatternSyntax::glob);
    if (!pattern) return fail(message(session::SelectionError(pattern.error())));
    patterns.push_back(*std::move(pattern));
  }
  return patterns;
}

// A span is named as its two points together, as it was given to `latency`.
bool matches(const image::Pattern& pattern, const session::TimedFunction& function) {
  if (pattern.text() == function.function) return true;
  const std::vector<std::string> objects = {function.object};
  return pattern.matches_object(objects) && (pattern.matches_function(function.function) ||
                                             pattern.matches_address(objects, function.address));
}

// All processes that have probes.
std::vector<pid_t> processes_with_probes() {
  std::set<pid_t> pids;
  for (const auto& found : ledger::find_sessions().sessions)
    if (found.target_lives) pids.insert(found.journal.header.pid);
  return {pids.begin(), pids.end()};
}

// Returns why there is nothing to show.
std::optional<Message> show_calls(pid_t pid, const session::WantedCalls& wanted,
                                  Renderer& renderer) {
  const auto found = session::timed_calls(pid, object_store(), wanted);
  if (found)
    for (const auto& error : found->unreadable) renderer.warning(message(error).text);
  if (!found || !found->is_timed) {
    if (auto why = why_nothing_is_known(pid)) return why;
    return nothing_is_timed(pid);
  }
  const auto status = target::read_status(pid);
  renderer.calls({pid, status ? status->command : "?"}, found->calls, wanted.least_age_ns);
  return std::nullopt;
}

}  // namespace

int run_calls(const Options& options, Renderer& renderer) {
  const auto patterns = parse(options.patterns);
  if (!patterns) return give_up(renderer, patterns.error());
  session::WantedCalls wanted;
  wanted.least_age_ns = options.older_ns;
  if (!patterns->empty())
    wanted.is_wanted = [&](const session::TimedFunction& function) {
      return std::any_of(patterns->begin(), patterns->end(),
                         [&](const image::Pattern& pattern) { return matches(pattern, function); });
    };
  const bool all = options.pids.empty();
  const std::vector<pid_t> pids = all ? processes_with_probes() : options.pids;
  size_t shown = 0;
  std::optional<Message> first;
  for (const pid_t pid : pids) {
    auto why = show_calls(pid, wanted, renderer);
    if (!why) ++shown;
    // Of all processes, those in which nothing is timed are left out, and so are those that end.
    if (!why || all) continue;
    renderer.error(*why);
    if (!first) first = std::move(why);
  }
  if (all && shown == 0) return give_up(renderer, nothing_is_timed(0));
  renderer.flush();
  if (first) return first->exit;
  return renderer.is_broken() ? kFailed : kOk;
}

}  // namespace pinprick::cli
