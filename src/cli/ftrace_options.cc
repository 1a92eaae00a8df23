#include "cli/ftrace_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "cli/help_texts.h"
#include "cli/messages/verb_messages.h"
#include "cli/option_groups.h"

namespace pinprick::cli {
namespace {

using select::FilterPattern;
using select::FunctionFilter;
using select::FunctionFilters;

const char* reason_for(select::FilterError::Cause cause) {
  using Cause = select::FilterError::Cause;
  switch (cause) {
    case Cause::number:
      return "is the number of a function in the kernel's list: give the function's name";
    case Cause::command:
      return "has a command of the kernel's: only :mod: is known here";
    case Cause::module:
      return "names no object after :mod:; write 'read*:mod:libc'";
  }
  return "";
}

// Adds the filters of one option or one line. An empty one clears those before it, as `echo >
// set_ftrace_filter` does.
void add_filters_of(const std::string& option, std::string_view text, FunctionFilters& filters) {
  auto parsed = select::parse_function_filters(text);
  if (!parsed)
    throw CLI::ValidationError(
        option, fmt::format("'{}' {}", parsed.error().text, reason_for(parsed.error().cause)));
  if (parsed->empty()) filters.clear();
  for (FunctionFilter& one : *parsed) filters.add(std::move(one));
}

void add_filters_in(const std::string& option, const std::string& path, FunctionFilters& filters) {
  const auto text = read_file(path);
  if (!text) throw CLI::ValidationError(option, cannot_read(path, text.error().number).text);
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const size_t first = line.find_first_not_of(" \t\r");
    if (first != line.npos && line[first] != '#') add_filters_of(option, line, filters);
  }
}

void add_filter_options(CLI::App& app, select::TracedFunctions& traced) {
  const auto add = [&](const std::string& name, const char* help, FunctionFilters& filters) {
    one_at_a_time(
        app.add_option_function<std::string>(
               name,
               [name, &filters](const std::string& text) { add_filters_of(name, text, filters); },
               help)
            ->type_name("FILTER")
            ->trigger_on_parse());
  };
  const auto add_file = [&](const std::string& name, const char* help, FunctionFilters& filters) {
    one_at_a_time(
        app.add_option_function<std::string>(
               name,
               [name, &filters](const std::string& path) { add_filters_in(name, path, filters); },
               help)
            ->type_name("FILE")
            ->trigger_on_parse());
  };
  add("--filter", "Trace these functions; see below (repeatable)", traced.filters);
  add_file("--filter-file", "What FILE says, a filter in each line (repeatable)", traced.filters);
  add("--notrace", "Do not trace these functions (repeatable)", traced.left_out);
  add_file("--notrace-file", "What FILE says, a filter in each line (repeatable)", traced.left_out);
}

// Returns a glob of ours that matches all names that the filter's pattern matches, and maybe more.
// Characters that mean something else in our patterns, such as + and @, become a ?.
std::string glob_of(const FilterPattern& pattern) {
  using Type = FilterPattern::Type;
  if (pattern.text.empty()) return "*";
  const std::string& text = pattern.text;
  const bool is_glob = pattern.type == Type::glob;
  std::string glob;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_glob && c == '[') {
      // A class is one character, if it has an end.
      const size_t first = i + 1 + (text.compare(i + 1, 1, "!") == 0 ? 1 : 0);
      const size_t end = text.find(']', first + 1);
      if (end != text.npos) i = end;
      glob += '?';
    } else if (is_glob && c == '\\' && i + 1 < text.size()) {
      ++i;
      glob += '?';
    } else {
      const bool may_be_special = std::string_view("+@%=[\\").find(c) != std::string_view::npos ||
                                  (c == '.' && text.compare(i + 1, 1, ".") == 0);
      glob += may_be_special ? '?' : c;
    }
  }
  const bool is_open_before = pattern.type == Type::end || pattern.type == Type::middle;
  const bool is_open_after = pattern.type == Type::front || pattern.type == Type::middle;
  return (is_open_before ? "*" : "") + glob + (is_open_after ? "*" : "");
}

// Returns the glob, changed if it is a word after which a pattern means SDT points.
std::string not_of_points(std::string glob) {
  const bool means_points = glob == "usdt" || glob == "point" || glob.starts_with("__tracepoint_");
  if (means_points) glob.front() = '?';
  return glob;
}

