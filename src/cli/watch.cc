// pinprick count and pinprick latency: attach, arm, print, detach.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/clock.h"
#include "base/task.h"
#include "cli/attach.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "cli/watched.h"
#include "engine/shared_sites.h"
#include "image/loader.h"
#include "ledger/discovery.h"
#include "ledger/runtime_directory.h"
#include "ledger/turn.h"
#include "placement/hooks.h"
#include "target/hijacked_thread.h"
#include "target/procfs.h"

namespace pinprick::cli {
namespace {

using placement::Kind;

// Signals that mean: print the result, detach, end. Blocked from before the first probe is in
// place, so that none of them can end us halfway.
class Interrupts {
 public:
  Interrupts() : before_(session::SignalTreatment::current()) {
    sigset_t set;
    sigemptyset(&set);
    for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    // Whoever reads our output may go away, or a limit be reached; then we have probes to remove.
    for (int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, [](int) {});
    // To whoever ignores it the kernel does not say how a child ended.
    ::signal(SIGCHLD, SIG_DFL);
    descriptor_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  int descriptor() const { return descriptor_.get(); }
  // As it was, for programs that we start.
  const session::SignalTreatment& before() const { return before_; }
  bool arrived() {
    signalfd_siginfo info;
    if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return false;
    signal_ = static_cast<int>(info.ssi_signo);
    return true;
  }
  // The last one that arrived; 0: none.
  int signal() const { return signal_; }

 private:
  session::SignalTreatment before_;
  Fd descriptor_;
  int signal_ = 0;
};

class Watch {
 public:
  Watch(const Options& options, Kind kind, Renderer& renderer)
      : options_(options), kind_(kind), renderer_(renderer) {}

  int run();

 private:
  Result<void, Message> begin();
  void finish_left(pid_t pid);
  Result<void, Message> arm(pid_t pid);
  Result<void, Message> arm_program(Watched& watched);
  Result<Generation, Message> plan_and_arm(Watched& watched, Subject& subject);
  bool follow_exec(Watched& watched);
  Result<placement::ProbeSet, Message> plan(const Subject& subject);
  Result<placement::ProbeSet, Message> plan_spans(const Subject& subject);
  void follow(Watched& watched);
  void look_again(Watched& watched);
  Result<void, Message> arm_loaded(Watched& watched, std::unique_ptr<image::ProcessImage> now,
                                   const std::set<Place>& before);
  void not_probed(const Watched& watched, const Message& why);
  void leave_out_unfinished(const Watched& watched, std::vector<image::Match>& matches);
  void forget_unloaded(Watched& watched, const image::ProcessImage& image);
  void note_skipped(const engine::ArmReport& report);
  void warn_of_traps(const engine::ArmReport& report);
  void warn_of_refused(const Watched& watched);
  void warn_of_unwinding(const ProcessName& process, const placement::ProbeSet& set);
  void look_for_callers(Watched& watched);
  placement::Risk risk() const {
    return options_.force ? placement::Risk::unknown_unwinder : placement::Risk::none;
  }
  engine::ArmOptions arm_options(const Watched& watched) const {
    return {options_.bits, options_.slots, options_.count_children, options_.trap,
            watched.our_code()};
  }
  void wait();
  void notice_ends();
  void warn_of_exec(const Watched& watched);
  bool all_ended() const;
  void report_all(bool is_final);
  int end();
  void disarm_all();
  void note(Watched& watched, const Result<engine::DisarmReport, ledger::SessionError>& report);
  int command_status();
  int fail_with(const Message& message);

