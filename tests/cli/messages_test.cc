// Every sentence that pinprick says when something is in the way, beside its cause and exit code,
// in tests/cli/messages.txt: to be read as a whole when one of them changes.
#include "cli/messages/messages.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cli/messages/event_line_messages.h"
#include "cli/messages/type_messages.h"
#include "cli/messages/verb_messages.h"
#include "cli/messages/warnings.h"
#include "cli/options.h"
#include "cli/render/budget_text.h"
#include "cli/render/text.h"
#include "cli/top/model.h"
#include "cli/top/screen.h"
#include "cli/verbs/check_rows.h"
#include "cli/verbs/session_statistics.h"
#include "control/file_tree.h"
#include "control/memory_statistics.h"
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

// Prints what `say` says to a renderer: what people read.
std::string said_by(const std::function<void(TextRenderer&)>& say) {
  std::FILE* file = std::tmpfile();
  {
    TextRenderer renderer(Output(file, Color::never), Output(file, Color::never), false, false, 0,
                          "function");
    say(renderer);
    renderer.flush();
  }
  std::rewind(file);
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;) text += static_cast<char>(c);
  std::fclose(file);
  if (text.ends_with('\n')) text.pop_back();
  return text;
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
  all.add(message(
      target::AttachError{target::AttachCause::no_such_process, kNoProcess, 0, ENOSYS, {}}));
  all.add(message(target::AttachError{target::AttachCause::handover_failed, kNoProcess, 0, ENOSYS,
                                      "pidfd_getfd"}));

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
  for_each_cause(image::ElfCause::huge_pages, [&](image::ElfCause cause) {
    image::ElfError error;
    error.cause = cause;
    error.path = "/usr/lib/libz.so.1";
    error.system_error = EACCES;
    const auto said = message(error);
    if (cause <= image::ElfCause::huge_pages) all.add(said);
    return said;
  });
  for (const image::Machine& machine : {image::Machine{EM_386, true},
                                        {EM_X86_64, true},
                                        {EM_X86_64, false},
                                        {EM_ARM, true},
                                        {EM_AARCH64, false},
                                        {EM_RISCV, false},
                                        {EM_PPC, true},
                                        {EM_PPC64, false},
                                        {EM_S390, false},
                                        {EM_MIPS, true},
                                        {EM_SPARCV9, false},
                                        {EM_NONE, true},
                                        {0xfff0, false}})
    all.add(message(
        session::LaunchError{session::LaunchError::Cause::not_x86_64, "./program", 0, machine}));
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
    const auto said = message(control::MountError{
        cause, "/tmp/stats", cause == Cause::no_fuse ? EPERM : ENOENT,
        cause == Cause::own_folder ? "/tmp/stats/pinprick"
                                   : "fusermount3: mount failed: Operation not permitted"});
    if (cause <= Cause::refused) all.add(said);
    return said;
  });
}

void list_serving(Listing& all) {
  all.head("Serving metrics");
  using Cause = http::ListenError::Cause;
  const http::Address port = {http::Address::Kind::ip4, "127.0.0.1", 9467};
  const http::Address last = {http::Address::Kind::ip6, "::1", 65535};
  const http::Address path = {http::Address::Kind::path, "/run/pinprick.sock", 0};
  all.add(bad_address("example.org"));
  for_each_cause(Cause::system, [&](Cause cause) {
    const auto said =
        message(http::ListenError{cause, cause == Cause::not_socket ? path : port, ENAMETOOLONG});
    if (cause <= Cause::system) all.add(said);
    return said;
  });
  for (const auto& address : {last, path})
    all.add(message(http::ListenError{Cause::in_use, address, 0}));
  all.add(warning::reachable_by_others("0.0.0.0:9467"));
  for (const auto& address : {port, last, path})
    all.add(said_by([&](TextRenderer& to) { to.serving(address, "/metrics"); }));
}

