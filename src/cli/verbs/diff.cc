// pinprick diff: what changed between two measurements.
#include <vector>

#include "cli/messages/verb_messages.h"
#include "cli/messages/warnings.h"
#include "cli/verbs/recorded_run.h"
#include "cli/verbs/verbs.h"
#include "compare/change.h"
#include "compare/read_run.h"
#include "export/format.h"

namespace pinprick::cli {
namespace {

// Reads all files, or prints what is wrong with the first one that cannot be compared, and returns
// nullopt.
std::optional<std::vector<compare::Run>> read_runs(const std::vector<std::string>& paths,
                                                   Renderer& renderer, int& exit) {
  std::vector<compare::Run> runs;
  for (const std::string& path : paths) {
    if (RecordedRun recorded = read_recorded_run(path)) {
      if (!*recorded) {
        exit = give_up(renderer, message(path, recorded->error()));
        return std::nullopt;
      }
      runs.push_back(**std::move(recorded));
      continue;
    }
    auto run = compare::read_run(path);
    if (!run) {
      exit = give_up(renderer, message(path, run.error()));
      return std::nullopt;
    }
    runs.push_back(*std::move(run));
  }
  return runs;
}

bool have_stacks(const compare::Comparison& comparison) {
  for (const compare::Change& row : comparison.rows)
    if (!row.name.frames.empty()) return true;
  return false;
}

void warn(const std::vector<compare::Run>& runs, Renderer& renderer) {
  for (const compare::Run& run : runs)
    for (const std::string& text : warning::shortfalls_of(run)) renderer.warning(text);
}

}  // namespace

int run_diff(const Options& options, Renderer& renderer) {
  int exit = kOk;
  const auto before = read_runs(options.before, renderer, exit);
  if (!before) return exit;
  const auto after = read_runs(options.after, renderer, exit);
  if (!after) return exit;
  if (!compare::are_comparable(*before, *after))
    return give_up(renderer, nothing_to_compare(before->front(), after->front()));
  const compare::Comparison comparison = compare::compare(*before, *after, options.least);
  if (exports::format_of(options.output) && !have_stacks(comparison))
    return give_up(renderer, no_stacks(options.before.front()));
  for (const auto* runs : {&*before, &*after}) warn(*runs, renderer);
  if (comparison.have_different_bits) renderer.warning(warning::different_bits());
  renderer.comparison(comparison);
  return kOk;
}

}  // namespace pinprick::cli
