// pinprick: the command line.
#include <cerrno>
#include <cstdio>
#include <new>
#include <system_error>

#include "base/fd.h"
#include "base/heap.h"
#include "cli/measure/event_dumps.h"
#include "cli/messages/verb_messages.h"
#include "cli/object_store.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/render/json.h"
#include "cli/render/text_width.h"
#include "cli/renderers.h"
#include "cli/verbs/verbs.h"
#include "ledger/discovery.h"

namespace pinprick::cli {
namespace {

bool plans(const std::string& verb) {
  return verb == "list" || verb == "count" || verb == "latency" || verb == "hist" ||
         verb == "measure" || verb == "top" || verb == "kstats" || verb == "trace" ||
         verb == "leaks" || verb == "locks";
}

int fail_to_write(const Options& options, int error) {
  const Message why = cannot_write(options.output, error);
  std::fprintf(stderr, "pinprick: %s\n", printable(why.text, true).c_str());
  if (options.json)
    JsonRenderer(Output(options.has_command() ? stderr : stdout, Color::never)).error(why);
  return options.has_command() ? kFailedWithCommand : kFailed;
}

int run(const Options& given) {
  const Options options = given.verb == "report" ? with_recording(given)
                          : given.collect        ? with_left_events(given)
                                                 : given;
  // Each dump of a repeated recording has a file of its own (measure/event_dumps.h).
  Options without_file = options;
  without_file.output.clear();
  auto opened = open_renderer(numbers_files(options) ? without_file : options);
  if (!opened) return fail_to_write(options, opened.error());
  Renderer& renderer = *opened->renderer;

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
  if (plans(options.verb) && options.verb != "kstats" && options.verb != "top" && !options.collect)
    ledger::remove_files_of_dead();
  if (options.cache &&
      (plans(options.verb) || options.verb == "completion" || options.verb == "calls"))
    use_cache();
  for (const Verb& verb : kVerbs) {
    if (options.verb != verb.name) continue;
    const int exit = verb.run(options, renderer);
    renderer.conclude();
    renderer.flush();
    const int error = renderer.error_of_writing();
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
