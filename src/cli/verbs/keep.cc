// pinprick keep: looks after probes whose controller is gone, so that they can stay.
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <list>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/messages/verb_messages.h"
#include "cli/object_store.h"
#include "cli/verbs/verbs.h"
#include "engine/watch/providing.h"
#include "ledger/discovery.h"
#include "session/caller_watch.h"
#include "session/left_over.h"
#include "session/subject.h"
#include "target/remote_target.h"

namespace pinprick::cli {
namespace {

struct Kept {
  target::RemoteTarget target;
  std::vector<engine::Adopted> sessions;
};

constexpr uint64_t kLookNs = 10'000'000, kSoonNs = 1'000'000, kLookForMoreNs = 1'000'000'000;

// Called repeatedly, as another controller may be killed at any time.
void adopt(Kept& kept) {
  auto more = engine::Adopted::all_of(kept.target.pid(), kept.target.memory());
  std::move(more.begin(), more.end(), std::back_inserter(kept.sessions));
}

// Statistics are provided for as well, but not adopted.
size_t probes_of(const Kept& kept) {
  size_t probes = 0;
  for (const auto& found : ledger::find_sessions(kept.target.pid()).sessions)
    if (session::is_statistic_in_place(found)) probes += found.journal.probes.size();
  for (const engine::Adopted& one : kept.sessions) probes += one.journal().probes.size();
  return probes;
}

void provide_for_all(const Kept& kept) {
  engine::provide_for_kept(kept.target.pid());
  std::vector<const layout::Session*> adopted;
  for (const engine::Adopted& one : kept.sessions) adopted.push_back(&one.journal());
  session::look_after_callers(kept.target, object_store(), adopted);
}

void watch(std::list<Kept>& all, int signals, double seconds) {
  const uint64_t begin = monotonic_ns();
  for (uint64_t looked = begin; !all.empty();) {
    if (seconds > 0 && static_cast<double>(monotonic_ns() - begin) / 1e9 >= seconds) return;
    const bool looks = monotonic_ns() - looked > kLookForMoreNs;
    if (looks) looked = monotonic_ns();
    bool soon = false;
    for (Kept& kept : all) {
      if (looks) adopt(kept);
      if (looks) provide_for_all(kept);
      for (engine::Adopted& one : kept.sessions) soon = one.provide(kept.target.memory()) || soon;
    }
    all.remove_if([](const Kept& kept) { return kept.target.is_over(); });
    const timespec pause = {0, static_cast<long>(soon ? kSoonNs : kLookNs)};
    pollfd signal = {signals, POLLIN, 0};
    if (::ppoll(&signal, 1, &pause, nullptr) != 0) return;
  }
}

}  // namespace

int run_keep(const Options& options, Renderer& renderer) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  const Fd signals(signalfd(-1, &set, SFD_CLOEXEC));
  std::list<Kept> all;
  for (pid_t pid : options.pids) {
    auto target = session::open_target(pid);
    if (!target) {
      const Message why = message(target.error());
      renderer.error(why);
      return why.exit;
    }
    all.push_back({*std::move(target), {}});
    adopt(all.back());
    for (const auto& error : ledger::find_sessions(pid).unreadable)
      renderer.warning(message(error).text);
    if (probes_of(all.back()) == 0) {
      const Message why = nothing_to_keep(pid);
      renderer.error(why);
      return why.exit;
    }
    renderer.kept(pid, probes_of(all.back()), options.duration_s);
  }
  renderer.flush();
  watch(all, signals.get(), options.duration_s);
  return renderer.is_broken() ? kFailed : kOk;
}

}  // namespace pinprick::cli