void list_expressions(Listing& all) {
  using session::BadExpression;
  using Of = BadExpression::Of;
  using Cause = select::ExpressionError::Cause;
  const auto add = [&](Of of, const char* point, const char* text, select::ExpressionError error) {
    const Message said =
        message(session::SelectionError(BadExpression{of, point, text, std::move(error)}));
    all.add(said);
    for (const std::string& line : said.place) all.add("  " + line);
    return said;
  };
  for_each_cause(Cause::too_long, [&](Cause cause) {
    if (cause == Cause::bad_value) return Message{"", "below", kUsage};
    if (cause > Cause::too_long)
      return message(session::SelectionError(BadExpression{Of::value, "f", "x", {cause, {}, "x"}}));
    const bool has_part = cause != Cause::nothing;
    return add(Of::condition, "libc:write", has_part ? "$arg1=x" : "",
               {cause, {}, has_part ? "x" : "", has_part ? size_t{6} : 0});
  });
  add(Of::condition, "libc:write", "$arg1==", {Cause::no_value, {}, "", 7});
  for (const char* name : {"and", "or", "not", "in", "fd"})
    add(Of::condition, "libc:write", name, {Cause::name, {}, name, 0});
  using ValueCause = select::ValueError::Cause;
  for (const ValueCause cause : {ValueCause::unknown_argument, ValueCause::unknown_register,
                                 ValueCause::unknown_type, ValueCause::frames})
    add(Of::value, "libc:write", "$arg1+x", {Cause::bad_value, {cause, "x"}, "x", 6});
  add(Of::key, "libc:write", "fd", {Cause::name, {}, "fd", 0});
  add(Of::sum, "libc:write", "bytes", {Cause::name, {}, "bytes", 0});
  add(Of::value, "usdt:app:order", "$arg13",
      {Cause::bad_value, {ValueCause::unknown_argument, "$arg13"}, "$arg13", 0});
}

void list_names(Listing& all) {
  using Of = session::BadExpression::Of;
  const auto add = [&](session::UnknownName error) {
    const Message said = message(session::MatchError(std::move(error)));
    all.add(said);
    for (const std::string& line : said.place) all.add("  " + line);
  };
  session::UnknownName error = {.of = Of::condition,
                                .point = "libc:write",
                                .text = "fd==1 && size>0",
                                .name = "size",
                                .function = "write",
                                .object = "libc.so.6",
                                .has_prototype = true,
                                .parameters = {"fd ($arg1)", "buf ($arg2)", "count ($arg3)"}};
  add(error);
  for (const plan::Reason reason :
       {plan::Reason::argument_no_integer, plan::Reason::argument_elsewhere,
        plan::Reason::argument_at_offset, plan::Reason::too_many_kept}) {
    error.reason = reason;
    add(error);
  }
  error = {.of = Of::condition,
           .point = "getpid",
           .text = "x",
           .name = "x",
           .function = "getpid",
           .object = "libc.so.6",
           .has_prototype = true};
  add(error);
  add({.of = Of::field, .point = "f", .text = "*(u32*)(&x)", .name = "&x", .object = "app"});
  for (const char* name : {"arg0", "retval"})
    add({.of = Of::condition,
         .point = "f",
         .text = name,
         .name = name,
         .function = "f",
         .object = "app"});
  add({.of = Of::key, .point = "f", .text = "x", .name = "x", .function = "f", .object = "app"});
  add({.of = Of::value,
       .point = "usdt:app:order",
       .text = "x",
       .name = "x",
       .function = "app:order",
       .object = "app",
       .is_point = true});
}

