// pinprick list: the functions that a pattern matches, and how each is probed.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/measure/patterns.h"
#include "cli/messages/warnings.h"
#include "cli/object_store.h"
#include "cli/output.h"
#include "cli/verbs/verbs.h"
#include "ledger/discovery.h"
#include "placement/exits.h"
#include "placement/summary.h"
#include "session/debug_files.h"
#include "session/matching.h"
#include "session/named_values.h"
#include "session/subject.h"
#include "session/typed_names.h"
#include "session/unseen_code.h"

namespace pinprick::cli {
namespace {

// Adds what debug information says of the place.
void add_variables(const image::Match& match, session::TypedNames& names, ListRow& row) {
  row.wants_variables = true;
  const auto place = names.known_at(match, session::TypedNames::When::at_hit);
  if (place == nullptr) return;
  row.variables.emplace();
  for (session::TypedNames::Described& one : names.described(*place))
    row.variables->push_back(
        {std::move(one.type), std::move(one.name), std::move(one.where), one.is_parameter});
}

void add_lines(const image::Match& match, ListRow& row) {
  row.wants_lines = true;
  const auto info = session::debug_info_of(*match.object);
  if (info == nullptr) return;
  for (const debug::LineCode& one : info->lines_of(match.function->range))
    row.lines.push_back({one.address, session::line_name(one)});
}

// Adds the places where the function was inlined, if its pattern names this function alone.
void add_inlined(image::ProcessImage& image, const image::Pattern& pattern,
                 const image::Match& match, ListRow& row) {
  row.inlined_places = session::inlined_places(image, pattern, match.object);
  row.inlined = pattern.text() + std::string(image::Pattern::kInlineMark);
}

using PartsOfObjects = std::map<const image::Object*, placement::FunctionParts>;

bool has_tail_jumps(const image::Match& match, PartsOfObjects& parts) {
  const auto code = placement::code_of(*match.object, *match.function);
  if (!code) return false;
  const auto& its = parts.try_emplace(match.object, *match.object).first->second;
  const auto exits = placement::find_exits(*match.object, *match.function, *code, its);
  return exits && exits->has_tail_jumps;
}

std::vector<ListRow> rows_of(image::ProcessImage& image, const std::vector<image::Match>& matches,
                             const session::Selection& selection, const Options& options,
                             std::optional<pid_t> pid) {
  session::TypedNames names;
  const auto islands = placement::IslandSpace::around(image);
  const auto counted = placement::plan_probes(matches, placement::Kind::count, {}, islands);
  const auto timed = placement::plan_probes(matches, placement::Kind::latency, {}, islands, {},
                                            &image, options.ends);
  std::map<Address, plan::Reason> not_timed;
  for (const auto& skipped : timed.skipped) not_timed[skipped.match.site] = skipped.refusal.reason;
  std::map<Address, placement::CallTiming> timing;
  for (const auto& probe : timed.probes)
    timing[timed.matches[probe.match].site] = timed.patches[probe.patch].plan.timing;

  PartsOfObjects parts;
  std::vector<ListRow> rows;
  const auto row_of = [&](const image::Match& match) {
    ListRow row;
    row.object = match.object->name();
    row.function = match.name();
    row.address = match.site - match.object->bias();
    if (match.point == nullptr && match.at_entry())
      row.entry = image::entry_kind(*match.object, *match.function);
    if (options.variables) add_variables(match, names, row);
    if (options.lines && match.point == nullptr) add_lines(match, row);
    if (!match.is_of_source() && !match.each_instruction)
      add_inlined(image, selection.wanted[match.pattern], match, row);
    if (match.point != nullptr && options.arguments) row.arguments = match.point->arguments;
    // After the entry, none is known to be where it was. Go has a convention of its own.
    if (match.point == nullptr && match.at_entry() && options.arguments &&
        !match.object->elf().is_go()) {
      row.wants_prototype = true;
      row.prototype = session::prototype_of(match);
    }
    return row;
  };
  std::vector<Range> windows;  // by row
  for (const auto& probe : counted.probes) {
    const image::Match match = counted.match_of(probe);
    ListRow row = row_of(match);
    const auto& patch = counted.patches[probe.patch].plan.patch;
    row.tactic = patch.tactic;
    windows.push_back({match.site, match.site + patch.touched().size()});
    // That a point is no function needs no mention.
    if (auto refused = not_timed.find(match.site);
        refused != not_timed.end() && match.point == nullptr && !match.is_of_source())
      row.return_refusal = refused->second;
    if (auto found = timing.find(match.site);
        found != timing.end() && match.point == nullptr && match.inlined == 0) {
      row.is_timed_by_exits = found->second != placement::CallTiming::by_slot;
      row.ends_at_tail_jumps = *row.is_timed_by_exits && has_tail_jumps(match, parts);
    }
    rows.push_back(std::move(row));
  }
  const auto taken = pid ? ledger::taken_by_program(*pid, windows) : std::vector<bool>();
  for (size_t i = 0; i < taken.size(); ++i) {
    if (!taken[i]) continue;
    rows[i].tactic.reset();
    rows[i].refusal = plan::Reason::probed_by_program;
  }
  for (const auto& skipped : counted.skipped) {
    ListRow row = row_of(skipped.match);
    row.refusal = skipped.refusal.reason;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const ListRow& a, const ListRow& b) {
    return std::tie(a.object, a.address) < std::tie(b.object, b.address);
  });
  return rows;
}

int list_image(image::ProcessImage& image, const session::Selection& selection,
               const Options& options, Renderer& renderer, std::optional<pid_t> pid) {
  auto matches = session::match(image, selection, session::Unmatched::refuse);
  if (!matches) return give_up(renderer, message(matches.error()));
  if (options.instructions) image::mean_each_instruction(*matches);
  std::vector<ListRow> rows;
  {
    Task task;
    const Progress progress(task, true);
    const Task::Scope scope(&task);
    rows = rows_of(image, *matches, selection, options, pid);
  }
  for (const auto& code : session::text_without_functions(image, selection.wanted))
    renderer.warning(warning::unseen(code));
  renderer.functions(rows);
  return renderer.is_broken() ? kFailed : kOk;
}

int summarize_image(image::ProcessImage& image, const session::Selection& selection,
                    const Options& options, Renderer& renderer) {
  auto matches = session::match(image, selection, session::Unmatched::refuse);
  if (!matches) return give_up(renderer, message(matches.error()));
  SummaryRow row;
  row.object = image.objects.front()->name();
  auto sites = placement::Sites::entries;
  row.sites = "entries";
  if (options.instructions) {
    sites = options.together ? placement::Sites::together : placement::Sites::instructions;
    row.sites = options.together ? "instructions together" : "instructions";
  }
  {
    Task task;
    const Progress progress(task, true);
    const Task::Scope scope(&task);
    row.summary = placement::summarize(*matches, sites, placement::IslandSpace::around(image));
  }
  renderer.summary(row);
  return renderer.is_broken() ? kFailed : kOk;
}

}  // namespace

int run_list(const Options& given, Renderer& renderer) {
  if (given.types) return list_types(given, renderer);
  Options options = given;
  if (options.patterns.empty()) options.patterns = {"*"};
  auto selection = parse_patterns(options);
  if (!selection) return give_up(renderer, selection.error());
  if (!options.file.empty() || !options.summary.empty()) {
    auto image =
        image::load_file(options.file.empty() ? options.summary : options.file, &object_store());
    if (!image) return give_up(renderer, message(image.error()));
    return options.file.empty() ? summarize_image(*image, *selection, options, renderer)
                                : list_image(*image, *selection, options, renderer, std::nullopt);
  }
  int status = kOk;
  for (pid_t pid : options.pids) {
    auto subject = session::look_at(pid, object_store());
    if (!subject) return give_up(renderer, message(subject.error()));
    for (const auto& code : session::unseen_objects(*subject->image, selection->wanted))
      renderer.warning(warning::unseen(code));
    if (int result = list_image(*subject->image, *selection, options, renderer, pid); result != kOk)
      status = result;
  }
  return status;
}

}  // namespace pinprick::cli
