// pinprick: the command line.
#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <system_error>

#include "base/fd.h"
#include "base/heap.h"
#include "cli/export_choice.h"
#include "cli/measure/patterns.h"
#include "cli/messages/verb_messages.h"
#include "cli/object_store.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/render/ftrace.h"
#include "cli/render/function_profile.h"
#include "cli/render/json.h"
#include "cli/render/text.h"
#include "cli/render/text_width.h"
#include "cli/replaced_file.h"
#include "cli/top/table_renderer.h"
#include "cli/trace_folder.h"
#include "cli/verbs/verbs.h"
#include "export/ctf.h"
#include "export/format.h"
#include "ledger/discovery.h"

namespace pinprick::cli {
namespace {

bool plans(const std::string& verb) {
  return verb == "list" || verb == "count" || verb == "latency" || verb == "hist" ||
         verb == "measure" || verb == "top" || verb == "kstats" || verb == "trace" ||
         verb == "leaks" || verb == "locks";
}

// May the results be of more than one process?
bool shows_several(const Options& options) {
  return options.pids.size() > 1 || options.by_pid ||
         (options.verb == "calls" && options.pids.empty());
}

std::unique_ptr<Renderer> renderer_for_people(const Output& data, const Options& options) {
  const TextRenderer text(data, Output::standard_error(options.color), shows_several(options),
                          options.all, options.top,
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

int fail_to_write(const Options& options, int error) {
  const std::string why = cannot_write(options.output, error).text;
  std::fprintf(stderr, "pinprick: %s\n", printable(why, true).c_str());
  return options.has_command() ? kFailedWithCommand : kFailed;
}

int run(const Options& given) {
  const Options options = given.verb == "report" ? with_recording(given) : given;
  // With -- COMMAND, stdout belongs to the program.
  std::FILE* stream = options.has_command() ? stderr : stdout;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(nullptr, &std::fclose);
  // Metrics are written to another file, which takes the place of this one.
  const bool is_replaced =
      !options.output.empty() && exports::format_of(options.output) == exports::Format::prometheus;
  if (is_replaced) {
    if (const int error = why_not_replaceable(options.output); error != 0)
      return fail_to_write(options, error);
  } else if (!options.output.empty()) {
    std::string path = options.output;
    if (exports::format_of(path) == exports::Format::ctf) {
      if (const int error = make_trace_folder(path); error != 0)
        return fail_to_write(options, error);
      path += "/" + std::string(exports::kCtfStream);
    }
    const int opened = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (opened >= 0) file.reset(::fdopen(opened, "w"));
    if (!file) return fail_to_write(options, errno);
    stream = file.get();
  }
  const Output data(stream, options.color, file ? Output::Kind::replaced : Output::Kind::appended);
  std::unique_ptr<Renderer> renderer;
  if (options.json)
    renderer = std::make_unique<JsonRenderer>(data, options.has_command());
  else if (options.verb == "top")
    renderer =
        std::make_unique<top::TableRenderer>(data, Output::standard_error(options.color), options);
  else
    renderer = renderer_for_people(data, options);

  struct Verb {
    const char* name;
    int (*run)(const Options&, Renderer&);
  };
  constexpr Verb kVerbs[] = {
      {"", run_first_screen}, {"doctor", run_doctor}, {"list", run_list},
      {"count", run_watch},   {"latency", run_watch}, {"top", run_top},
      {"hist", run_watch},    {"measure", run_watch}, {"calls", run_calls},
      {"status", run_status}, {"detach", run_detach}, {"keep", run_keep},
      {"kstats", run_kstats}, {"mount", run_mount},   {"completion", run_completion},
      {"trace", run_watch},   {"report", run_report}, {"leaks", run_leaks},
      {"locks", run_locks},   {"diff", run_diff},     {"serve", run_serve}};
  // Other verbs show, and remove, what is left of processes that have ended.
  if (plans(options.verb) && options.verb != "kstats" && options.verb != "top")
    ledger::remove_files_of_dead();
  if (options.cache &&
      (plans(options.verb) || options.verb == "completion" || options.verb == "calls"))
    use_cache();
  for (const Verb& verb : kVerbs) {
    if (options.verb != verb.name) continue;
    const int exit = verb.run(options, *renderer);
    renderer->conclude();
    renderer->flush();
    const int error = renderer->error_of_writing();
    // One who reads no further knows that.
    if (error != 0 && error != EPIPE)
      std::fprintf(stderr, "pinprick: %s\n",
                   cannot_write(options.output.empty() ? "the results" : options.output, error)
                       .text.c_str());
    if (error != 0 && exit == kOk && !options.has_command()) return kFailed;
    return exit;
  }
  return kUsage;
}

// Of what CLI11 has written.
int exit_of_help(int exit) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit;
  std::fprintf(stderr, "pinprick: %s\n", cannot_write("the help", errno).text.c_str());
  return exit == kOk ? kFailed : exit;
}

}  // namespace
}  // namespace pinprick::cli

int main(int argc, char** argv) {
  using namespace pinprick::cli;
  pinprick::prepare_heap();
  pinprick::raise_descriptor_limit();
  bool has_command = false;
  // If an exception gets here, everything that was armed is disarmed already.
  try {
    const ParseOutcome outcome = parse_command_line(argc, argv);
    if (!outcome.options) return exit_of_help(outcome.exit_code);
    // NOLINTNEXTLINE(clang-analyzer-deadcode.DeadStores): read after the handlers
    has_command = outcome.options->has_command();
    return run(*outcome.options);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "pinprick: %s\n", kOutOfMemory);
  } catch (const std::system_error&) {  // of a thread that the system does not let us start
    std::fprintf(stderr, "pinprick: %s\n", kOutOfThreads);
  }
  return has_command ? kFailedWithCommand : kFailed;
}