void list_selections(Listing& all) {
  all.head("What was selected");
  for (const auto cause :
       {image::PatternCause::empty, image::PatternCause::bad_offset, image::PatternCause::bad_regex,
        image::PatternCause::bad_point, image::PatternCause::inlined_offset,
        image::PatternCause::point_regex, image::PatternCause::not_implemented})
    all.add(message(session::SelectionError(image::PatternError{
        cause, "libc:read",
        cause == image::PatternCause::bad_regex ? "Unmatched ( or \\(" : "x"})));
  all.add(message(session::SelectionError(session::BadValue{"libc:write", ""})));
  all.add(message(session::SelectionError(session::BadValue{"libc:write", "$arg2"})));
  all.add(message(session::SelectionError(session::UnusedValue{"libc:write", "$arg2"})));
  all.add(message(session::SelectionError(session::UnusedValue{"libc:write", "$arg2>=5"})));
  all.add(message(session::SelectionError(session::UnusedValue{"libc:write", R"("{fd}")"})));
  all.add(message(session::SelectionError(session::NamedPoint{"io:write", "libc:write"})));
  using NoCondition = session::NoCondition;
  all.add(message(
      session::SelectionError(NoCondition{NoCondition::Of::span, "read..write if $arg1==1"})));
  all.add(message(
      session::SelectionError(NoCondition{NoCondition::Of::excluded, "write if $arg1==1"})));
  all.add(message(session::SelectionError(session::NoKeyOfSpan{"read..write", "$arg1"})));
  all.add(message(session::SelectionError(session::ReturnOfSpan{"read..write%return"})));
  using Why = session::NoReturn::Why;
  for (const Why why : {Why::offset, Why::instructions, Why::sdt_point})
    all.add(message(session::SelectionError(session::NoReturn{"libc:write+0x4", why})));
  all.add(message(session::SelectionError(session::NoReturn{"serve%inline", Why::inlined})));
  all.add(message(session::SelectionError(session::TooManyKept{"libc:write%return"})));
  all.add(message(session::SelectionError(session::TooManyFields{"libc:write"})));
  using Format = select::FormatError::Cause;
  for (const Format cause :
       {Format::no_end, Format::no_brace, Format::no_value, Format::stray, Format::unknown})
    all.add(message(
        session::SelectionError(session::BadFormat{"libc:write", R"("fd {fd")", {cause, 4}})));
  list_expressions(all);
  list_names(all);
  all.add(message(session::SelectionError(session::ArgumentAtOffset{
      session::BadExpression::Of::condition, "libc:write+0x4", "$arg1==1"})));
  for (const auto error :
       {select::SpanError::no_start, select::SpanError::no_end, select::SpanError::several})
    all.add(message(session::SelectionError(session::BadSpan{"read..write", error})));
  all.add(message(session::SelectionError(session::NoSpan{"read"})));
  all.add(message(session::SelectionError(session::TooManySpans{70, 64})));
  using Remedy = session::NothingMatched::Remedy;
  all.add("... -- COMMAND: ..." + if_it_only_executes(false));
  all.add("... -- COMMAND: ..." + if_it_only_executes(true));
  const auto add_nothing = [&](session::NothingMatched nothing) {
    all.add(message(session::MatchError(std::move(nothing))));
  };
  for (const Remedy remedy : {Remedy::none, Remedy::accept, Remedy::await_loads})
    add_nothing({.patterns = {"no_such", "nor_this"}, .remedy = remedy});
  add_nothing({.patterns = {"a", "b", "c", "d", "e", "f", "g"}});
  add_nothing({.patterns = {"plain"}, .entry_sites = true});
  add_nothing({.patterns = {"usdt:app:order"}});
  add_nothing({.patterns = {}});
  add_nothing({.patterns = {"f%inline"}, .inlined_nowhere = {"f"}});
  add_nothing({.patterns = {"f%inline"}, .inlined_nowhere = {"f"}, .has_own_code = true});
  for (const size_t places : {1, 7})
    add_nothing({.patterns = {"f"}, .inlined = "f", .inlined_places = places});
  all.add(no_structure("struct request", true));
  all.add(no_structure("struct request", false));
  all.add(message(session::MatchError(session::AmbiguousPoint{
      "op*..close", "op*", 3, {"libc.so.6+0xf7e30 (open)", "libc.so.6+0xf7f80 (openat)"}})));
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
  for_each_cause(target::AttachCause::probes_itself_now, [&](target::AttachCause cause) {
    const target::AttachError error = {cause, kNoProcess, 0, 0, "mmap"};
    if (cause <= target::AttachCause::probes_itself_now)
      all.add(fmt::format(
          "{}: {}", message(error).cause,
          control::error_name(
              control_error(session::MeasurementError(ledger::SessionError(error))).number)));
    return message(error);
  });
  const auto add = [&](const StatisticError& error) {
    const control::ControlError said = control_error(error);
    all.add(Message{control::error_name(said.number), said.reason, exit_code(said)});
  };
  add(session::BadName{"a/b"});
  add(session::NameTaken{"requests"});
  add(session::NoStatistic{"requests"});
  add(session::OfProgram{"requests"});
  add(session::NoEnd{"__tracepoint_order"});
  add(session::NotTimed{"longjmp", {plan::Reason::returns_otherwise, 0}});
  add(session::NotSwitched{"requests"});
  add(session::MeasurementError(session::MatchError(session::AmbiguousPoint{
      "op*", "op*", 3, {"libc.so.6+0xf7e30 (open)", "libc.so.6+0xf7f80 (openat)"}})));
  using Cause = ledger::RecordedError::Cause;
  for (const Cause cause :
       {Cause::system, Cause::not_recorded, Cause::untrusted, Cause::no_statistic, Cause::busy})
    add(ledger::RecordedError{cause, "/run/pinprick/1-2.kstats", EACCES});
  for (const auto& error : {no_process(kNoProcess), may_not_look(kNoProcess)})
    all.add(refused_command(error));

  all.head("What a statistic does not have (kstats, stderr)");
  using Kind = session::StatisticFigures::Kind;
  session::StatisticFigures figures;
  figures.name = "requests";
  figures.is_gone = true;
  using layout::Loss;
  figures.losses[Loss::missed] = 4;
  figures.losses[Loss::unwound] = 2;
  figures.losses[Loss::abandoned] = 3;
  figures.losses[Loss::from_generated] = 5;
  figures.losses[Loss::repeated] = 6;
  figures.losses[Loss::unmatched] = 1'000'000;
  figures.refused = 1;
  for (const std::string& line : shortfalls(figures)) all.add(line);
  figures.is_gone = false;
  figures.losses = {};
  figures.losses[Loss::missed] = 3;
  figures.losses[Loss::unmatched] = 1;
  figures.refused = 0;
  figures.kind = Kind::span;
  for (const std::string& line : shortfalls(figures)) all.add(line);
  figures.name = "GAP-requests";
  figures.losses = {};
  figures.losses[Loss::unmatched] = 1'000'000;
  figures.kind = Kind::gaps;
  for (const bool of_thread : {false, true}) {
    figures.of_thread = of_thread;
    for (const std::string& line : shortfalls(figures)) all.add(line);
  }
}

void list_event_lines(Listing& all) {
  using Cause = select::EventLineError::Cause;
  all.head("Lines of the kernel's tracing (trace --event-file, stderr)");
  for_each_cause(Cause::not_executable, [&](Cause cause) {
    const auto said = bad_event_line("my.events", 7, "p:x libc:write", {cause, 4});
    if (cause <= Cause::not_executable) all.add(said);
    return said;
  });
  for (const std::string& line :
       bad_event_line("my.events", 7, "p:x libc:write\t+0(%di", {Cause::dereference_open, 21})
           .place)
    all.add("  " + line);
}

// Each line of a command that is wrong, and what is said of it.
void list_commands(Listing& all) {
  all.head("Commands (kstats, and writes to _control)");
  const std::string long_name(64, 'x');
  for (const std::string& line : {std::string(),
                                  std::string("print x"),
                                  std::string("trace"),
                                  "trace " + long_name,
                                  std::string("trace a/b"),
                                  std::string("trace 'a b'"),
                                  std::string("trace ''"),
                                  std::string("trace a\x01"),
                                  std::string("trace .."),
                                  std::string("trace _control"),
                                  std::string("trace GAP-x"),
                                  std::string("remove GAP-x"),
                                  std::string("trace x bits 6"),
                                  std::string("trace x gap maybe"),
                                  std::string("trace x begin y"),
                                  std::string("trace x bits 1 bits 2"),
                                  std::string("trace x bits"),
                                  std::string("trace x start ''"),
                                  std::string("trace x end a\x01"),
                                  std::string("trace x bits 1 start a end b gap cpu more"),
                                  std::string("show a b"),
                                  std::string("trace 'x")}) {
    const auto parsed = control::parse_command(line);
    ASSERT_FALSE(parsed) << line;
    all.add(refused_command(parsed.error()));
  }

  all.head("Writes to files of statistics (mount, stderr)");
  control::MemoryProcesses processes([] { return std::vector<pid_t>{::getpid()}; });
  std::string said;
  control::FileTree tree(processes, {}, [&](const std::string& text) { said = text; });
  const std::string folder = fmt::format("/{}/", ::getpid());
  const auto add = [&] {
    if (!said.empty()) all.add("4242" + said.substr(folder.size() - 2));
    said.clear();
  };
  const auto write = [&](const std::string& file, const std::string& line, pid_t caller) {
    control::FileTree::Handle handle = 0;
    ASSERT_EQ(tree.open(folder + file, O_WRONLY, handle), 0);
    tree.write(handle, line + "\n", caller);
    tree.release(handle);
    add();
  };
  write("_control", "trace work", 0);
  write("_control", "trace other start no_such_function", 0);
  write("_control", "list", 0);
  write("_control", std::string(1 << 16, 'x'), 0);
  write("_control", "remove work", ::getpid());
  write("work", "PAUSE", 0);
  tree.remove(folder + "GAP-work", 0);
  add();
}

void list_reports(Listing& all) {
  all.head("While probes come and go (stderr)");
  const ProcessName server = {1234, "server"};
  const auto detached = [&](const engine::DisarmReport& report) {
    all.add(said_by([&](TextRenderer& renderer) { renderer.detached(server, report); }));
  };
  engine::ArmReport armed;
  armed.armed = 5;
  armed.stopped_ns = 1'000'000;
  armed.trapped = 2;
  all.add(said_by([&](TextRenderer& to) { to.armed(server, armed, 30'000'000, true); }));
  all.add(said_by([&](TextRenderer& to) { to.loaded(server, {"plugin.so"}, armed, 30'000'000); }));
  all.add(said_by([&](TextRenderer& to) { to.unloaded(server, {"plugin.so"}); }));
  all.add(said_by([&](TextRenderer& to) { to.executed(server); }));
  all.add(said_by([&](TextRenderer& to) { to.kept(server.pid, 3, 0); }));
  all.add(said_by([&](TextRenderer& to) { to.kept(server.pid, 1, 2.5); }));
  all.add(said_by([&](TextRenderer& to) { to.mounted("/tmp/stats"); }));
  all.add(said_by([&](TextRenderer& to) { to.sessions({}); }));
  SessionRow ended;
  ended.process = server;
  ended.state = SessionRow::State::target_gone;
  ended.sites = 3;
  for (const bool is_replaced : {false, true})
    for (const char* statistic : {"", "requests"})
      for (const size_t forked : {0, 2}) {
        ended.is_replaced = is_replaced;
        ended.statistic = statistic;
        ended.forked = forked;
        all.add(said_by([&](TextRenderer& to) { to.sessions({ended}); }));
      }
  detached({});
  engine::DisarmReport report;
  report.released = 1;
  report.forked = 2;
  detached(report);
  report = {};
  report.target_gone = true;
  detached(report);
  report.replaced = true;
  detached(report);
  report = {};
  report.foreign = 1;
  report.kept_stub_bytes = 4096;
  report.kept_slot_bytes = 8192;
  report.calls_abandoned = 2;
  report.forked_left = 1;
  detached(report);
  report.kept_stub_bytes = report.kept_slot_bytes = 0;
  report.memory_left = true;
  report.threads_inside = 1;
  report.foreign_held = 1;
  detached(report);
  report.hooks_left = true;
  detached(report);
  report = {};
  report.memory_left = true;
  detached(report);
  report.is_filtered = true;
  detached(report);

  FilesFigures figures;
  figures.files = {"/usr/bin/git"};
  figures.functions = 7;
  figures.present = 2;
  figures.elapsed_ns = 30'000'000;
  const auto files_armed = [&] {
    all.add(said_by([&](TextRenderer& to) { to.files_armed(figures, true); }));
  };
  files_armed();
  figures.by_loader = true;
  files_armed();
  for (const std::string& why :
       {cannot_hold_executions(EPERM), cannot_hold_executions(ENOSYS),
        has_no_loader("/usr/bin/git"), executions_not_held("/usr/bin/git", EINVAL)}) {
    figures.why_not_followed = why;
    files_armed();
  }
  figures.processes = 5;
  figures.caught = 3;
  figures.late = 1;
  figures.left_alone = {{"already_traced", 1}};
  report = {};
  report.foreign = 2;
  report.forked_left = 2;
  report.memory_left = true;
  all.add(said_by([&](TextRenderer& to) { to.files_detached(figures, report); }));
}

void list_verbs(Listing& all) {
  all.head("Single verbs");
  all.add(cannot_write("/no/folder/out", ENOENT));
  all.add(cannot_read("/no/folder/notrace", ENOENT));
  for (const auto cause :
       {recording::ReadError::Cause::system, recording::ReadError::Cause::not_recording,
        recording::ReadError::Cause::other_version, recording::ReadError::Cause::damaged})
    all.add(message("run.rec", recording::ReadError{cause, ENOENT}));
  all.add(recording_without_tree("run.rec"));
  all.add(recording_of_spans("run.rec"));
  all.add(recording_without_paths("run.rec"));
  all.add(no_such_call("handle*", "run.rec"));
  all.add(until_is_excluded("app:f if $latency>50ms"));
  for_each_cause(compare::ReadCause::no_figures, [&](compare::ReadCause cause) {
    const auto said = message("old.json", {cause, ENOENT, 7, "event"});
    if (cause <= compare::ReadCause::no_figures) all.add(said);
    return said;
  });
  compare::RowName of_times;
  of_times.kind = compare::Kind::latency;
  compare::Run counts, times;
  counts.path = "old.json";
  counts.rows[{}];
  times.path = "new.json";
  times.rows[of_times];
  all.add(nothing_to_compare(counts, times));
  all.add(no_stacks("old.json"));
  all.add(nothing_to_keep(kNoProcess));
  for (const pid_t pid : {pid_t{0}, kNoProcess}) all.add(nothing_is_timed(pid));
  all.add(nothing_for_debuggers(kNoProcess));
  all.add(still_measuring(1234, kNoProcess));
  all.add(condition_with_budget());
  all.add(bad_limit("--slower 1ms read"));
  all.add(bad_time_of_limit("--slower", "1h"));
  all.add(limit_of_span("read..write"));
  all.add(condition_of_tree("read if $retval==1"));
  for (const char* option : {"--alloc", "--free"})
    all.add(bad_allocator_function(option, "f%return"));
  for (const char* const option : {"--lock", "--unlock"})
    all.add(bad_lock_function(option, "f%return"));
  all.add(limit_of_what_is_not_timed("read --slower 1ms"));
  all.add(limit_with_register("read", "%rdi==1"));
  for (const pid_t owner : {0, 1234}) all.add(nothing_to_detach(kNoProcess, owner));
  for (const pid_t owner : {0, 1234}) all.add(nothing_to_collect(kNoProcess, owner));
  all.add(no_statistics());
  all.add(cannot_use_file("/usr/bin/git", ELOOP));
  all.add(nothing_mapped("/usr/bin/git", {{"seccomp", 2}}, cannot_hold_executions(EPERM)));
  all.add(interrupted_while_arming());
  top::Model keys;
  keys.press({top::Key::Kind::character, U'?'});
  for (const top::Line& line : top::draw(keys, {80, 24}, true)) all.add(top::text_of(line));
  all.add("top: " + cannot_suspend());
  all.add("top: " + cannot_suspend_with_budget());
  all.add("top: " + screen_written("/home/me/pinprick-top-20261124-120000.txt"));
  all.add("top: " + screen_not_written("/pinprick-top-20261124-120000.txt", EACCES));
  all.add(kOutOfMemory);
  all.add(kOutOfThreads);

  all.head("Checks of doctor: health: finding; remedy");
  const auto add = [&](const CheckRow& row) {
    const char* health[] = {"ok", "note", "BAD"};
    all.add(fmt::format("{}: {}: {}{}{}", row.name, health[static_cast<size_t>(row.health)],
                        row.finding, row.remedy.empty() ? "" : "; ", row.remedy));
  };
  for (const bool good : {true, false}) add(check::kernel("5.10.0", true, good));
  add(check::kernel("5.4.0", false, false));
  add(check::attaching_works());
  add(check::no_child(EAGAIN));
  add(check::ptrace_refused(EPERM));
  add(check::text_not_writable());
  add(check::ptrace_scope({}, false));
  for (const long scope : {0, 1, 2, 3, 4}) add(check::ptrace_scope(scope, false));
  add(check::no_proc());
  for (const check::Processes& some : {check::Processes{2, 5, false, false, false},
                                       {2, 0, true, false, false},
                                       {0, 7, false, false, false},
                                       {0, 7, true, false, false},
                                       {0, 0, true, false, false},
                                       {0, 7, false, false, true},
                                       {0, 7, false, true, true},
                                       {0, 0, false, true, true}})
    add(check::processes(some));
  for (const bool good : {true, false}) add(check::clock(good, 2.5e9));
  for (const uint32_t cpus : {8u, 1u << 20}) add(check::restartable_sequences(cpus, true));
  add(check::restartable_sequences(8, false));
  add(check::no_runtime_folder(EROFS));
  for (const bool good : {true, false}) add(check::runtime_folder("/run/pinprick", good));
  add(check::breakpoints({}));
  add(check::breakpoints(fail(SystemError{EPERM})));
  add(check::probe_cost(26));
  add(check::probe_cost({}));
  all.add("process: " + check::unwinder_not_found());
}

// --budget.
void list_budget(Listing& all) {
  all.head("A budget");
  using session::BudgetEvent;
  const BudgetEvent::Function some[] = {
      {"m", "f", 0, "/m"}, {"m", "g+0x4", 0, "/m"}, {"m", "h $arg1", 0, "/m"}, {"m", "i", 0, "/m"}};
  for (const double share : {0.021, 0.614})
    all.add(text_of(BudgetEvent{1.234, true, share, 0.02, {some[0]}}));
  all.add(text_of(BudgetEvent{1.234, true, 0.0031, 0.001, {some[0], some[1], some[2], some[3]}}));
  all.add(text_of(BudgetEvent{2.5, false, 0.001, 0.02, {some[0]}}));
  all.add(text_of(BudgetEvent{2.5, false, 0.001, 0.02, {some[0], some[1], some[2], some[3]}}));
  all.add(text_of(std::vector<session::Absence>{{0.5, 1.25}, {2.5, {}}}));
  all.add(
      text_of(std::vector<session::Absence>{{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}, {11, {}}}));
  for (const size_t partial : {0, 1, 1200})
    all.add(text_of(session::BudgetFigures{0.02, 9e6, 1e9, partial}));
}

// What is said of command lines that contradict themselves.
void list_usage(Listing& all) {
  all.head("Command lines");
  const std::vector<std::vector<const char*>> lines = {
      {"probe"},
      {"count", "main"},
      {"top", "main"},
      {"list", "main"},
      {"count", "-p", "1"},
      {"count", "-p", "x", "main"},
      {"count", "-p", "1", "-d", "0", "main"},
      {"count", "-p", "1", "--bits", "3", "main"},
      {"latency", "-p", "1", "--bits", "6", "main"},
      {"latency", "-p", "1", "--slots", "0", "main"},
      {"count", "-p", "1", "--color", "blue", "main"},
      {"count", "-p", "1", "--children", "all", "main"},
      {"count", "--all", "/bin/sh", "--by", "", "main"},
      {"trace", "-p", "1", "--buffer", "3X", "main"},
      {"trace", "-p", "1", "--tree", "a..b"},
      {"trace", "-p", "1", "--in", "a", "b"},
      {"trace", "-p", "1", "--every", "0", "b"},
      {"trace", "-p", "1", "--every", "9", "--tree", "b"},
      {"trace", "-p", "1", "--every", "9", "a..b"},
      {"trace", "-p", "1", "--tree", "--json", "--not-in", "a", "b"},
      {"trace", "-p", "1", "--tree", "--limit", "3", "--depth", "2", "b"},
      {"count", "-p", "1", "--by", "$arg1", "--once", "main"},
      {"count", "-p", "1", "--by", "$arg1", "--trap", "main"},
      {"count", "-p", "1", "--by", "$arg1", "--budget", "2%", "main"},
      {"count", "-p", "1", "--keys", "100", "main"},
      {"count", "-p", "1", "--sum", "", "main"},
      {"count", "-p", "1", "--avg", "", "main"},
      {"count", "-p", "1", "--avg", "$arg1", "--sum", "$arg1", "main"},
      {"count", "-p", "1", "--max", "$arg1", "--sum", "$arg2", "main"},
      {"count", "-p", "1", "--min", "", "main"},
      {"count", "-p", "1", "--by", "stack", "--avg", "$arg1", "-o", "x.folded", "main"},
      {"hist", "-p", "1", "--by", "$arg1", "--keys", "40000", "main $arg2"},
      {"count", "-p"},
      {"count", "main", "--"},
      {"status", "--", "ls"},
      {"top", "main", "--", "ls"},
      {"count", "-p", "1", "main", "--", "ls"},
      {"count", "-p", "1", "--comm", "sh", "main"},
      {"count", "-p", "1", "--by", "pid", "main"},
      {"count", "-p", "1", "--silence-mcount", "main"},
      {"count", "-p", "1", "--entry-sites", "--instructions", "main"},
      {"top", "-p", "1", "--children=follow", "main"},
      {"count", "-p", "1", "--children=follow", "--follow-exec", "main"},
      {"latency", "-p", "1", "--children=follow", "a..b"},
      {"count", "-p", "1", "--budget", "2", "main"},
      {"count", "-p", "1", "--budget", "2%", "--trap", "main"},
      {"count", "-p", "1", "--budget", "2%", "--children=count", "main"},
      {"top", "-p", "1", "--budget", "2%"},
      {"count", "--all", "/bin/sh", "--follow-exec", "main"},
      {"latency", "--all", "/bin/sh", "a..b"},
      {"list", "--file", "--instructions"},
      {"list", "--summary", "--instructions"},
      {"list", "--file", "/bin/sh", "--together"},
      {"status", "--symbols", "probes.o"},
      {"count", "-p", "1", "--top", "5", "--json", "main"},
      {"detach"},
      {"kstats", "list"},
      {"keep"},
      {"mount"},
  };
  for (std::vector<const char*> line : lines) {
    line.insert(line.begin(), "pinprick");
    std::vector<std::string> words(line.begin(), line.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    testing::internal::CaptureStderr();
    const ParseOutcome outcome =
        parse_command_line(static_cast<int>(words.size()), arguments.data());
    std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(outcome.exit_code, kUsage) << fmt::format("{}", fmt::join(words, " "));
    if (said.ends_with('\n')) said.pop_back();
    all.add(said);
  }
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

// What is added to a reason, where something can be done.
void list_remedies(Listing& all) {
  all.head("What latency says of skipped functions");
  engine::ArmReport report;
  report.armed = 1;
  for (uint8_t i = 0; i <= static_cast<uint8_t>(plan::Reason::probed_by_program); ++i)
    report.skipped.push_back({{}, {static_cast<plan::Reason>(i), 0}});
  all.add(said_by([&](TextRenderer& to) { to.armed({1234, "server"}, report, 0, false); }));
  report.trap_would_help = true;
  for (auto& skipped : report.skipped) skipped.refusal.reason = plan::Reason::too_short;
  all.add(said_by([&](TextRenderer& to) { to.armed({1234, "server"}, report, 0, false); }));
}

void list_warnings(Listing& all) {
  all.head("Warnings");
  ::setenv("XDG_RUNTIME_DIR", "/nowhere", 1);
  using Why = session::UnseenCode::Why;
  all.add(warning::unseen({Why::replaced, "libz.so.1", {}, 0, 0}));
  all.add(warning::unseen({Why::without_functions, "bun", {}, 81'403'217, 82'001'304}));
  all.add(warning::may_unwind_elsewhere("server"));
  for (const auto why : {engine::SlowReads::no_rseq, engine::SlowReads::unwatched,
                         engine::SlowReads::loaded, engine::SlowReads::refused})
    all.add(warning::slow_reads({kNoProcess, "server"}, why));
  all.add(warning::code_unfinished("server", "libplugin.so"));
  all.add(warning::load_missed(message(ledger::SessionError(ledger::Busy{kNoProcess}))));
  all.add(warning::removal_failed(
      kNoProcess, message(target::AttachError{
                      target::AttachCause::already_traced, kNoProcess, kNoProcess + 1, 0, {}})));
  all.add(
      warning::probes_stay(
          kNoProcess, message(target::AttachError{
                          target::AttachCause::already_traced, kNoProcess, kNoProcess + 1, 0, {}}))
          .text);
  all.add(warning::load_timed_out("server"));
  const std::string refused = warning::calls_refused(5);
  all.add(refused.substr(0, refused.find('/')) + "[folder]" +
          refused.substr(std::min(refused.size(), refused.find(' ', refused.find('/')))));
  using Certainty = session::ExecutedProgram::Certainty;
  for (const Certainty certainty : {Certainty::certain, Certainty::probable})
    all.add(warning::executed("sh", {"/usr/bin/sleep", certainty}));
  for (const int error : {EPERM, ENOSYS, ENOMEM})
    all.add(warning::no_breakpoints(SystemError{error}));
  for (const uint64_t executions : {1, 2}) all.add(warning::executions_not_followed(executions));
  all.add(warning::no_descriptors(1024));
  for (const uint64_t number : {1, 2}) {
    all.add(warning::frees_dropped(number, 1));
    all.add(warning::no_room_for_blocks(number));
    all.add(warning::blocks_reused(number));
    all.add(warning::lock_events_dropped(number));
    all.add(warning::no_room_for_locks(number));
    all.add(warning::no_room_for_lock_stacks(number));
    all.add(warning::no_room_for_lock_orders(number));
    all.add(warning::releases_unseen(number));
  }
  all.add(warning::nothing_frees());
  all.add(warning::nothing_releases());
  session::LockWaits waits = {{kNoProcess, "server"}, 9, {}, {}};
  for (const pid_t thread : {0, 1}) {
    session::LockWait wait;
    wait.thread = kNoProcess + thread;
    wait.owner = kNoProcess + 1 - thread;
    wait.lock_name = thread == 0 ? "first_lock" : "second_lock";
    waits.waits.push_back(wait);
  }
  all.add(warning::deadlock(waits, {0, 1}));
  compare::Run run;
  run.path = "old.json";
  run.was_cut_short = run.has_no_end = true;
  run.losses[layout::Loss::missed] = 1234;
  run.losses[layout::Loss::unread] = 1;
  run.partial_rows = 3;
  for (const std::string& text : warning::shortfalls_of(run)) all.add(text);
  all.add(warning::different_bits());
  all.add(warning::never_triggered());
  all.add(warning::events_left({kNoProcess, "redis-server"}, 1234));
  all.add(warning::events_thrown_away({kNoProcess, "redis-server"}, 1234));
  for (const uint64_t events : {1, 2}) all.add(warning::strange_events(events));
  all.add(warning::recording_without_end());
  all.add(warning::paths_left_out(12'345));
  all.add(warning::graphs_left_out(3));
  all.add(warning::recording_not_written());
}

TEST(Messages, AreTheOnesThatWereRead) {
  Listing all;
  list_errors(all);
  list_statistics(all);
  list_serving(all);
  list_kstats(all);
  list_commands(all);
  list_event_lines(all);
  list_selections(all);
  list_refusals(all);
  list_remedies(all);
  list_warnings(all);
  list_reports(all);
  list_verbs(all);
  list_budget(all);
  list_usage(all);
  std::ifstream file(MESSAGES);
  std::stringstream read;
  read << file.rdbuf();
  if (read.str() == all.text()) return;
  const std::string now = testing::TempDir() + "messages.txt";
  std::ofstream(now) << all.text();
  ADD_FAILURE() << "the sentences are others than in " << MESSAGES << "; read them in " << now
                << ", and copy it there";
}

TEST(Checks, HidepidIsFoundInTheOptionsOfTheLastMountOfProc) {
  const std::string proc = "proc /proc proc rw,nosuid 0 0\n";
  for (const char* hides : {"hidepid=1", "hidepid=2", "hidepid=4", "hidepid=invisible",
                            "hidepid=noaccess", "hidepid=ptraceable", "gid=4,hidepid=2"}) {
    const std::string hidden = fmt::format("proc /proc proc rw,{},nosuid 0 0\n", hides);
    EXPECT_TRUE(check::hides_processes("none /tmp tmpfs rw 0 0\n" + hidden)) << hides;
    EXPECT_TRUE(check::hides_processes(proc + hidden)) << hides;
    EXPECT_FALSE(check::hides_processes(hidden + proc)) << hides;
  }
  for (const char* shows :
       {"", "proc /proc proc rw,hidepid=0 0 0\n", "proc /proc proc rw,hidepid=off 0 0\n",
        "proc /mnt/proc proc rw,hidepid=2 0 0\n", "hidepid=2 /proc tmpfs rw 0 0"})
    EXPECT_FALSE(check::hides_processes(shows)) << shows;
}

}  // namespace
}  // namespace pinprick::cli