std::string point_of(const FunctionFilter& filter) {
  const std::string function = not_of_points(glob_of(filter.function));
  const bool names_object =
      filter.module && !filter.module->is_negated && !filter.module->is_blank();
  return names_object ? not_of_points(glob_of(*filter.module)) + ":" + function : function;
}

// These patterns find candidates; the filters then decide which functions are traced.
std::vector<std::string> points_for(const FunctionFilters& filters) {
  std::vector<std::string> points;
  for (const FunctionFilter& one : filters.all())
    if (!one.removes()) points.push_back(point_of(one));
  if (points.empty()) points.emplace_back("*");
  return points;
}

std::string condition_on(const std::vector<pid_t>& tids) {
  std::string condition;
  for (const pid_t tid : tids)
    condition += fmt::format("{}$tid=={}", condition.empty() ? " if " : "||", tid);
  return condition;
}

}  // namespace

void add_ftrace(CLI::App& app, Options& options) {
  options.functions_traced = std::make_shared<select::TracedFunctions>();
  options.event_format = EventFormat::function;
  add_pids(app, options, "Process to attach to (repeatable)");
  app.add_option_function<std::string>(
         "--tracer",
         [&options](const std::string& word) {
           const std::map<std::string, EventFormat> words = {
               {"function", EventFormat::function},
               {"function_graph", EventFormat::function_graph},
               {"nop", EventFormat::ftrace}};
           if (!words.contains(word))
             throw CLI::ValidationError("--tracer",
                                        "'" + word + "' is not function, function_graph or nop");
           options.event_format = words.at(word);
         },
         "function (default), function_graph, or nop: events as of kprobes")
      ->type_name("TRACER");
  add_filter_options(app, *options.functions_traced);
  one_at_a_time(app.add_option("--graph", options.tree_in,
                               "function_graph: only what lies in such calls (repeatable)")
                    ->type_name("FUNCTION"));
  one_at_a_time(app.add_option("--graph-notrace", options.tree_not_in,
                               "function_graph: nothing that lies in such calls (repeatable)")
                    ->type_name("FUNCTION"));
  app.add_option("--max-depth", options.depth, "function_graph: show N levels at most")
      ->type_name("N")
      ->check(CLI::Range(uint32_t{1}, uint32_t{1000}).description(""));
  one_at_a_time(app.add_option("--tid", options.tids, "Only calls of this thread (repeatable)")
                    ->type_name("TID")
                    ->check(kProcess));
  app.add_flag("--profile", options.profile,
               "Hits, times and their variance of each function instead, at the end");
  app.add_flag("--self", options.self_time,
               "With --profile: times without those of the traced functions called");
  add_duration(app, options);
  app.add_option("--limit", options.limit, "Stop after N events")
      ->type_name("N")
      ->check(CLI::Range(uint64_t{1}, uint64_t{INT64_MAX}).description(""));
  app.add_option("-o,--output", options.output, "Write to a file")->type_name("FILE");
  app.add_flag("--allow-missing", options.allow_missing,
               "Go on when a filter matches nothing (yet)");
  add_follow_exec(app, options);
  add_buffer(app, options, "Room for events that were not printed yet, of each CPU, such as 16M");
  app.add_flag("--fail-on-loss", options.fail_on_loss,
               "Exit with 5 when an event was dropped, or a call was missed");
  add_timing(app, options);
  add_cache(app, options);
  add_common(app, options);
  app.remove_option(app.get_option("--json"));
  describe_verb(app, {"ftrace [OPTIONS] -p PID", "ftrace [OPTIONS] -- COMMAND [ARGUMENT...]"},
                kFtraceFooter);
}

// A profile computes its variance from the slots of its histograms, so these are as narrow as they
// can be.
void become_traced_functions(Options& options) {
  const std::string condition = condition_on(options.tids);
  for (const std::string& point : points_for(options.functions_traced->filters))
    options.patterns.push_back(point + condition);
  if (options.profile) {
    options.verb = "latency";
    options.event_format = EventFormat::text;
    options.bits = stats::kMaxFractionBits;
    return;
  }
  options.verb = "trace";
  options.tree = options.event_format == EventFormat::function_graph;
}

}  // namespace pinprick::cli
