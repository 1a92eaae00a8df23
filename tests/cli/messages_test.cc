// Every sentence that pinprick says when something is in the way, beside its cause and exit code,
// in tests/cli/messages.txt: to be read as a whole when one of them changes.
#include "cli/messages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "cli/session_statistics.h"
#include "cli/warnings.h"
#include "plan/tactic.h"

namespace pinprick::cli {
namespace {

constexpr pid_t kNoProcess = 1 << 30;  // the kernel has none with such a number

class Listing {
 public:
  void head(const std::string& what) { text_ += fmt::format("\n## {}\n\n", what); }
  void add(const Message& message) {
    text_ +=
        fmt::format("{} ({}): {}\n", message.cause, static_cast<int>(message.exit), message.text);
  }
  void add(const std::string& line) { text_ += line + "\n"; }
  const std::string& text() const { return text_; }

 private:
  std::string text_ =
      "# What pinprick says when something is in the way: cause (exit code): sentence\n";
};

// By number, from 0 up to and with `last`. A cause that was added after it has a sentence of its
// own, which shows here.
template <class Cause, class F>
void for_each_cause(Cause last, F&& of) {
  using Number = std::underlying_type_t<Cause>;
  for (Number i = 0; i <= static_cast<Number>(last); ++i) of(static_cast<Cause>(i));
  const Message after = of(static_cast<Cause>(static_cast<Number>(last) + 1));
  EXPECT_NE(after.text.find("unknown"), std::string::npos)
      << "not in the list: " << after.cause << ": " << after.text;
}

void list_errors(Listing& all) {
  all.head("Attaching");
  for_each_cause(target::AttachCause::probes_itself_now, [&](target::AttachCause cause) {
    const bool names_call =
        cause == target::AttachCause::seccomp_deadly || cause == target::AttachCause::call_refused;
    const auto said =
        message(target::AttachError{cause, kNoProcess, kNoProcess + 1, EACCES,
                                    names_call                                      ? "mmap"
                                    : cause == target::AttachCause::handover_failed ? "sendmsg"
                                                                                    : ""});
    if (cause <= target::AttachCause::probes_itself_now) all.add(said);
    return said;
  });

  all.head("Session files");
  using FileCause = ledger::FileError::Cause;
  for (const FileCause cause : {FileCause::exists, FileCause::locked, FileCause::untrusted,
                                FileCause::no_space, FileCause::system}) {
    ledger::FileError error;
    error.cause = cause;
    error.path = "/run/pinprick/4242.session";
    error.system_error = ENOSPC;
    error.size = 5 << 20;
    all.add(message(error));
  }
  for (const auto error : {layout::ParseError::not_a_session, layout::ParseError::version,
                           layout::ParseError::truncated, layout::ParseError::inconsistent})
    all.add(message(
        ledger::FileError{FileCause::not_a_session, "/run/pinprick/4242.session", 0, error, 0}));
  all.add(message(ledger::SessionError(ledger::Occupied{kNoProcess, kNoProcess + 1})));
  all.add(message(ledger::SessionError(ledger::Busy{kNoProcess})));
  all.add(message(ledger::SessionError(ledger::NoRuntimeDirectory{EROFS})));

  all.head("Starting a command");
  for_each_cause(session::LaunchError::Cause::cannot_hold, [&](session::LaunchError::Cause cause) {
    const auto said = message(session::LaunchError{cause, "./program", EACCES});
    if (cause <= session::LaunchError::Cause::cannot_hold) all.add(said);
    return said;
  });

  all.head("Reading files");
  for_each_cause(image::ElfCause::not_loadable, [&](image::ElfCause cause) {
    image::ElfError error;
    error.cause = cause;
    error.path = "/usr/lib/libz.so.1";
    error.system_error = EACCES;
    const auto said = message(error);
    if (cause <= image::ElfCause::not_loadable) all.add(said);
    return said;
  });
}

void list_statistics(Listing& all) {
  all.head("Statistics and their files");
  for (const auto& [number, reason] : std::initializer_list<std::pair<int, const char*>>{
           {EINVAL, "bits are a number from 0 to 5, not '6'"},
           {EEXIST, "there is a statistic 'read'"},
           {ENOENT, "there is no statistic 'read'"},
           {ESRCH, "it has ended"},
           {EPERM, "it may not be probed"},
           {EBUSY, "another pinprick is changing it"}})
    all.add(message(kNoProcess, control::ControlError{number, reason}));
  using Cause = control::MountError::Cause;
  for_each_cause(Cause::refused, [&](Cause cause) {
    const auto said =
        message(control::MountError{cause, "/tmp/stats", cause == Cause::no_fuse ? EPERM : ENOENT,
                                    "fusermount3: mount failed: Operation not permitted"});
    if (cause <= Cause::refused) all.add(said);
    return said;
  });
}

void list_selections(Listing& all) {
  all.head("What was selected");
  for (const auto cause : {image::PatternCause::empty, image::PatternCause::bad_offset,
                           image::PatternCause::bad_regex, image::PatternCause::bad_point,
                           image::PatternCause::point_regex, image::PatternCause::not_implemented})
    all.add(message(session::SelectionError(image::PatternError{
        cause, "libc:read",
        cause == image::PatternCause::bad_regex ? "Unmatched ( or \\(" : "x"})));
  using ValueCause = select::ValueError::Cause;
  for_each_cause(ValueCause::signed_type, [&](ValueCause cause) {
    const auto said = message(session::SelectionError(session::BadValue{
        "libc:write", {cause, cause == ValueCause::signed_type ? "i32" : "rdx"}}));
    if (cause <= ValueCause::signed_type) all.add(said);
    return cause <= ValueCause::signed_type ? said : Message{"", "unknown", kUsage};
  });
  all.add(message(session::SelectionError(
      session::BadValue{"usdt:app:order", {ValueCause::unknown_argument, "$arg13"}})));
  all.add(message(session::SelectionError(session::ArgumentAtOffset{"libc:write+0x4", "$arg1"})));
  for (const auto error :
       {select::SpanError::no_start, select::SpanError::no_end, select::SpanError::several})
    all.add(message(session::SelectionError(session::BadSpan{"read..write", error})));
  all.add(message(session::SelectionError(session::NoSpan{"read"})));
  all.add(message(session::SelectionError(session::TooManySpans{70, 64})));
  using Remedy = session::NothingMatched::Remedy;
  for (const Remedy remedy : {Remedy::none, Remedy::accept, Remedy::await_loads})
    all.add(message(
        session::MatchError(session::NothingMatched{{"no_such", "nor_this"}, false, remedy})));
  all.add(message(session::MatchError(session::NothingMatched{{"plain"}, true, {}})));
  all.add(message(session::MatchError(session::NothingMatched{{"usdt:app:order"}, false, {}})));
  all.add(unreadable_file("notrace", {ENOENT}));
  all.add(message(session::MatchError(session::NothingMatched{{}, false, {}})));
  all.add(message(session::MatchError(
      session::AmbiguousPoint{"op*..close", "op*", 3, {"libc:open", "libc:open64"}})));
  all.add(message(session::MeasurementError(session::MeantTwice{})));
  all.add(message(session::MeasurementError(
      session::PointRefused{"read..write", "libc:read", {plan::Reason::too_short, 0}})));
  all.add(message(session::MeasurementError(session::NothingArmed{placement::Kind::count})));
  all.add(message(session::MeasurementError(session::NothingArmed{placement::Kind::span})));
  all.add(message(session::MeasurementError(session::Interrupted{})));
}

// As `kstats` and the writers of `mount` get them.
void list_kstats(Listing& all) {
  all.head("Statistics (kstats)");
  using session::StatisticError;
  const auto add = [&](const StatisticError& error) {
    const control::ControlError said = control_error(error);
    all.add(Message{control::error_name(said.number), said.reason, exit_code(said)});
  };
  add(session::NameTaken{"requests"});
  add(session::NoStatistic{"requests"});
  add(session::OfProgram{"requests"});
  add(session::NoEnd{"__tracepoint_order"});
  add(session::NotTimed{"longjmp", {plan::Reason::returns_otherwise, 0}});
  add(session::NotSwitched{"requests"});
  add(session::MeasurementError(
      session::MatchError(session::AmbiguousPoint{"op*", "op*", 3, {"libc:open", "libc:open64"}})));
  using Cause = ledger::RecordedError::Cause;
  for (const Cause cause :
       {Cause::system, Cause::not_recorded, Cause::untrusted, Cause::no_statistic, Cause::busy})
    add(ledger::RecordedError{cause, "/run/pinprick/1-2.kstats", EACCES});
  session::StatisticFigures figures;
  figures.name = "requests";
  figures.unrecorded = {4, 2, 3, 5, 6, 7};
  figures.refused = 1;
  for (const std::string& line : shortfalls(figures)) all.add(line);
}

void list_refusals(Listing& all) {
  all.head("Why a function is skipped");
  for (uint8_t i = 0; i <= static_cast<uint8_t>(plan::Reason::probed_by_program); ++i) {
    const auto reason = static_cast<plan::Reason>(i);
    all.add(fmt::format("{}: {}", plan::name(reason), plan::sentence(reason)));
  }
  const auto after =
      static_cast<plan::Reason>(static_cast<uint8_t>(plan::Reason::probed_by_program) + 1);
  EXPECT_EQ(plan::sentence(after), "?") << "not in the list";
}

void list_warnings(Listing& all) {
  all.head("Warnings");
  ::setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
  all.add(warning::object_replaced("libz.so.1"));
  all.add(warning::may_unwind_elsewhere("server"));
  all.add(warning::code_unfinished("server", "libplugin.so"));
  all.add(warning::load_missed(message(ledger::SessionError(ledger::Busy{kNoProcess}))));
  all.add(warning::load_timed_out("server"));
  const std::string refused = warning::calls_refused(5);
  all.add(refused.substr(0, refused.find('/')) + "[folder]" +
          refused.substr(std::min(refused.size(), refused.find(' ', refused.find('/')))));
  using Certainty = session::ExecutedProgram::Certainty;
  for (const Certainty certainty : {Certainty::certain, Certainty::probable})
    all.add(warning::executed("sh", {"/usr/bin/sleep", certainty}));
  for (const int error : {EPERM, ENOSYS, ENOMEM})
    all.add("--trap: " + why_no_breakpoints(SystemError{error}));
}

TEST(Messages, AreTheOnesThatWereRead) {
  Listing all;
  list_errors(all);
  list_statistics(all);
  list_kstats(all);
  list_selections(all);
  list_refusals(all);
  list_warnings(all);
  std::ifstream file(MESSAGES);
  std::stringstream read;
  read << file.rdbuf();
  if (read.str() == all.text()) return;
  const std::string now = testing::TempDir() + "messages.txt";
  std::ofstream(now) << all.text();
  ADD_FAILURE() << "the sentences are others than in " << MESSAGES << "; read them in " << now
                << ", and copy it there";
}

}  // namespace
}  // namespace pinprick::cli
