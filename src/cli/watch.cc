// pinprick count and pinprick latency: attach, arm, print, detach.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "base/clock.h"
#include "cli/attach.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "image/loader.h"
#include "probe/hooks.h"
#include "probe/instructions.h"
#include "session/registry.h"
#include "target/procfs.h"

namespace pinprick::cli {
namespace {

using probe::Kind;

// Signals that mean: print the result, detach, end. Blocked from before the first probe is in
// place, so that none of them can end us halfway.
class Interrupts {
 public:
  Interrupts() {
    sigset_t set;
    sigemptyset(&set);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    // Whoever reads our output may go away, or a limit be reached; then we have probes to remove.
    // By a handler: a program that we start would inherit it that a signal is ignored.
    for (int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, [](int) {});
    descriptor_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  int descriptor() const { return descriptor_.get(); }
  bool arrived() {
    signalfd_siginfo info;
    return ::read(descriptor_.get(), &info, sizeof info) == sizeof info;
  }

 private:
  Fd descriptor_;
};

// What was armed at one time: all that was there at first, then what was loaded.
struct Generation {
  std::unique_ptr<image::ProcessImage> image;
  session::Session session;
  std::vector<uint64_t> last_counters;
  std::vector<uint64_t> last_unwound;
  std::vector<stats::Histogram> last_histograms;
};

// Where an object was loaded.
using Place = std::pair<std::string, uint64_t>;

std::set<Place> places(const image::ProcessImage& image) {
  std::set<Place> places;
  for (const auto& object : image.objects) places.emplace(object->path(), object->bias());
  return places;
}

// The process, or the program in it.
bool has_ended(const target::RemoteTarget& target) {
  return target.has_exited() || !target.same_image();
}

// One process under observation.
struct Watched {
  Watched(ProcessName process, target::RemoteTarget running)
      : name(std::move(process)), target(std::move(running)) {}

  ProcessName name;
  target::RemoteTarget target;  // the program that it runs
  std::vector<Generation> generations;
  size_t program = 0;     // the first generation of that program: it has the hook in the loader
  std::set<Place> known;  // objects that were looked at, and are still there
  std::optional<session::DisarmReport> disarmed;
  uint64_t armed_ns = 0;
  uint64_t ended_ns = 0;  // 0: still there
  uint64_t last_ns = 0;

  session::LoaderWatch* loader() const {
    return program < generations.size() ? generations[program].session.loader() : nullptr;
  }
  // Readable when something happens.
  std::vector<int> descriptors() const {
    std::vector<int> all = {target.exit_descriptor()};
    if (loader() != nullptr) all.push_back(loader()->descriptor());
    return all;
  }
  bool has_loaded() const {
    pollfd request = {loader() != nullptr ? loader()->descriptor() : -1, POLLIN, 0};
    return ::poll(&request, 1, 0) == 1;
  }

  double seconds(uint64_t since) const {
    const uint64_t until = ended_ns != 0 ? ended_ns : monotonic_ns();
    return static_cast<double>(until - since) / 1e9;
  }
};

class Watch {
 public:
  Watch(const Options& options, Kind kind, Renderer& renderer)
      : options_(options), kind_(kind), renderer_(renderer) {}

  int run();

 private:
  Result<void, Message> begin();
  Result<void, Message> arm(pid_t pid);
  Result<void, Message> arm_program(Watched& watched);
  bool follow_exec(Watched& watched);
  Result<probe::ProbeSet, Message> plan(const Subject& subject);
  void follow(Watched& watched);
  void look_again(Watched& watched);
  Result<void, Message> arm_loaded(Watched& watched, Subject subject,
                                   const std::set<Place>& before);
  void leave_out_unfinished(const Watched& watched, std::vector<image::Match>& matches);
  void forget_unloaded(Watched& watched, const image::ProcessImage& image);
  void warn_of_unwinding(const ProcessName& process, const image::ProcessImage& image,
                         const session::ArmReport& report);
  session::ArmOptions arm_options() const {
    return {options_.bits, options_.slots, options_.count_children};
  }
  void wait();
  void notice_ends();
  bool all_ended() const;
  void report_all(bool is_final);
  template <class Row>
  Report<Row> report(Watched& watched, bool is_final,
                     std::vector<Row> (*rows_of)(Generation&, bool));
  int end();
  void disarm_all();
  int command_status();
  int fail_with(const Message& message);