  const Options& options_;
  Kind kind_;
  Patterns patterns_;
  Renderer& renderer_;
  Interrupts interrupts_;
  std::vector<Watched> watched_;
  std::optional<session::Launched> launched_;
  bool incomplete_ = false;  // something that was asked for could not be probed
  bool lost_ = false;        // calls went unmeasured, or uncounted, after the probes were in
  bool disarm_failed_ = false;
};

// A wildcard means what can be probed of all that it matches, as --instructions does; a function's
// name means that one.
void Watch::note_skipped(const engine::ArmReport& report) {
  if (options_.instructions) return;
  for (const placement::Skipped& skipped : report.skipped)
    if (!patterns_.wanted[skipped.match.pattern].has_wildcard()) incomplete_ = true;
}

void Watch::warn_of_traps(const engine::ArmReport& report) {
  if (report.trap_refused) renderer_.warning("--trap: " + why_no_breakpoints(*report.trap_refused));
}

void Watch::warn_of_refused(const Watched& watched) {
  uint64_t refused = 0;
  for (const Generation& generation : watched.generations) refused += generation.session.refused();
  if (refused == 0) return;
  lost_ = true;
  const auto folder = ledger::runtime_directory();
  renderer_.warning(
      fmt::format("{} of the calls that were missed are so since {} had no room for their "
                  "functions' histograms; time fewer functions, or see to more room there",
                  refused, folder ? *folder : "the runtime directory"));
}

void Watch::warn_of_unwinding(const ProcessName& process, const placement::ProbeSet& set) {
  if (!set.may_unwind_elsewhere || set.probes.empty()) return;
  renderer_.warning(fmt::format(
      "{} can unwind its stack, but its unwinder was not found: an exception that passes through a "
      "timed function may end the program, and a thread that is cancelled in one may end without "
      "its cleanup; `count` is safe",
      process.command));
}

// Where the loader of the process can be made to wait for us, if what it loads may matter.
std::optional<placement::HookPlace> follows_by(const Subject& subject, const Patterns& patterns) {
  const pid_t pid = subject.target.pid();
  if (!may_match_later(*subject.image, patterns)) return std::nullopt;
  // A filter, be it of one thread, might end the process for the system call by which it would
  // wait.
  for (const pid_t tid : target::list_threads(pid))
    if (const auto status = target::read_thread_status(pid, tid); status && status->seccomp != 0)
      return std::nullopt;
  const auto notifies = image::loader_notifies_at(pid, subject.target.reader());
  return notifies ? placement::place_in_loader(*subject.image, *notifies) : std::nullopt;
}

// Of two values of one function only the first would be recorded. `matches`: of all patterns
// together.
std::optional<Message> meant_twice(image::ProcessImage& image, const Patterns& patterns,
                                   size_t matches) {
  if (patterns.values.size() < 2) return std::nullopt;
  size_t each = 0;
  for (const image::Pattern& one : patterns.wanted)
    each += image::match_patterns(image, {one}, patterns.excluded).matches.size();
  if (each == matches) return std::nullopt;
  return Message{"bad_value",
                 "a function is meant by two of the patterns; `pinprick hist` records one value of "
                 "a function at a time",
                 kUsage};
}

// Of what is there now: nothing is to be waited for. Where a point cannot be probed there is no
// span.
Result<placement::ProbeSet, Message> Watch::plan_spans(const Subject& subject) {
  image::ProcessImage& image = *subject.image;
  auto spans = match_spans(image, patterns_, options_.allow_missing);
  if (!spans) return fail(spans.error());
  std::vector<image::Match> points;
  for (const placement::SpanMatches& span : *spans) {
    points.push_back(span.start);
    points.push_back(span.end);
  }
  const auto by_site = [](const image::Match& a, const image::Match& b) { return a.site < b.site; };
  std::stable_sort(points.begin(), points.end(), by_site);
  const auto same = [](const image::Match& a, const image::Match& b) { return a.site == b.site; };
  points.erase(std::unique(points.begin(), points.end(), same), points.end());
  auto set = placement::plan_probes(image, std::move(points), kind_);
  if (!set.skipped.empty() && !options_.allow_missing) {
    const placement::Skipped& first = set.skipped.front();
    return fail(Message{
        "nothing_armed",
        fmt::format("'{}': {} cannot be probed: {}", patterns_.spans[first.match.pattern / 2],
                    first.match.name(), plan::sentence(first.refusal)),
        kNothingMatched});
  }
  placement::set_spans(set, *spans);
  return set;
}

Result<placement::ProbeSet, Message> Watch::plan(const Subject& subject) {
  if (kind_ == Kind::span) return plan_spans(subject);
  image::ProcessImage& image = *subject.image;
  const auto loader = follows_by(subject, patterns_);
  auto matches = match(image, patterns_, options_.allow_missing, loader.has_value());
  if (!matches) return fail(matches.error());
  if (auto twice = meant_twice(image, patterns_, matches->size())) return fail(*std::move(twice));
  if (options_.instructions) image::mean_each_instruction(*matches);
  auto set = placement::plan_probes(image, *std::move(matches), kind_, loader, risk());
  set.values = patterns_.values;
  return set;
}

// Memory that an earlier session had to leave: who was in it may be out by now.
void Watch::finish_left(pid_t pid) {
  for (const ledger::FoundSession& left : ledger::find_sessions(pid).sessions)
    if (left.target_lives && !left.controller_lives) static_cast<void>(finish(left, 0));
}

Result<void, Message> Watch::arm(pid_t pid) {
  const auto turn = ledger::Turn::take(pid);
  if (!turn) return fail(message(turn.error()));
  if (auto closed = ledger::why_closed(pid)) return fail(message(*closed));
  finish_left(pid);
  auto target = open_target(pid);
  if (!target) return fail(target.error());
  ProcessName name = {pid, target->command()};
  Watched watched(std::move(name), *std::move(target), kind_);
  if (auto armed = arm_program(watched); !armed) {
    if (!watched.target.is_over()) return armed;
    return fail(message(target::AttachError{target::AttachCause::exited, pid, 0, 0, {}}));
  }
  watched.armed_ns = watched.last_ns = monotonic_ns();
  watched_.push_back(std::move(watched));
  return {};
}

// Until the first jump is written a signal undoes what was done, and nothing was changed.
Result<Generation, Message> Watch::plan_and_arm(Watched& watched, Subject& subject) {
  Task task;
  const Progress progress(task, !options_.json, interrupts_.descriptor());
  watched.object_code = subject.image->executable_ranges();
  try {
    const Task::Scope scope(&task);
    auto set = plan(subject);
    // A process that ends meanwhile has no code to read, which looks like any of several things.
    if (!subject.target.same_image())
      return fail(
          message(target::AttachError{target::AttachCause::exited, watched.name.pid, 0, 0, {}}));
    if (!set) return fail(set.error());
    warn_of_unwinding(watched.name, *set);
    auto armed =
        engine::Session::arm(watched.target, *subject.image, *std::move(set), arm_options(watched));
    if (!armed) return fail(message(armed.error()));
    return Generation{std::move(subject.image), *std::move(armed)};
  } catch (const Cancelled&) {
    return fail(Message{"interrupted", "interrupted before any probe was in; nothing was changed",
                        kInterrupted});
  }
}

Result<void, Message> Watch::arm_program(Watched& watched) {
  const uint64_t begin_ns = monotonic_ns();
  if (auto willing = target::can_be_hijacked(watched.name.pid); !willing)
    return fail(message(willing.error()));
  const auto turn = ledger::Turn::take(watched.name.pid);
  if (!turn) return fail(message(turn.error()));
  auto subject = look_at(watched.target);
  if (!subject) return fail(subject.error());
  for (const std::string& warning : subject->warnings) renderer_.warning(warning);
  watched.known = places(*subject->image);
  auto armed = plan_and_arm(watched, *subject);
  if (!armed) {
    Message error = armed.error();
    if (launched_ && !options_.follow_exec && error.cause == "nothing_matched")
      error.text += "; if the command only executes the program: --allow-missing --follow-exec";
    return fail(std::move(error));
  }
  const engine::ArmReport& report = armed->session.report();
  warn_of_traps(report);
  renderer_.armed(watched.name, report, monotonic_ns() - begin_ns,
                  options_.duration_s == 0 && !launched_);
  renderer_.flush();
  note_skipped(report);
  if (report.armed == 0 && armed->session.loader() == nullptr) {
    // The next program may have what this one has not.
    if (kind_ == Kind::span && options_.allow_missing && options_.follow_exec) return {};
    return fail(Message{"nothing_armed",
                        kind_ == Kind::span ? "none of the spans can be measured"
                                            : "none of the functions can be probed",
                        kNothingMatched});
  }
  watched.generations.push_back(*std::move(armed));
  // What was loaded since we looked had nobody to wait for.
  if (watched.loader() != nullptr) look_again(watched);
  return {};
}

// What is loaded later. The process waits meanwhile, and has not run any of it yet.
void Watch::follow(Watched& watched) {
  const auto request = watched.loader()->take();
  if (!request) return;
  look_again(watched);
  if (!watched.loader()->answer(*request)) {
    renderer_.warning(
        fmt::format("{} waited for pinprick in vain when it loaded something: what "
                    "that has done so far is not in the figures",
                    watched.name.command));
    lost_ = true;
  }
  renderer_.flush();
}

// Not while the loader is at work: it tells of what it is about to do, and again when it is done.
void Watch::look_again(Watched& watched) {
  if (image::loader_is_at_work(watched.name.pid, watched.target.reader())) return;
  const auto turn = ledger::Turn::take(watched.name.pid);
  if (!turn) return not_probed(watched, message(turn.error()));
  auto subject = look_at(watched.target);
  if (!subject) return not_probed(watched, subject.error());
  forget_unloaded(watched, *subject->image);
  const std::set<Place> now = places(*subject->image);
  const std::set<Place> before = std::exchange(watched.known, now);
  watched.object_code = subject->image->executable_ranges();
  if (!std::includes(before.begin(), before.end(), now.begin(), now.end()))
    if (auto armed = arm_loaded(watched, std::move(subject->image), before); !armed)
      not_probed(watched, armed.error());
  watched.admit_callers();
}

// Calls that are not timed come from code that the program generates, or from libraries that it has
// loaded since, where nothing tells us of them.
void Watch::look_for_callers(Watched& watched) {
  constexpr uint64_t kPauseNs = 100'000'000;
  if (kind_ != Kind::latency || monotonic_ns() - watched.looked_ns < kPauseNs) return;
  watched.looked_ns = monotonic_ns();
  bool is_new = false;
  std::optional<std::vector<image::Mapping>> maps;
  for (Generation& generation : watched.generations)
    if (const auto unknown_caller = generation.session.take_unknown_caller()) {
      if (!maps)
        if (auto read = image::read_maps(watched.name.pid)) maps = *std::move(read);
      if (!maps) return;
      // A file may hold generated code: once looked at, it is no news.
      for (const image::Mapping& mapping : *maps)
        if (mapping.inode != 0 && mapping.range.contains(*unknown_caller))
          is_new |= watched.strange.insert(mapping.range.begin).second;
      // A slot of somebody who times what calls ours at its end.
      const auto others = engine::OtherSites::find(watched.name.pid, watched.target.memory());
      is_new |= std::any_of(others.code().begin(), others.code().end(),
                            [&](Range code) { return code.contains(*unknown_caller); });
    }
  if (!is_new || image::loader_is_at_work(watched.name.pid, watched.target.reader())) return;
  auto subject = look_at(watched.target);
  if (!subject) return;
  watched.object_code = subject->image->executable_ranges();
  watched.admit_callers();
}

void Watch::not_probed(const Watched& watched, const Message& why) {
  if (watched.target.is_over()) return;
  renderer_.warning(fmt::format("what was loaded is not probed: {}", why.text));
  incomplete_ = lost_ = true;
}

Result<void, Message> Watch::arm_loaded(Watched& watched, std::unique_ptr<image::ProcessImage> now,
                                        const std::set<Place>& before) {
  const uint64_t begin_ns = monotonic_ns();
  image::ProcessImage& image = *now;
  auto matches = image::match_patterns(image, patterns_.wanted, patterns_.excluded,
                                       [&](const image::Object& object) {
                                         return !before.contains({object.path(), object.bias()});
                                       })
                     .matches;
  leave_out_unfinished(watched, matches);
  if (matches.empty()) return {};
  std::vector<std::string> names;
  for (const image::Match& match : matches)
    if (names.empty() || names.back() != match.object->name())
      names.push_back(match.object->name());
  if (options_.instructions) image::mean_each_instruction(matches);
  if (watched.has_left) finish_left(watched.name.pid);
  auto set = placement::plan_probes(image, std::move(matches), kind_, {}, risk());
  set.values = patterns_.values;
  warn_of_unwinding(watched.name, set);
  auto armed = engine::Session::arm(watched.target, image, std::move(set), arm_options(watched));
  if (!armed) {
    watched.has_left = true;
    return fail(message(armed.error()));
  }
  const auto& report = armed->report();
  warn_of_traps(report);
  renderer_.loaded(watched.name, names, report, monotonic_ns() - begin_ns);
  note_skipped(report);
  if (report.armed == 0) return {};
  // Each object is an open file.
  std::set<const image::Object*> probed;
  for (const engine::ArmedProbe& one : armed->probes()) probed.insert(armed->match_of(one).object);
  std::erase_if(now->objects, [&](const auto& object) { return !probed.contains(object.get()); });
  watched.generations.push_back({std::move(now), *std::move(armed)});
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
  if (warned_of != nullptr) incomplete_ = lost_ = true;
}

// Probes in objects that are not there any more. A session of nothing else goes, but for the first,
// which has the hook in the loader.
void Watch::forget_unloaded(Watched& watched, const image::ProcessImage& image) {
  std::vector<std::string> names;
  for (Generation& generation : watched.generations)
    for (engine::Unloaded& object : generation.session.note_unloaded(image)) {
      watched.known.erase({object.path, object.bias});
      names.push_back(std::move(object.name));
    }
  if (!names.empty()) renderer_.unloaded(watched.name, names);
  if (watched.generations.empty()) return;
  for (auto next = std::next(watched.generations.begin()); next != watched.generations.end();) {
    const auto generation = next++;
    if (!generation->session.is_gone()) continue;
    // What has to be left is tried once more at the end.
    const auto report = generation->session.disarm(&image);
    if (!report || report->memory_left) continue;
    note(watched, report);
    watched.retire(generation);
  }
}

// Another program in the same process: what there was is gone, with all its memory. False: it
// cannot be looked at, or there is none.
bool Watch::follow_exec(Watched& watched) {
  auto target = open_target(watched.name.pid);
  if (!target) {
    // A process that is about to end has no program any more, either.
    if (!watched.target.ends()) renderer_.warning(target.error().text);
    return false;
  }
  if (target->start_time() != watched.target.start_time() || target->ends()) return false;
  while (!watched.generations.empty()) {
    static_cast<void>(watched.generations.back().session.disarm());
    watched.retire(std::prev(watched.generations.end()));
  }
  watched.target = *std::move(target);
  watched.name.command = watched.target.command();
  renderer_.executed(watched.name);
  if (auto armed = arm_program(watched); !armed && !watched.target.is_over()) {
    renderer_.warning(armed.error().text);
    lost_ = true;
  }
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
    auto launched = session::Launched::start(options_.command, interrupts_.before());
    if (!launched) return fail(message(launched.error()));
    launched_.emplace(*std::move(launched));
    pids = {launched_->pid()};
  }
  for (pid_t pid : pids)
    if (auto armed = arm(pid); !armed) return armed;
  if (launched_) launched_->release();
  // What is decoded later is written at the end.
  object_store().write_pending();
  return {};
}

// A process that runs another program by now, as those do that a wrapper starts, is not probed any
// more. Where it has ended since, its name may still say so, or may have been changed by itself.
void Watch::warn_of_exec(const Watched& watched) {
  constexpr const char* kRemedy = "which is not probed; with --follow-exec it is";
  const auto program = target::executable_path(watched.name.pid);
  if (program && !watched.target.has_exited()) {
    renderer_.warning(
        fmt::format("{} has executed {}, {}", watched.name.command, *program, kRemedy));
    return;
  }
  const auto status = target::read_status(watched.name.pid);
  if (!launched_ || !status || status->command == watched.name.command) return;
  const auto has_hits = [](const Generation& generation) { return generation.session.has_hits(); };
  if (std::none_of(watched.generations.begin(), watched.generations.end(), has_hits))
    renderer_.warning(fmt::format("{} has probably executed {}, {}", watched.name.command,
                                  status->command, kRemedy));
}

void Watch::notice_ends() {
  for (Watched& watched : watched_) {
    if (watched.ended_ns != 0) continue;
    if (!watched.has_ended()) continue;
    if (options_.follow_exec && !watched.target.has_exited() && follow_exec(watched)) continue;
    watched.ended_ns = monotonic_ns();
    if (!options_.follow_exec) warn_of_exec(watched);
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
  // Nobody tells when slots or blocks run short, nor of an exec, which changes the program without
  // ending the process: look now and then, and often if it matters.
  const uint64_t look_again_ns = options_.follow_exec                ? 2'000'000
                                 : kind_ != Kind::count || launched_ ? 10'000'000
                                                                     : 500'000'000;
  constexpr uint64_t kSoonNs = 1'000'000;
  bool soon = false;
  for (;;) {
    const uint64_t next_report = options_.interval_s > 0
                                     ? after(options_.interval_s * static_cast<double>(intervals))
                                     : UINT64_MAX;
    const uint64_t now = monotonic_ns();
    if (now >= deadline) return;
    if (now >= next_report) {
      report_all(false);
      if (renderer_.is_broken()) return;
      // Those that have passed meanwhile are left out: with reports that take longer than the
      // interval nobody would look for Ctrl-C.
      const double passed = static_cast<double>(monotonic_ns() - start) / 1e9;
      intervals = static_cast<uint64_t>(passed / options_.interval_s) + 1;
      continue;
    }
    std::vector<pollfd> descriptors = {{interrupts_.descriptor(), POLLIN, 0}};
    for (const Watched& watched : watched_)
      if (watched.ended_ns == 0)
        for (int descriptor : watched.descriptors()) descriptors.push_back({descriptor, POLLIN, 0});
    // A thread that comes out of the kernel stands still until we look.
    const bool is_settled = target::Stop::settle() == 0;
    const uint64_t until =
        std::min({deadline, next_report, now + (soon || !is_settled ? kSoonNs : look_again_ns)});
    const timespec timeout = {static_cast<time_t>((until - now) / 1'000'000'000),
                              static_cast<long>((until - now) % 1'000'000'000)};
    ::ppoll(descriptors.data(), descriptors.size(), &timeout, nullptr);
    if (interrupts_.arrived()) return;
    notice_ends();
    if (all_ended()) return;
    soon = false;
    for (Watched& watched : watched_) {
      if (watched.ended_ns != 0) continue;
      for (Generation& generation : watched.generations)
        soon = generation.session.provide() || soon;
      if (watched.has_loaded()) follow(watched);
      look_for_callers(watched);
    }
  }
}

void Watch::report_all(bool is_final) {
  const auto shows_idle = [&](size_t functions) { return renderer_.shows_idle(functions); };
  for (Watched& watched : watched_) {
    if (kind_ == Kind::count) {
      renderer_.counts(watched.counts(is_final, shows_idle));
    } else if (kind_ == Kind::value) {
      const auto values = watched.values(is_final, shows_idle);
      for (const ValueRow& row : values.rows) lost_ = lost_ || row.missed != 0;
      renderer_.values(values);
    } else {
      auto latencies = watched.latencies(is_final, shows_idle);
      uint64_t missed = 0, refused = 0;
      for (const LatencyRow& row : latencies.rows) {
        missed += row.missed;
        lost_ = lost_ || row.missed + row.from_generated != 0;
      }
      for (const Generation& generation : watched.generations)
        refused += generation.session.refused();
      if (is_final && missed > refused && kind_ == Kind::latency)
        latencies.slots_to_ask_for = watched.slots_to_ask_for();
      renderer_.latencies(latencies);
    }
    watched.last_ns = monotonic_ns();
  }
}

void Watch::disarm_all() {
  for (Watched& watched : watched_) {
    // What was loaded meanwhile may have brought an unwinder, or be gone.
    std::unique_ptr<image::ProcessImage> now;
    if (watched.loader() != nullptr && !watched.has_ended())
      if (auto subject = look_at(watched.target)) now = std::move(subject->image);
    for (auto last = watched.generations.rbegin(); last != watched.generations.rend(); ++last)
      note(watched, last->session.disarm(now.get()));
    if (watched.has_left) finish_left(watched.name.pid);
  }
}

void Watch::note(Watched& watched,
                 const Result<engine::DisarmReport, ledger::SessionError>& report) {
  if (!report) {
    renderer_.error(message(report.error()));
    disarm_failed_ = true;
    return;
  }
  if (!watched.disarmed) watched.disarmed.emplace();
  *watched.disarmed += *report;
  if (report->foreign != 0) disarm_failed_ = true;
}

int Watch::command_status() {
  const int status = launched_->wait();
  constexpr int kSignalBase = 128;  // as shells do
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalBase + WTERMSIG(status);
}

int Watch::fail_with(const Message& message) {
  constexpr int kSignalBase = 128;  // as shells do
  renderer_.error(message);
  disarm_all();
  renderer_.flush();
  if (message.exit == kInterrupted && interrupts_.arrived())
    return kSignalBase + interrupts_.signal();
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
  for (const Watched& watched : watched_) warn_of_refused(watched);
  for (const Watched& watched : watched_)
    if (watched.disarmed) renderer_.detached(watched.name, *watched.disarmed);
  renderer_.flush();
  if (launched_) {
    const int status = command_status();
    if (disarm_failed_) return kFailedWithCommand;
    return lost_ && options_.fail_on_loss ? kLost : status;
  }
  if (disarm_failed_ || renderer_.is_broken()) return kFailed;
  if (lost_ && options_.fail_on_loss) return kLost;
  if (incomplete_ && !options_.allow_missing) return kFailed;
  return kOk;
}

int Watch::run() {
  if (auto begun = begin(); !begun) {
    // Where others have their probes already, these have something to tell.
    if (begun.error().exit != kInterrupted || watched_.empty()) return fail_with(begun.error());
    renderer_.warning(begun.error().text);
    return end();
  }
  wait();
  return end();
}

}  // namespace

int run_count(const Options& options, Renderer& renderer) {
  return Watch(options, Kind::count, renderer).run();
}

int run_hist(const Options& options, Renderer& renderer) {
  return Watch(options, Kind::value, renderer).run();
}

int run_latency(const Options& options, Renderer& renderer) {
  return Watch(options, means_spans(options) ? Kind::span : Kind::latency, renderer).run();
}

}  // namespace pinprick::cli
