// pinprick kstats: statistics that stay in a process.
#include <signal.h>

#include <cerrno>
#include <optional>

#include "cli/messages/verb_messages.h"
#include "cli/object_store.h"
#include "cli/verbs/session_statistics.h"
#include "cli/verbs/verbs.h"
#include "control/command.h"
#include "ledger/discovery.h"
#include "ledger/turn.h"
#include "session/statistics.h"
#include "target/memory.h"
#include "target/procfs.h"

namespace pinprick::cli {
namespace {

using control::Verb;

// Ctrl-C waits until a change is made: it takes less than a second, and half of it would stay.
class Undisturbed {
 public:
  Undisturbed() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&signals, signal);
    sigprocmask(SIG_BLOCK, &signals, &before_);
  }
  ~Undisturbed() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  sigset_t before_;
};

// A statistic may be hidden by it.
void warn_of_unreadable(pid_t pid, Renderer& renderer) {
  for (const auto& error : ledger::find_sessions(pid).unreadable)
    renderer.warning(message(error).text);
}

int list(const session::Statistics& statistics, pid_t pid, Renderer& renderer) {
  const auto all = statistics.read_all();
  if (const auto why = all.empty() ? why_no_statistics(pid) : std::nullopt)
    return give_up(renderer, refused_command(*why));
  warn_of_unreadable(pid, renderer);
  renderer.statistic_names(pid, all);
  for (const auto& one : all)
    for (const std::string& line : shortfalls(one)) renderer.warning(line);
  return kOk;
}

int show(const session::Statistics& statistics, pid_t pid, const std::string& name,
         StatisticForm form, Renderer& renderer) {
  if (name.empty()) {
    form.with_name = true;
    const auto all = statistics.read_all();
    if (const auto why = all.empty() ? why_no_statistics(pid) : std::nullopt)
      return give_up(renderer, refused_command(*why));
    warn_of_unreadable(pid, renderer);
    for (const auto& one : all) {
      renderer.statistic(pid, one, form);
      for (const std::string& line : shortfalls(one)) renderer.warning(line);
    }
    return kOk;
  }
  const auto figures = statistics.read(name);
  if (!figures) return give_up(renderer, refused_command(figures.error()));
  renderer.statistic(pid, *figures, form);
  for (const std::string& line : shortfalls(*figures)) renderer.warning(line);
  return kOk;
}

}  // namespace

int run_kstats(const Options& options, Renderer& renderer) {
  const auto command = control::parse_command(options.patterns);
  if (!command) return give_up(renderer, refused_command(command.error()));
  const pid_t pid = options.pids.front();
  session::Statistics statistics(pid, object_store());
  int exit = kOk;
  if (command->verb == Verb::list) {
    exit = list(statistics, pid, renderer);
  } else if (command->verb == Verb::show) {
    exit = show(statistics, pid, command->name, {false, options.density}, renderer);
  } else {
    // Others may change the process for long, and then we may still be interrupted.
    const auto turn = ledger::Turn::take(pid);
    const Undisturbed until_done;
    const auto done = change_statistic(statistics, *command, options.force);
    object_store().write_pending();
    if (!done) return give_up(renderer, refused_command(done.error()));
  }
  renderer.flush();
  return exit == kOk && renderer.is_broken() ? kFailed : exit;
}

}  // namespace pinprick::cli
