#include "cli/export_choice.h"

#include "cli/render/csv.h"
#include "cli/render/ctf.h"
#include "cli/render/folded.h"
#include "cli/render/html_events.h"
#include "cli/render/html_figures.h"
#include "cli/render/perfetto.h"
#include "cli/render/pprof.h"
#include "cli/render/prometheus.h"
#include "cli/render/recording.h"
#include "cli/version.h"
#include "export/format.h"

namespace pinprick::cli {

using exports::Format;

namespace {

bool shows_events(const Options& options) {
  return options.verb == "trace" || options.verb == "report";
}

std::string command_line_of(const Options& options) {
  std::string command_line = "pinprick";
  for (const std::string& word : options.words) command_line += " " + word;
  return command_line;
}

recording::Header header_of(const Options& options) {
  return {.version = version_text(),
          .command_line = command_line_of(options),
          .clocks = recording::Clocks::now(),
          .patterns = options.patterns,
          .is_regex = options.regex,
          .is_tree = options.tree,
          .has_until = !options.until.empty(),
          .after_ns = options.after_ns,
          .slower_ns = options.limits.slower_ns,
          .faster_ns = options.limits.faster_ns};
}

std::optional<std::string> contradiction_of_trace(const Options& options, Format format) {
  const bool is_of_paths = format == Format::folded || format == Format::pprof;
  if (!options.graph.empty())
    return "--graph is for people, or with --json for programs; for other tools, --functions -o "
           "FILE.folded or .pb.gz has all calls";
  if (options.functions && !is_of_paths)
    return "--functions becomes a flame graph (.folded) or a profile (.pb.gz); for others, use "
           "--json";
  if (options.functions && options.top != 0)
    return "--top is for tables; a file for other tools has all functions";
  if (options.functions) return std::nullopt;
  if (options.verb == "report" && is_of_paths)
    return "a flame graph (.folded) or a profile (.pb.gz) is of functions: give --functions, too";
  if (format == Format::folded)
    return "a file for flame graphs (.folded) has figures by stack: use count, latency or hist "
           "with --by stack";
  if (format == Format::prometheus)
    return "metrics (.prom) are figures: use count, latency, hist or measure; for events, .html, "
           ".pftrace, .ctf or .csv";
  if (format == Format::pprof)
    return "a profile (.pb.gz) has figures: use count or latency; for events, .html, .pftrace, "
           ".ctf or .csv";
  if (format == Format::recording && options.verb == "report")
    return "it is a recording already: give --json, or a FILE.html, .pftrace, .ctf or .csv";
  if (options.tree && options.verb != "report" && format == Format::csv)
    return "a table (.csv) has a line for each event, and no tree: leave --tree out, or write a "
           ".pftrace or .ctf";
  return contradiction_of_part(options);
}

}  // namespace

std::optional<std::string> contradiction_of_part(const Options& options) {
  const auto format = exports::format_of(options.output);
  const bool shows_part = !options.limits.empty() || options.depth != 0 ||
                          !options.tree_in.empty() || !options.tree_not_in.empty();
  if (!format || !options.tree || !shows_part) return std::nullopt;
  switch (*format) {
    case Format::recording:
      return "a recording (.rec) has the whole tree: give --slower, --depth, --in and --not-in to "
             "`pinprick report`";
    case Format::page:
      return "a page (.html) has the whole tree: --slower, --depth, --in and --not-in go without "
             "it";
    case Format::csv:
      return "a table (.csv) has a line for each event, and no tree: --slower, --depth, --in and "
             "--not-in go without it";
    default:
      return "a trace (.pftrace, .ctf) has the whole tree: --slower, --depth, --in and --not-in go "
             "without it";
  }
}

std::optional<std::string> contradiction_of_format(const Options& options) {
  const auto format = exports::format_of(options.output);
  if (!format) return std::nullopt;
  if (options.json)
    return "the end of the name says the format, and --json another: name the file .json, or leave "
           "--json out";
  if (options.verb == "top")
    return "top shows figures while they change: for a file, use count, latency, hist or measure";
  if (options.verb == "diff" && *format != Format::folded)
    return "diff writes stacks for a differential flame graph (.folded): for others, use --json";
  if (options.verb == "diff" && options.top != 0)
    return "--top is for tables; a file for other tools has all stacks";
  if (options.verb == "diff") return std::nullopt;
  if (shows_events(options)) return contradiction_of_trace(options, *format);
  if (options.verb == "leaks" && *format != Format::folded)
    return "what was not freed can be a flame graph (.folded); for other tools, use --json";
  if (options.verb == "locks")
    return "what locks do is a table: for other tools, use --json, and a name without this end";
  if (*format == Format::recording)
    return "a recording (.rec) has events: use trace or record; for figures, .csv, .prom, .pb.gz "
           "or .html";
  if (*format == Format::perfetto || *format == Format::ctf)
    return "a trace (.pftrace, .ctf) has events: use trace; for figures, .csv, .prom, .pb.gz or "
           ".html";
  if (options.once)
    return "--once says what was executed, and no figures: use --json for other tools";
  if (options.top != 0) return "--top is for tables; a file for other tools has all functions";
  if (*format == Format::pprof && options.verb != "count" && options.verb != "latency")
    return "a profile (.pb.gz) has calls and times: use count or latency; for others, .csv or "
           ".prom";
  if (*format == Format::folded && options.verb != "leaks" &&
      options.key.find("stack") == options.key.npos)
    return "a file for flame graphs (.folded) has stacks: give --by stack";
  return std::nullopt;
}

std::unique_ptr<Renderer> export_renderer(const Options& options, const TextRenderer& text) {
  const auto format = exports::format_of(options.output);
  if (!format) return nullptr;
  switch (*format) {
    case Format::folded:
      return std::make_unique<FoldedRenderer>(text, *format, options.output);
    case Format::recording:
      return std::make_unique<RecordingRenderer>(text, options.output, header_of(options),
                                                 options.has_command());
    case Format::perfetto:
      return std::make_unique<PerfettoRenderer>(text, options.output, options.tree);
    case Format::ctf:
      return std::make_unique<CtfRenderer>(text, options.output, header_of(options));
    case Format::csv:
      if (shows_events(options)) return std::make_unique<EventsCsvRenderer>(text, options);
      return std::make_unique<FiguresCsvRenderer>(text, options);
    case Format::prometheus:
      return std::make_unique<PrometheusRenderer>(text, options.output, options.key);
    case Format::pprof:
      return std::make_unique<PprofRenderer>(text, options);
    case Format::page:
      if (shows_events(options))
        return std::make_unique<HtmlEventsRenderer>(text, options.output, header_of(options));
      return std::make_unique<HtmlFiguresRenderer>(text, options.output, command_line_of(options));
  }
  return nullptr;
}

}  // namespace pinprick::cli
