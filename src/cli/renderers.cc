#include "cli/renderers.h"

#include <fcntl.h>

#include <cerrno>
#include <string>

#include "cli/export_choice.h"
#include "cli/measure/patterns.h"
#include "cli/output.h"
#include "cli/render/ftrace.h"
#include "cli/render/function_profile.h"
#include "cli/render/json.h"
#include "cli/render/text.h"
#include "cli/replaced_file.h"
#include "cli/top/table_renderer.h"
#include "cli/trace_folder.h"
#include "export/ctf.h"
#include "export/format.h"

namespace pinprick::cli {
namespace {

// May the results be of more than one process?
bool shows_several(const Options& options) {
  return options.pids.size() > 1 || options.by_pid ||
         (options.verb == "calls" && options.pids.empty());
}

std::unique_ptr<Renderer> renderer_for_people(const Output& data, const Output& notes,
                                              const Options& options) {
  const TextRenderer text(data, notes, shows_several(options), options.all, options.top,
                          options.instructions        ? "instruction"
                          : options.verb == "measure" ? "probe"
                          : means_spans(options)      ? "span"
                          : means_points(options)     ? "site"
                                                      : "function",
                          options.figures_of_sums);
  using Tracer = FtraceRenderer::Tracer;
  if (options.event_format == EventFormat::ftrace)
    return std::make_unique<FtraceRenderer>(text, Tracer::nop);
  if (options.event_format == EventFormat::function)
    return std::make_unique<FtraceRenderer>(text, Tracer::function);
  if (options.profile) return std::make_unique<FunctionProfile>(text);
  if (auto for_tools = export_renderer(options, text)) return for_tools;
  return std::make_unique<TextRenderer>(text);
}

// Opens the file, without changing it. Returns the errno if that fails, else 0.
int open_output(const Options& options, OpenRenderer& made) {
  // Metrics are written to another file, which takes the place of this one.
  const auto format = exports::format_of(options.output);
  if (format == exports::Format::prometheus) return why_not_replaceable(options.output);
  std::string path = options.output;
  if (format == exports::Format::ctf) {
    if (const int error = make_trace_folder(path); error != 0) return error;
    path += "/" + std::string(exports::kCtfStream);
  }
  const int opened = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (opened >= 0) made.file.reset(::fdopen(opened, "w"));
  return made.file ? 0 : errno;
}

}  // namespace

Result<OpenRenderer, int> open_renderer(const Options& options, Notes notes) {
  OpenRenderer made;
  if (!options.output.empty())
    if (const int error = open_output(options, made); error != 0) return fail(error);
  // With -- COMMAND, stdout belongs to the program.
  std::FILE* const stream = made.file ? made.file.get() : options.has_command() ? stderr : stdout;
  const Output data(stream, options.color,
                    made.file ? Output::Kind::replaced : Output::Kind::appended);
  Output to_people = Output::standard_error(options.color);
  if (notes == Notes::left_out) to_people.give_up();
  if (options.json)
    made.renderer = std::make_unique<JsonRenderer>(data, options.has_command());
  else if (options.verb == "top")
    made.renderer = std::make_unique<top::TableRenderer>(data, to_people, options);
  else
    made.renderer = renderer_for_people(data, to_people, options);
  return made;
}

}  // namespace pinprick::cli