  const Options& options_;
  Kind kind_;
  Patterns patterns_;
  Renderer& renderer_;
  Interrupts interrupts_;
  std::vector<Watched> watched_;
  std::optional<session::Launched> launched_;
  bool incomplete_ = false;  // something could not be probed
  bool lost_ = false;        // something was not measured
  bool disarm_failed_ = false;
};

void Watch::warn_of_unwinding(const ProcessName& process, const image::ProcessImage& image,
                              const session::ArmReport& report) {
  if (kind_ != Kind::latency || report.armed == 0 || !may_unwind(image)) return;
  if (report.unwinders != 0 && !image.maps_other_unwinder) return;
  renderer_.warning(fmt::format(
      "{} can unwind its stack, but not with libgcc's unwinder: an exception that passes "
      "through a timed function ends the program, a thread that is cancelled inside of "
      "one ends without its cleanup; `count` is safe",
      process.command));
}

// Where the loader of the process can be made to wait for us, if what it loads may matter.
std::optional<probe::HookPlace> follows_by(const Subject& subject, const Patterns& patterns) {
  const pid_t pid = subject.target.pid();
  // A filter might end the process for the system calls by which it would wait.
  const auto status = target::read_status(pid);
  if (!status || status->seccomp != 0 || !may_match_later(*subject.image, patterns))
    return std::nullopt;
  const auto notifies = image::loader_notifies_at(pid, subject.target.reader());
  return notifies ? probe::place_in_loader(*subject.image, *notifies) : std::nullopt;
}

Result<probe::ProbeSet, Message> Watch::plan(const Subject& subject) {
  const Progress progress("reading symbols, decoding", !options_.json);
  image::ProcessImage& image = *subject.image;
  const auto loader = follows_by(subject, patterns_);
  auto matches = match(image, patterns_, options_.allow_missing, loader.has_value());
  if (!matches) return fail(matches.error());
  if (options_.instructions) *matches = probe::every_instruction(*matches);
  return probe::plan_probes(image, *std::move(matches), kind_, loader);
}

Result<void, Message> Watch::arm(pid_t pid) {
  if (auto other = session::occupant(pid)) return fail(message(session::SessionError(*other)));
  auto target = target::RemoteTarget::open(pid);
  if (!target) return fail(message(target.error()));
  ProcessName name = {pid, target->command()};
  Watched watched(std::move(name), *std::move(target));
  if (auto armed = arm_program(watched); !armed) return armed;
  watched.armed_ns = watched.last_ns = monotonic_ns();
  watched_.push_back(std::move(watched));
  return {};
}

Result<void, Message> Watch::arm_program(Watched& watched) {
  const uint64_t begin_ns = monotonic_ns();
  auto subject = look_at(watched.name.pid);
  if (!subject) return fail(subject.error());
  for (const std::string& warning : subject->warnings) renderer_.warning(warning);
  watched.known = places(*subject->image);
  auto set = plan(*subject);
  // A process that ends meanwhile has no code to read, which looks like any of several things.
  if (!subject->target.same_image())
    return fail(
        message(target::AttachError{target::AttachCause::exited, watched.name.pid, 0, 0, {}}));
  if (!set) return fail(set.error());
  auto armed = session::Session::arm(std::move(subject->target), *subject->image, *std::move(set),
                                     arm_options());
  if (!armed) return fail(message(armed.error()));
  const auto& report = armed->report();
  warn_of_unwinding(watched.name, *subject->image, report);
  renderer_.armed(watched.name, report, monotonic_ns() - begin_ns,
                  options_.duration_s == 0 && !launched_);
  renderer_.flush();
  if (!report.skipped.empty()) incomplete_ = true;
  if (report.armed == 0 && armed->loader() == nullptr)
    return fail(Message{"nothing_armed", "none of the functions can be probed", kNothingMatched});
  watched.generations.push_back({std::move(subject->image), *std::move(armed), {}, {}, {}});
  // What was loaded since we looked had nobody to wait for.
  if (watched.loader() != nullptr) look_again(watched);
  return {};
}

// What is loaded later. The process waits meanwhile, and has not run any of it yet.
void Watch::follow(Watched& watched) {
  const auto request = watched.loader()->take();
  if (!request) return;
  look_again(watched);
  watched.loader()->answer(*request);
  renderer_.flush();
}

// Not while the loader is at work: it tells of what it is about to do, and again when it is done.
void Watch::look_again(Watched& watched) {
  if (image::loader_is_at_work(watched.name.pid, watched.target.reader())) return;
  auto subject = look_at(watched.name.pid);
  if (!subject || subject->target.start_time() != watched.target.start_time()) return;
  forget_unloaded(watched, *subject->image);
  const std::set<Place> now = places(*subject->image);
  const std::set<Place> before = std::exchange(watched.known, now);
  if (std::includes(before.begin(), before.end(), now.begin(), now.end())) return;
  if (auto armed = arm_loaded(watched, *std::move(subject), before); !armed) {
    renderer_.warning(fmt::format("what was loaded is not probed: {}", armed.error().text));
    incomplete_ = true;
  }
}

Result<void, Message> Watch::arm_loaded(Watched& watched, Subject subject,
                                        const std::set<Place>& before) {
  // Where threads may return to sessions of ours, they are many; each takes memory.
  constexpr size_t kMostGenerations = 256;
  const uint64_t begin_ns = monotonic_ns();
  image::ProcessImage& image = *subject.image;
  auto matches = image::match_patterns(image, patterns_.wanted, patterns_.excluded,
                                       [&](const image::Object& object) {
                                         return !before.contains({object.path(), object.bias()});
                                       })
                     .matches;
  leave_out_unfinished(watched, matches);
  if (matches.empty()) return {};
  if (watched.generations.size() - watched.program == kMostGenerations)
    return fail(Message{"too_many_loads",
                        fmt::format("probes were added {} times, and no more are; start pinprick "
                                    "again to probe what is there now",
                                    kMostGenerations - 1),
                        kFailed});
  std::vector<std::string> names;
  for (const image::Match& match : matches)
    if (names.empty() || names.back() != match.object->name())
      names.push_back(match.object->name());
  if (options_.instructions) matches = probe::every_instruction(matches);
  auto armed =
      session::Session::arm(std::move(subject.target), image,
                            probe::plan_probes(image, std::move(matches), kind_), arm_options());
  if (!armed) return fail(message(armed.error()));
  const auto& report = armed->report();
  warn_of_unwinding(watched.name, image, report);
  renderer_.loaded(watched.name, names, report, monotonic_ns() - begin_ns);
  if (!report.skipped.empty()) incomplete_ = true;
  if (report.armed != 0)
    watched.generations.push_back({std::move(subject.image), *std::move(armed), {}, {}, {}});
  return {};
}

// The loader has told us of an object before it relocates it. Where that writes into the text, it
// would write into our jumps, and tells nobody when it is done.
void Watch::leave_out_unfinished(const Watched& watched, std::vector<image::Match>& matches) {
  const image::Object* warned_of = nullptr;
  std::erase_if(matches, [&](const image::Match& match) {
    if (!match.object->elf().has_text_relocations()) return false;
    if (std::exchange(warned_of, match.object) != match.object)
      renderer_.warning(fmt::format(
          "{} loaded {}, whose code is yet to be changed by the loader (DT_TEXTREL): not probed; "
          "start pinprick again to probe it",
          watched.name.command, match.object->name()));
    return true;
  });
  if (warned_of != nullptr) incomplete_ = true;
}

// Probes in objects that are not there any more. A session of nothing else goes; but not where
// hooks of later ones may lie upon its own.
void Watch::forget_unloaded(Watched& watched, const image::ProcessImage& image) {
  std::vector<std::string> names;
  for (size_t i = watched.program; i < watched.generations.size(); ++i)
    for (session::Unloaded& object : watched.generations[i].session.note_unloaded(image)) {
      watched.known.erase({object.path, object.bias});
      names.push_back(std::move(object.name));
    }
  if (!names.empty()) renderer_.unloaded(watched.name, names);
  for (size_t i = watched.generations.size(); i-- > watched.program + 1;) {
    session::Session& session = watched.generations[i].session;
    if (session.is_gone())
      static_cast<void>(session.disarm());
    else if (kind_ == Kind::latency)
      break;
  }
}

// Another program in the same process: what there was is gone, with all its memory. False: it
// cannot be looked at, or there is none.
bool Watch::follow_exec(Watched& watched) {
  auto target = target::RemoteTarget::open(watched.name.pid);
  if (!target) {
    if (!watched.target.has_exited()) renderer_.warning(message(target.error()).text);
    return false;
  }
  if (target->start_time() != watched.target.start_time()) return false;
  for (size_t i = watched.program; i < watched.generations.size(); ++i)
    static_cast<void>(watched.generations[i].session.disarm());
  watched.program = watched.generations.size();
  watched.target = *std::move(target);
  watched.name.command = watched.target.command();
  renderer_.executed(watched.name);
  if (auto armed = arm_program(watched); !armed && !has_ended(watched.target))
    renderer_.warning(armed.error().text);
  renderer_.flush();
  return true;
}

Result<void, Message> Watch::begin() {
  auto patterns = parse_patterns(options_);
  if (!patterns) return fail(patterns.error());
  patterns_ = *std::move(patterns);
  std::vector<pid_t> pids = options_.pids;
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  if (options_.has_command()) {
    auto launched = session::Launched::start(options_.command);
    if (!launched) return fail(message(launched.error()));
    launched_.emplace(*std::move(launched));
    pids = {launched_->pid()};
  }
  for (pid_t pid : pids)
    if (auto armed = arm(pid); !armed) return armed;
  if (launched_) launched_->release();
  return {};
}

void Watch::notice_ends() {
  for (Watched& watched : watched_) {
    if (watched.ended_ns != 0) continue;
    if (!has_ended(watched.target)) continue;
    if (!options_.follow_exec || watched.target.has_exited() || !follow_exec(watched))
      watched.ended_ns = monotonic_ns();
  }
}

bool Watch::all_ended() const {
  return std::all_of(watched_.begin(), watched_.end(),
                     [](const Watched& watched) { return watched.ended_ns != 0; });
}

// Until there is a reason to end: a signal, the time, the end of all processes, nobody reading.
void Watch::wait() {
  const uint64_t start = monotonic_ns();
  const auto after = [&](double seconds) {
    return start + static_cast<uint64_t>(std::llround(seconds * 1e9));
  };
  const uint64_t deadline = options_.duration_s > 0 ? after(options_.duration_s) : UINT64_MAX;
  uint64_t intervals = 1;
  // Nobody tells when slots run short, nor of an exec, which changes the program without ending the
  // process: look now and then, and often if it matters.
  const uint64_t look_again_ns = options_.follow_exec     ? 2'000'000
                                 : kind_ == Kind::latency ? 20'000'000
                                                          : 500'000'000;
  for (;;) {
    const uint64_t next_report = options_.interval_s > 0
                                     ? after(options_.interval_s * static_cast<double>(intervals))
                                     : UINT64_MAX;
    const uint64_t now = monotonic_ns();
    if (now >= deadline) return;
    if (now >= next_report) {
      ++intervals;
      report_all(false);
      if (renderer_.is_broken()) return;
      continue;
    }
    std::vector<pollfd> descriptors = {{interrupts_.descriptor(), POLLIN, 0}};
    for (const Watched& watched : watched_)
      if (watched.ended_ns == 0)
        for (int descriptor : watched.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
    const uint64_t until = std::min({deadline, next_report, now + look_again_ns});
    const timespec timeout = {static_cast<time_t>((until - now) / 1'000'000'000),
                              static_cast<long>((until - now) % 1'000'000'000)};
    ::ppoll(descriptors.data(), descriptors.size(), &timeout, nullptr);
    if (interrupts_.arrived()) return;
    notice_ends();
    if (all_ended()) return;
    for (Watched& watched : watched_) {
      if (watched.ended_ns != 0) continue;
      for (size_t i = watched.program; i < watched.generations.size(); ++i)
        watched.generations[i].session.provide_slots();
      if (watched.has_loaded()) follow(watched);
    }
  }
}

namespace {

void add(CountRow& to, const CountRow& from) {
  to.hits += from.hits;
}

void add(LatencyRow& to, const LatencyRow& from) {
  to.histogram.merge(from.histogram);
  to.missed += from.missed;
  to.unwound += from.unwound;
}

// The rows of all generations. What was unloaded and loaded again is one row.
template <class Row>
class Rows {
 public:
  // Of one generation; functions of one name are told apart by their order.
  void add_all(std::vector<Row> generation) {
    std::map<std::pair<std::string, std::string>, size_t> seen;
    for (Row& row : generation) {
      const std::pair name(row.object, row.function);
      const auto [at, is_new] = index_.try_emplace({name, seen[name]++}, rows_.size());
      if (is_new)
        rows_.push_back(std::move(row));
      else
        add(rows_[at->second], row);
    }
  }
  std::vector<Row> take() { return std::move(rows_); }

 private:
  std::vector<Row> rows_;
  std::map<std::pair<std::pair<std::string, std::string>, size_t>, size_t> index_;
};

// Since the generation's last report, or in all.
std::vector<CountRow> count_rows(Generation& generation, bool is_final) {
  std::vector<CountRow> rows;
  auto counters = generation.session.counters();
  generation.last_counters.resize(counters.size());
  for (const auto& [probe, index] : generation.session.probes()) {
    const uint64_t before = is_final ? 0 : generation.last_counters[index];
    rows.push_back({probe.match.object->name(), probe.match.name, counters[index] - before});
  }
  generation.last_counters = std::move(counters);
  return rows;
}

std::vector<LatencyRow> latency_rows(Generation& generation, bool is_final) {
  std::vector<LatencyRow> rows;
  auto missed = generation.session.counters();
  auto unwound = generation.session.unwound();
  generation.last_counters.resize(missed.size());
  generation.last_unwound.resize(unwound.size());
  std::vector<stats::Histogram> histograms;
  const bool whole = is_final || generation.last_histograms.empty();
  for (const session::ArmedProbe& armed : generation.session.probes()) {
    const auto& [probe, index] = armed;
    histograms.push_back(generation.session.histogram(armed));
    rows.push_back(
        {probe.match.object->name(), probe.match.name,
         whole ? histograms.back()
               : histograms.back().since(generation.last_histograms[histograms.size() - 1]),
         missed[index] - (is_final ? 0 : generation.last_counters[index]),
         unwound[index] - (is_final ? 0 : generation.last_unwound[index])});
  }
  generation.last_histograms = std::move(histograms);
  generation.last_counters = std::move(missed);
  generation.last_unwound = std::move(unwound);
  return rows;
}

}  // namespace

template <class Row>
Report<Row> Watch::report(Watched& watched, bool is_final,
                          std::vector<Row> (*rows_of)(Generation&, bool)) {
  Report<Row> report;
  report.process = watched.name;
  report.is_final = is_final;
  report.seconds = watched.seconds(is_final ? watched.armed_ns : watched.last_ns);
  Rows<Row> rows;
  for (Generation& generation : watched.generations) rows.add_all(rows_of(generation, is_final));
  report.rows = rows.take();
  return report;
}

void Watch::report_all(bool is_final) {
  for (Watched& watched : watched_) {
    if (kind_ == Kind::count) {
      renderer_.counts(report(watched, is_final, count_rows));
    } else {
      const auto latencies = report(watched, is_final, latency_rows);
      for (const LatencyRow& row : latencies.rows) lost_ = lost_ || row.missed != 0;
      renderer_.latencies(latencies);
    }
    watched.last_ns = monotonic_ns();
  }
}

// The last generation first: its hooks may lie upon those of earlier ones.
void Watch::disarm_all() {
  for (Watched& watched : watched_) {
    for (size_t i = watched.generations.size(); i-- > watched.program;) {
      auto report = watched.generations[i].session.disarm();
      if (!report) {
        renderer_.error(message(report.error()));
        disarm_failed_ = true;
        continue;
      }
      if (!watched.disarmed) watched.disarmed.emplace();
      *watched.disarmed += *report;
      if (report->foreign != 0) disarm_failed_ = true;
    }
  }
}

int Watch::command_status() {
  const int status = launched_->wait();
  constexpr int kSignalBase = 128;  // as shells do
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
}

int Watch::fail_with(const Message& message) {
  renderer_.error(message);
  disarm_all();
  renderer_.flush();
  return options_.has_command() && message.exit != kUsage ? kFailedWithCommand : message.exit;
}

// What was counted is read after the last probe is out, so that nothing is missing.
int Watch::end() {
  notice_ends();
  const uint64_t now = monotonic_ns();
  for (Watched& watched : watched_)
    if (watched.ended_ns == 0) watched.ended_ns = now;
  disarm_all();
  report_all(true);
  for (const Watched& watched : watched_)
    if (watched.disarmed) renderer_.detached(watched.name, *watched.disarmed);
  renderer_.flush();
  if (launched_) {
    const int status = command_status();
    return disarm_failed_ ? kFailedWithCommand : status;
  }
  if (disarm_failed_ || renderer_.is_broken()) return kFailed;
  if (lost_ && options_.fail_on_loss) return kLost;
  if (incomplete_ && !options_.allow_missing) return kFailed;
  return kOk;
}

int Watch::run() {
  if (auto begun = begin(); !begun) return fail_with(begun.error());
  wait();
  return end();
}

}  // namespace

int run_count(const Options& options, Renderer& renderer) {
  return Watch(options, Kind::count, renderer).run();
}

int run_latency(const Options& options, Renderer& renderer) {
  return Watch(options, Kind::latency, renderer).run();
}

}  // namespace pinprick::cli
