#include "cli/measure/measured_files.h"

#include <fmt/format.h>

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/machine.h"
#include "cli/measure/patterns.h"
#include "cli/measure/spec.h"
#include "cli/messages/verb_messages.h"
#include "cli/messages/warnings.h"
#include "cli/object_store.h"
#include "ledger/runtime_directory.h"
#include "ledger/turn.h"
#include "select/spec.h"
#include "session/matching.h"
#include "target/procfs.h"
#include "target/stop.h"

namespace pinprick::cli {
namespace {

using session::Measurement;

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// In a pattern for objects.
std::string literal(std::string name) {
  std::replace(name.begin(), name.end(), '*', '?');
  return name;
}

// The patterns with the files as their objects, where they name none.
std::vector<std::string> with_objects(const Options& options,
                                      const std::vector<std::string>& patterns,
                                      const std::vector<std::string>& objects) {
  constexpr std::string_view kPoint = "usdt:";
  const auto syntax = options.regex ? image::PatternSyntax::regex : image::PatternSyntax::glob;
  std::vector<std::string> all;
  for (const std::string& given : patterns) {
    const std::string text(select::without_event(given));
    const std::string event = given.substr(0, given.size() - text.size());
    const auto pattern = image::Pattern::parse(text.substr(0, text.find(' ')), syntax);
    if (!pattern || pattern->names_object()) {
      all.push_back(given);
      continue;
    }
    for (const std::string& object : objects) {
      if (!pattern->names_points() || !text.starts_with(kPoint)) {
        all.push_back(fmt::format("{}{}:{}", event, literal(object), text));
        continue;
      }
      const std::string rest = text.substr(kPoint.size());
      all.push_back(fmt::format("{}{}{}:{}{}", event, kPoint, literal(object), rest,
                                rest.find(':') == std::string::npos ? ":*" : ""));
    }
  }
  return all;
}

Result<session::Selection, Message> selection_for(const Options& given,
                                                  const std::vector<std::string>& objects) {
  return parse_patterns(given, [&](const std::vector<std::string>& patterns) {
    return with_objects(given, patterns, objects);
  });
}

// The process whose session file it is; 0: it is none.
pid_t owner_of_session(const image::Mapping& mapping) {
  if (!mapping.shared || !mapping.path.ends_with(".session")) return 0;
  const std::string name = base_name(mapping.path);
  pid_t owner = 0;
  std::from_chars(name.data(), name.data() + name.size(), owner);
  return owner;
}

bool is_program(const std::string& path) {
  const auto fd = open_file(path, O_RDONLY);
  Elf64_Ehdr header = {};
  if (!fd || !read_at(fd->get(), {reinterpret_cast<uint8_t*>(&header), sizeof header}, 0))
    return false;
  return ::access(path.c_str(), X_OK) == 0 && (header.e_type == ET_EXEC || header.e_entry != 0);
}

// Are there enough for one more process with all its objects? With fewer, what is there might be
// taken for what is not.
bool has_descriptors() {
  constexpr size_t kNeeded = 64;
  struct stat open = {};
  rlimit limit = {};
  // How many are open, from Linux 6.2 on.
  if (::stat("/proc/self/fd", &open) == 0 && open.st_size > 0 &&
      ::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    return static_cast<size_t>(open.st_size) + kNeeded <= limit.rlim_cur;
  std::vector<Fd> some;
  while (some.size() < kNeeded) {
    Fd one(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!one) return errno != EMFILE && errno != ENFILE;
    some.push_back(std::move(one));
  }
  return true;
}

// Before that, the kernel holds an execution with a lock that PTRACE_SEIZE wants.
bool can_seize_executions() {
  return kernel_version() >= KernelVersion{6, 8};
}

}  // namespace

// --- What a listener is told

void QuietListener::warn(std::string text) {
  if (known_.insert(text).second) new_.push_back(std::move(text));
}

void QuietListener::tell(Renderer& renderer) {
  for (const std::string& text : std::exchange(new_, {})) renderer.warning(text);
  for (const auto& [process, event] : std::exchange(budget_events_, {}))
    renderer.budget_changed(process, event);
}

void QuietListener::unseen(const ProcessName&, const session::UnseenCode& code) {
  warn(warning::unseen(code));
}

void QuietListener::may_unwind_elsewhere(const ProcessName& process) {
  warn(warning::may_unwind_elsewhere(process.command));
}

void QuietListener::reads_slowly(const ProcessName& process, engine::SlowReads why) {
  warn(warning::slow_reads(process, why));
}

void QuietListener::armed(const ProcessName&, const engine::ArmReport& report, uint64_t) {
  functions_ = std::max(functions_, report.armed);
}

void QuietListener::loaded(const ProcessName&, const std::vector<std::string>&,
                           const engine::ArmReport& report, uint64_t) {
  functions_ = std::max(functions_, report.armed);
}

void QuietListener::code_unfinished(const ProcessName& process, const std::string& object) {
  warn(warning::code_unfinished(process.command, object));
}

void QuietListener::load_missed(const ProcessName&, const session::MeasurementError& why) {
  warn(warning::load_missed(message(why)));
}

void QuietListener::load_timed_out(const ProcessName& process) {
  warn(warning::load_timed_out(process.command));
}

void QuietListener::removal_failed(const ProcessName& process, const ledger::SessionError& why) {
  warn(warning::removal_failed(process.pid, message(why)));
}

void QuietListener::budget_changed(const ProcessName& process, const session::BudgetEvent& event) {
  budget_events_.emplace_back(process, event);
}

void QuietListener::disarm_failed(const ProcessName& process, const ledger::SessionError& why) {
  warn(warning::probes_stay(process.pid, message(why)).text);
}

// --- Beginning

MeasuredFiles::MeasuredFiles(const Options& options, Renderer& renderer, Interrupts& interrupts,
                             EventOutput& log)
    : options_(options),
      renderer_(renderer),
      interrupts_(interrupts),
      log_(log),
      listener_(log_),
      whole_(options.by_pid ? session::Keep::each : session::Keep::sum),
      interval_(options.by_pid ? session::Keep::each : session::Keep::sum) {
  filter_.commands = options.commands;
  filter_.users = options.users;
  filter_.excluded = options.excluded_pids;
  filter_.excluded.push_back(::getpid());
  filter_.cgroups = options.cgroups;
}

Result<void, Message> MeasuredFiles::open_files() {
  for (const std::string& path : options_.files) {
    auto image = image::load_file(path, &object_store());
    if (!image) return fail(message(image.error()));
    auto file = session::MappedFile::of(path);
    if (!file) return fail(cannot_use_file(path, file.error().number));
    objects_.push_back(image->objects.front()->name());
    std::error_code unknown;
    const auto real = std::filesystem::canonical(path, unknown);
    real_names_.push_back(unknown ? objects_.back() : real.filename().string());
    images_.push_back(*std::move(image));
    files_.push_back(*std::move(file));
  }
  return {};
}

// Also decodes the files, before any process waits for that.
Result<void, Message> MeasuredFiles::check_patterns() {
  auto selection = selection_for(options_, objects_);
  if (!selection) return fail(selection.error());
  static_cast<void>(spec_of(options_, *selection));  // measures what hits cost, with a budget
  for (image::ProcessImage& image : images_) {
    auto matches = session::match(image, *selection, session::Unmatched::accept);
    if (!matches) {
      if (!std::holds_alternative<session::NothingMatched>(matches.error()))
        return fail(message(matches.error()));
      continue;
    }
    const auto set = placement::plan_probes(image, *std::move(matches), selection->actions, {},
                                            placement::Risk::none, options_.ends);
    functions_ += set.probes.size();
  }
  return options_.allow_missing ? Result<void, Message>() : check_each_pattern();
}

// Each has to match in one of the files.
Result<void, Message> MeasuredFiles::check_each_pattern() {
  session::NothingMatched error;
  error.remedy = session::NothingMatched::Remedy::accept;
  std::vector<std::string> points = options_.patterns;
  points.insert(points.end(), options_.until.begin(), options_.until.end());
  for (const std::string& pattern : points) {
    Options one = options_;
    one.patterns = {pattern};
    one.until.clear();
    auto selection = selection_for(one, objects_);
    if (!selection) return fail(selection.error());
    if (std::none_of(images_.begin(), images_.end(), [&](image::ProcessImage& image) {
          return static_cast<bool>(session::match(image, *selection, session::Unmatched::accept));
        }))
      error.patterns.push_back(pattern);
  }
  if (error.patterns.empty()) return {};
  return fail(message(session::MatchError(error)));
}

// From here on, nothing may fork.
void MeasuredFiles::open_gate() {
  const bool at_exec = can_seize_executions();
  auto gate = target::ExecGate::open();
  if (!gate) {
    figures_.why_not_followed = cannot_hold_executions(gate.error().number);
    return;
  }
  for (const std::string& path : options_.files) {
    const bool is_library = base_name(path).find(".so") != std::string::npos;
    const auto watched = is_library ? (*gate)->watch_library(path) : Result<void, SystemError>();
    const auto held = !is_program(path) ? Result<void, SystemError>()
                      : at_exec         ? (*gate)->watch(path)
                                        : (*gate)->watch_starts(path);
    if (!held && held.error().number == ENOEXEC) {
      figures_.why_not_followed = has_no_loader(path);
      return;
    }
    if (watched && held) {
      figures_.by_loader = figures_.by_loader || (is_program(path) && !at_exec);
      continue;
    }
    figures_.why_not_followed =
        executions_not_held(path, (watched ? held : watched).error().number);
    return;
  }
  gate_ = *std::move(gate);
  object_store().keep_latest();
  // A controller that is stopped would hold others; the gate's timer then ends it.
  ::signal(SIGTSTP, SIG_IGN);
  catcher_.emplace(
      *gate_, [this](pid_t pid) { return filter_.admits_before_exec(pid); },
      [this](pid_t pid) { return runs_file(pid); });
}

Result<void, Message> MeasuredFiles::begin() {
  if (auto opened = open_files(); !opened) return opened;
  if (auto checked = check_patterns(); !checked) return checked;
  const uint64_t begin_ns = monotonic_ns();
  constexpr uint64_t kWaitingNs = 4'000'000'000;
  ledger::Turn::limit_waiting(kWaitingNs);
  open_gate();
  if (auto scanned = scan(); !scanned) return scanned;
  figures_.files = options_.files;
  figures_.functions = std::max(functions_, listener_.functions());
  figures_.present = measured_.size();
  figures_.elapsed_ns = monotonic_ns() - begin_ns;
  start_ns_ = reported_ns_ = session::first_armed_ns(measured_);
  if (!gate_ && measured_.empty()) {
    return fail(
        nothing_mapped(options_.files.front(), figures_.left_alone, figures_.why_not_followed));
  }
  listener_.tell(renderer_);
  renderer_.files_armed(figures_, options_.duration_s == 0);
  renderer_.flush();
  object_store().write_pending();
  return {};
}

// A process may fork while we look: so until a look finds none that was not known. Children of
// those that are measured are no reason to look again, nor is what the gate has caught. Without a
// gate, a machine that starts programs all the time would have us look for ever.
Result<void, Message> MeasuredFiles::scan() {
  constexpr uint64_t kLongestNs = 2'000'000'000;
  std::set<pid_t> tried;
  std::optional<uint64_t> first_ended_ns;
  const auto may_look_again = [&] {
    return gate_ || !first_ended_ns || monotonic_ns() - *first_ended_ns < kLongestNs;
  };
  for (bool found = true; found && may_look_again();) {
    found = false;
    for (const pid_t pid : target::all_processes()) {
      serve(1);
      if (interrupts_.arrived()) return fail(interrupted_while_arming());
      if (tried.contains(pid)) continue;
      const auto maps = image::read_maps(pid);
      if (!maps || spec_for(*maps) == nullptr) continue;
      if (target::shares_memory_with_parent(pid)) continue;  // until it executes a program
      tried.insert(pid);
      const bool is_known = std::any_of(
          measured_.begin(), measured_.end(),
          [&](const Measurement& one) { return one.process().pid == pid && !one.has_ended(); });
      if (is_known || !filter_.admits(pid) || parent_of(*maps, pid) != nullptr) continue;
      found = true;
      begin_one(pid, session::Progress::runs);
    }
    if (!first_ended_ns) first_ended_ns = monotonic_ns();
  }
  return {};
}

// A child that was forked from a process with probes counts in that one's session. Returns null if
// it is no such child.
const Measurement* MeasuredFiles::parent_of(const std::vector<image::Mapping>& maps,
                                            pid_t pid) const {
  for (const image::Mapping& mapping : maps) {
    const pid_t parent = owner_of_session(mapping);
    if (parent == pid) continue;
    // It may have another owner's session in common with it, and be older than ours.
    for (const Measurement& one : measured_)
      if (one.process().pid == parent && one.has_forked(pid)) return &one;
  }
  return nullptr;
}

// The patterns for the process: with the names that the files have in it, or will probably have
// when it loads them. Returns null if it has none of them.
const session::MeasurementSpec* MeasuredFiles::spec_for(const std::vector<image::Mapping>& maps) {
  std::vector<std::string> objects = real_names_;
  bool has_any = false;
  for (size_t i = 0; i < files_.size(); ++i) {
    const auto code = std::find_if(maps.begin(), maps.end(), [&](const image::Mapping& mapping) {
      return mapping.executable && files_[i].is(mapping);
    });
    if (code == maps.end()) continue;
    has_any = true;
    objects[i] = base_name(code->path);
  }
  if (!has_any) return nullptr;
  for (size_t i = 0; i < files_.size(); ++i) {
    if (objects[i] == objects_[i]) continue;
    whole_.take_as(objects[i], objects_[i]);
    interval_.take_as(objects[i], objects_[i]);
  }
  std::string key;
  for (const std::string& object : objects) key += object + "/";
  const auto known = specs_.find(key);
  if (known != specs_.end()) return &known->second;
  auto selection = selection_for(options_, objects);
  if (!selection) return nullptr;  // it was parsed before, with other names
  session::MeasurementSpec spec = spec_of(options_, *std::move(selection));
  spec.unmatched = session::Unmatched::accept;
  spec.exec = session::Exec::ends;
  return &specs_.emplace(key, std::move(spec)).first->second;
}

// An object also has the name that its program was started by: a script's, perhaps.
void MeasuredFiles::note_names(pid_t pid, const std::vector<image::Mapping>& maps) {
  const auto memory = target::Memory::open(pid);
  if (!memory) return;
  const auto auxiliary = image::AuxiliaryVector::read(pid);
  const std::string started_as = image::executable_name(auxiliary, memory->reader());
  const Address program = auxiliary.value(AT_PHDR);
  for (const image::Mapping& mapping : maps)
    for (size_t i = 0; i < files_.size(); ++i)
      if (mapping.range.contains(program) && files_[i].is(mapping) && started_as != objects_[i]) {
        whole_.take_as(started_as, objects_[i]);
        interval_.take_as(started_as, objects_[i]);
      }
}

bool MeasuredFiles::runs_file(pid_t pid) const {
  const auto maps = image::read_maps(pid);
  return maps && std::any_of(files_.begin(), files_.end(),
                             [&](const session::MappedFile& file) { return file.is_in(*maps); });
}

void MeasuredFiles::begin_one(pid_t pid, session::Progress progress) {
  if (!has_descriptors()) {
    rlimit limit = {};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    listener_.warn(warning::no_descriptors(limit.rlim_cur));
    ++figures_.left_alone["no_descriptors"];
    return;
  }
  const auto maps = image::read_maps(pid);
  const session::MeasurementSpec* const spec = maps ? spec_for(*maps) : nullptr;
  if (spec == nullptr) {
    // The kernel has held it for one of the files, which it has by another number: in an overlay.
    if (maps && !maps->empty()) ++figures_.left_alone["other_file"];
    return;
  }
  // It has executed another program since it was measured.
  for (Measurement& one : measured_)
    if (one.process().pid == pid) one.end(monotonic_ns());
  note_names(pid, *maps);
  auto begun = Measurement::begin(pid, *spec, object_store(), listener_, progress,
                                  progress == session::Progress::at_exec ? &*maps : nullptr);
  if (begun) {
    measured_.push_back(*std::move(begun));
    return;
  }
  const Message why = message(begun.error());
  if (why.cause != "exited" && why.cause != "no_such_process") ++figures_.left_alone[why.cause];
}

// --- What executes the files

// Where programs are executed all the time, this is not to go on for ever: those that have ended
// are to be finished, and a signal noticed. The others wait at the gate.
void MeasuredFiles::serve(size_t most) {
  constexpr uint64_t kMostNs = 100'000'000;
  if (!catcher_) return;
  for (const uint64_t begin = monotonic_ns(); most-- > 0 && monotonic_ns() - begin < kMostNs;) {
    const auto caught = catcher_->next();
    if (!caught) return;
    measure(*caught);
  }
}

// Until no thread is held but at the gate, which lets it go in time by itself; or one hangs in the
// kernel, which is not our doing.
void MeasuredFiles::serve_followed() {
  constexpr uint64_t kMostNs = 1'000'000'000;
  for (const uint64_t begin = monotonic_ns();
       catcher_ && catcher_->is_busy() && monotonic_ns() - begin < kMostNs;)
    if (const auto caught = catcher_->next(target::ExecCatcher::Requests::wait)) measure(*caught);
}

void MeasuredFiles::measure(const target::ExecCatcher::Caught& caught) {
  const pid_t pid = caught.thread.pid();
  if (!filter_.admits(pid)) return;
  ++figures_.caught;
  if (!caught.at_start) ++figures_.late;
  const auto measured = std::find_if(measured_.begin(), measured_.end(), [&](Measurement& one) {
    return one.process().pid == pid && !one.notice_end() && !one.has_ended();
  });
  if (caught.has_loaded && measured != measured_.end()) {
    // The library may have another name than was expected.
    const auto maps = image::read_maps(pid);
    if (const auto* spec = maps ? spec_for(*maps) : nullptr) measured->reselect(*spec);
    measured->note_mapped();
    return;
  }
  if (caught.has_loaded && begin_with_parent(pid)) return;
  // Calls are timed once the loader has mapped all that belongs to the library.
  const bool is_early = times_calls(options_) || !caught.has_loaded;
  begin_one(pid,
            caught.at_start && is_early ? session::Progress::at_exec : session::Progress::runs);
}

// Returns whether the process counts in the session of the one that it was forked from. If it has
// none of its own yet, and cannot have one just now, the library is armed when it has.
bool MeasuredFiles::begin_with_parent(pid_t pid) {
  const auto maps = image::read_maps(pid);
  const Measurement* const parent = maps ? parent_of(*maps, pid) : nullptr;
  if (parent == nullptr) return false;
  auto begun = Measurement::begin_forked(pid, *parent, listener_);
  if (!begun) {
    const Message why = message(begun.error());
    if (why.cause != "busy" && why.cause != "exited") ++figures_.left_alone[why.cause];
    return true;
  }
  if (const auto* spec = spec_for(*maps)) begun->reselect(*spec);
  begun->note_mapped();
  measured_.push_back(*std::move(begun));
  return true;
}

// A process that has ended may have forked children, which have its probes and count in its session
// until they have one of their own. As long as its memory is being taken down, its session has
// another user, and finding out that there are no children takes a look at all processes.
void MeasuredFiles::finish_ended() {
  constexpr uint64_t kLongestNs = 2'000'000'000, kMomentNs = 20'000'000;
  for (auto one = measured_.begin(); one != measured_.end();) {
    if (!one->has_ended() || (one->is_ending() && monotonic_ns() - one->ended_ns() < kMomentNs)) {
      ++one;
      continue;
    }
    session::Forked forked = session::begin_forked(*one, listener_);
    for (Measurement& child : forked.begun) measured_.push_back(std::move(child));
    if (forked.is_pending && monotonic_ns() - one->ended_ns() < kLongestNs) {
      ++one;
      continue;
    }
    finish(*one);
    one = measured_.erase(one);
    serve(1);  // may only add some at the end
  }
}

// Those that go on.
void MeasuredFiles::measure_forked() {
  std::vector<const Measurement*> parents;
  for (const Measurement& one : measured_)
    if (!one.has_ended()) parents.push_back(&one);
  for (const auto& [parent, pid] : forked_.settled(parents)) {
    auto begun = Measurement::begin_forked(pid, *parent, listener_);
    if (begun)
      measured_.push_back(*std::move(begun));
    else if (!session::is_busy(begun.error()))
      forked_.leave(pid);
  }
}

void MeasuredFiles::finish(Measurement& one) {
  one.disarm();
  collect(one);
  ++figures_.ended;
}

void MeasuredFiles::collect(Measurement& one) {
  if (options_.interval_s > 0) one.report(session::Period::interval, interval_);
  one.report(session::Period::whole, whole_);
  shortfall_ |= one.shortfall();
  figures_.refused += one.refused();
  if (!one.disarmed()) return;
  if (!disarmed_) disarmed_.emplace();
  *disarmed_ += *one.disarmed();
}

std::vector<int> MeasuredFiles::descriptors() const {
  std::vector<int> all;
  if (gate_) all.push_back(gate_->descriptor());
  for (const Measurement& one : measured_)
    if (!one.has_ended() || one.is_ending())
      for (int descriptor : one.descriptors()) all.push_back(descriptor);
  return all;
}

void MeasuredFiles::notice_ends() {
  serve();
  for (Measurement& one : measured_) one.notice_end();
  finish_ended();
}

bool MeasuredFiles::all_ended() const {
  return !gate_ && measured_.empty();
}

uint64_t MeasuredFiles::look_after() {
  constexpr uint64_t kSoonNs = 1'000'000, kNowAndThenNs = 500'000'000, kOftenNs = 10'000'000,
                     kForkedNs = 50'000'000;
  bool soon = false;
  log_.begin_turn(EventTurn::one_of_many);
  serve();
  for (Measurement& one : measured_) {
    if (one.has_ended()) continue;
    soon = one.look_after() || soon;
    serve(1);
  }
  const bool is_settled = target::Stop::settle() == 0;
  measure_forked();
  serve();
  if (catcher_ && catcher_->is_busy()) return kSoonNs;
  listener_.tell(renderer_);
  log_.go_on();
  renderer_.flush();
  if (soon || !is_settled) return kSoonNs;
  if (options_.budget != 0 || records_more_than_hits(options_)) return kOftenNs;
  return std::min(measured_.empty() ? kNowAndThenNs : kForkedNs, session::until_due_ns(measured_));
}

// --- Results

ProcessName MeasuredFiles::name() const {
  const size_t processes = figures_.ended + (end_ns_ == 0 ? measured_.size() : 0);
  std::string files;
  for (const std::string& file : options_.files) files += (files.empty() ? "" : ", ") + file;
  return {0,
          std::to_string(processes) + (processes == 1 ? " process of " : " processes of ") + files};
}

void MeasuredFiles::report(session::Period period, session::ReportSink& sink) {
  // The reader of the output may be slow.
  serve_followed();
  const uint64_t until_ns = end_ns_ != 0 ? end_ns_ : monotonic_ns();
  const bool is_whole = period == session::Period::whole;
  if (!is_whole && end_ns_ == 0)
    for (Measurement& one : measured_) one.report(period, interval_);
  const uint64_t from_ns = is_whole ? start_ns_ : reported_ns_;
  session::CollectedReports& collected = is_whole ? whole_ : interval_;
  collected.show(sink, name(), static_cast<double>(until_ns - from_ns) / 1e9, period);
  interval_.clear();
  reported_ns_ = until_ns;
}

void MeasuredFiles::stop_events() {
  for (Measurement& one : measured_) one.stop_events();
}

void MeasuredFiles::read_newest_events() {
  for (Measurement& one : measured_) one.read_newest_events();
}

void MeasuredFiles::restart_events(bool goes_on) {
  for (Measurement& one : measured_) one.restart_events(goes_on);
}

void MeasuredFiles::end() {
  notice_ends();
  if (gate_) {
    figures_.let_through = gate_->let_through() + catcher_->missed();
    figures_.late += figures_.let_through;
    for (const auto& [error, count] : catcher_->refused())
      figures_.left_alone[error == EPERM ? "already_traced" : std::strerror(error)] += count;
  }
  // The gate first: from then on it holds no thread that would wait for the catcher.
  if (gate_) gate_->close();
  catcher_.reset();
  end_ns_ = monotonic_ns();
  stop_events();
  log_.begin_turn(EventTurn::last);
  for (Measurement& one : measured_) {
    one.end(end_ns_);
    one.disarm();
  }
  for (Measurement& one : measured_) {
    collect(one);
    ++figures_.ended;
  }
  log_.finish();
  figures_.processes = figures_.ended;
}

int MeasuredFiles::conclude() {
  listener_.tell(renderer_);
  if (figures_.refused != 0) renderer_.warning(warning::calls_refused(figures_.refused));
  renderer_.files_detached(figures_, disarmed_.value_or(engine::DisarmReport()));
  renderer_.flush();
  if (shortfall_.disarm_failed || renderer_.is_broken()) return kFailed;
  if (options_.fail_on_loss && (shortfall_.missed || figures_.late != 0)) return kLost;
  if (shortfall_.incomplete && !options_.allow_missing) return kFailed;
  return kOk;
}

int MeasuredFiles::fail_with(const Message& message) {
  if (gate_) gate_->close();
  catcher_.reset();
  for (Measurement& one : measured_) one.disarm();
  renderer_.error(message);
  renderer_.flush();
  if (message.exit == kInterrupted && interrupts_.arrived())
    return kSignalBase + interrupts_.signal();
  return message.exit;
}

}  // namespace pinprick::cli
