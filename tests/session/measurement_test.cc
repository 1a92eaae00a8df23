// A process under measurement: tests/targets/dlhost.c, which executes commands from stdin.
#include "session/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "image/store/object_store.h"
#include "ledger/discovery.h"
#include "scratch.h"

namespace pinprick::session {
namespace {

using placement::Kind;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

const std::string kPlugin = TARGETS "plugin.so";

// dlhost, or a shell that executes dlhost at the first line.
class Host {
 public:
  enum class Start : uint8_t { directly, by_exec };
  explicit Host(Start start = Start::directly) {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (int fd : {to[0], to[1], from[0], from[1]}) ::close(fd);
      if (start == Start::directly) ::execl(TARGETS "dlhost", "dlhost", nullptr);
      ::execl("/bin/sh", "sh", "-c", "echo shell; read line; exec " TARGETS "dlhost", nullptr);
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = Fd(to[1]);
    out_ = Fd(from[0]);
    if (start == Start::by_exec)
      is_right_ = answer() == "shell";
    else
      tell("ready");
  }
  ~Host() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  pid_t pid() const { return pid_; }
  // Checks that it has executed all commands without an error.
  bool is_right() const { return is_right_; }
  // Looks after the measurement while the process works.
  void tell(const std::string& line, Measurement* measurement = nullptr) {
    const std::string text = line + "\n";
    is_right_ = ::write(in_.get(), text.data(), text.size()) == std::ssize(text) && is_right_;
    pollfd answered = {out_.get(), POLLIN, 0};
    while (measurement != nullptr && ::poll(&answered, 1, 1) == 0) measurement->look_after();
    is_right_ = answer() == line.substr(0, line.find(' ')) && is_right_;
  }
  void become_dlhost() {
    is_right_ = ::write(in_.get(), "go\n", 3) == 3 && is_right_;
    tell("ready");
  }

 private:
  std::string answer() {
    std::string line;
    for (char c = 0; ::read(out_.get(), &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  pid_t pid_ = 0;
  Fd in_, out_;
  bool is_right_ = true;
};

// The notifications of the listener, as words.
class Listener : public MeasurementListener {
 public:
  std::vector<std::string> events;
  bool cancels = false;

  std::shared_ptr<void> watch(Task& task) override {
    if (cancels) task.cancel();
    return nullptr;
  }
  void unseen(const ProcessName&, const UnseenCode& code) override {
    events.push_back("unseen " + code.object);
  }
  void may_unwind_elsewhere(const ProcessName&) override { events.emplace_back("may unwind"); }
  void reads_slowly(const ProcessName&, engine::SlowReads) override {
    events.emplace_back("reads slowly");
  }
  void armed(const ProcessName& process, const engine::ArmReport& report, uint64_t) override {
    events.push_back("armed " + std::to_string(report.armed) + " in " + process.command);
  }
  void loaded(const ProcessName&, const std::vector<std::string>& objects,
              const engine::ArmReport& report, uint64_t) override {
    events.push_back("loaded" + joined(objects) + ", " + std::to_string(report.armed));
  }
  void unloaded(const ProcessName&, const std::vector<std::string>& objects) override {
    events.push_back("unloaded" + joined(objects));
  }
  void code_unfinished(const ProcessName&, const std::string& object) override {
    events.push_back("unfinished " + object);
  }
  void load_missed(const ProcessName&, const MeasurementError&) override {
    events.emplace_back("load missed");
  }
  void load_timed_out(const ProcessName&) override { events.emplace_back("load timed out"); }
  void executed(const ProcessName& process) override {
    events.push_back("executed " + process.command);
  }
  void exec_missed(const ProcessName&, const MeasurementError&) override {
    events.emplace_back("exec missed");
  }
  void removal_failed(const ProcessName&, const ledger::SessionError&) override {
    events.emplace_back("removal failed");
  }

  void budget_changed(const ProcessName&, const BudgetEvent& event) override {
    events.emplace_back(event.is_out ? "out" : "back");
    for (const BudgetEvent::Function& one : event.functions) events.back() += " " + one.name;
  }
  void event(const Event& event) override {
    events.push_back("hit " + std::string(event.name.function));
  }
  void disarm_failed(const ProcessName&, const ledger::SessionError&) override {
    events.emplace_back("disarm failed");
  }

 private:
  static std::string joined(const std::vector<std::string>& words) {
    std::string all;
    for (const std::string& word : words) all += " " + word;
    return all;
  }
};

// The rows of the last report.
class Sink : public ReportSink {
 public:
  std::multimap<std::string, uint64_t> rows;
  size_t idle = 0;
  bool wants_idle = true;

  bool shows_idle(size_t) const override { return wants_idle; }
  void report(const Report& report) override {
    idle = report.idle;
    rows.clear();
    for (const Row& row : report.rows)
      rows.emplace(row.name.function, row.distribution ? row.histogram().count() : row.hits);
  }
};

class MeasurementTest : public testing::Test {
 protected:
  MeasurementTest() { ::setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1); }
  void select(Kind kind, std::vector<std::string> wanted) {
    SelectionSpec spec;
    spec.measures = {{{}, kind, std::move(wanted)}};
    auto selection = parse_selection(spec);
    ASSERT_TRUE(selection);
    spec_.selection = *std::move(selection);
  }
  Result<Measurement, MeasurementError> begin(const Host& host) {
    return Measurement::begin(host.pid(), spec_, store_, listener_);
  }
  auto rows(Measurement& measurement, Period period) {
    measurement.report(period, sink_);
    return sink_.rows;
  }
  void end(Measurement& measurement) {
    measurement.end(monotonic_ns());
    measurement.disarm();
    ASSERT_TRUE(measurement.disarmed());
    EXPECT_FALSE(measurement.disarmed()->memory_left);
    EXPECT_THAT(ledger::find_sessions(measurement.process().pid).sessions, IsEmpty());
  }

  const Scratch folder_;
  image::ObjectStore store_;
  MeasurementSpec spec_;
  Listener listener_;
  Sink sink_;
};

TEST_F(MeasurementTest, ReportsTheIntervalAndTheWholeTime) {
  Host host;
  host.tell("load " + kPlugin);
  ASSERT_NO_FATAL_FAILURE(select(Kind::count, {"dlhost:call", "dlhost:cycle"}));
  auto measurement = begin(host);
  ASSERT_TRUE(measurement);
  EXPECT_THAT(listener_.events, ElementsAre("armed 2 in dlhost"));
  for (int i = 0; i < 3; ++i) host.tell("call 1");
  EXPECT_THAT(rows(*measurement, Period::interval),
              UnorderedElementsAre(Pair("call", 3), Pair("cycle", 0)));
  host.tell("call 1");
  EXPECT_THAT(rows(*measurement, Period::interval),
              UnorderedElementsAre(Pair("call", 1), Pair("cycle", 0)));
  sink_.wants_idle = false;
  EXPECT_THAT(rows(*measurement, Period::whole), ElementsAre(Pair("call", 4)));
  EXPECT_EQ(sink_.idle, 1u);
  end(*measurement);
  EXPECT_THAT(rows(*measurement, Period::whole), ElementsAre(Pair("call", 4)));
  host.tell("call 1");
  EXPECT_TRUE(host.is_right());
}

TEST_F(MeasurementTest, KeepsTheRowsOfUnloadedObjectsAndAddsToThemWhenTheyAreReloaded) {
  Host host;
  for (const Kind kind : {Kind::count, Kind::latency}) {
    ASSERT_NO_FATAL_FAILURE(select(kind, {"plugin:plugin_step"}));
    spec_.unmatched = Unmatched::accept;
    listener_.events.clear();
    auto measurement = begin(host);
    ASSERT_TRUE(measurement);
    host.tell("load " + kPlugin, &*measurement);
    host.tell("call 10", &*measurement);
    EXPECT_THAT(rows(*measurement, Period::interval), ElementsAre(Pair("plugin_step", 15)));
    host.tell("unload", &*measurement);
    EXPECT_THAT(rows(*measurement, Period::interval), ElementsAre(Pair("plugin_step", 0)));
    host.tell("load " + kPlugin, &*measurement);
    host.tell("unload", &*measurement);
    EXPECT_THAT(listener_.events,
                ElementsAre("armed 0 in dlhost", "loaded plugin.so, 1", "unloaded plugin.so",
                            "loaded plugin.so, 1", "unloaded plugin.so"));
    end(*measurement);
    EXPECT_THAT(rows(*measurement, Period::interval), ElementsAre(Pair("plugin_step", 5)));
    EXPECT_THAT(rows(*measurement, Period::whole), ElementsAre(Pair("plugin_step", 20)));
    const Shortfall shortfall = measurement->shortfall();
    EXPECT_FALSE(shortfall.incomplete || shortfall.missed || shortfall.disarm_failed);
  }
  EXPECT_TRUE(host.is_right());
}

TEST_F(MeasurementTest, GoesOnInAnExecutedProgramIfExecIsFollowed) {
  Host host(Host::Start::by_exec);
  ASSERT_NO_FATAL_FAILURE(select(Kind::count, {"dlhost:call"}));
  spec_.unmatched = Unmatched::accept;
  spec_.exec = Exec::followed;
  auto measurement = begin(host);
  ASSERT_TRUE(measurement);
  host.become_dlhost();
  EXPECT_FALSE(measurement->notice_end());
  EXPECT_FALSE(measurement->has_ended());
  EXPECT_THAT(listener_.events,
              ElementsAre("armed 0 in sh", "executed dlhost", "armed 1 in dlhost"));
  EXPECT_EQ(measurement->process().command, "dlhost");
  host.tell("load " + kPlugin);
  host.tell("call 1");
  end(*measurement);
  EXPECT_THAT(rows(*measurement, Period::whole), ElementsAre(Pair("call", 1)));
  EXPECT_TRUE(host.is_right());
}

TEST_F(MeasurementTest, EndsWithAnExecThatIsNotFollowedAndNamesTheProgram) {
  Host host(Host::Start::by_exec);
  ASSERT_NO_FATAL_FAILURE(select(Kind::count, {"dlhost:call"}));
  spec_.unmatched = Unmatched::accept;
  auto measurement = begin(host);
  ASSERT_TRUE(measurement);
  EXPECT_FALSE(measurement->notice_end());
  host.become_dlhost();
  EXPECT_TRUE(measurement->notice_end());
  EXPECT_TRUE(measurement->has_ended());
  EXPECT_FALSE(measurement->notice_end()) << "no news";
  const auto program = measurement->executed_program();
  ASSERT_TRUE(program);
  EXPECT_THAT(program->name, testing::EndsWith("/dlhost"));
  EXPECT_EQ(program->certainty, ExecutedProgram::Certainty::certain);
  EXPECT_TRUE(host.is_right());
}

TEST_F(MeasurementTest, FailsIfPatternsMatchNothing) {
  Host host;
  ASSERT_NO_FATAL_FAILURE(select(Kind::count, {"dlhost:call", "dlhost:nowhere"}));
  const auto measurement = begin(host);
  ASSERT_FALSE(measurement);
  const auto* const why = std::get_if<MatchError>(&measurement.error());
  ASSERT_NE(why, nullptr);
  EXPECT_THAT(std::get<NothingMatched>(*why).patterns, ElementsAre("dlhost:nowhere"));
  EXPECT_THAT(listener_.events, IsEmpty());
}

// _start is not entered by a call.
TEST_F(MeasurementTest, FallsShortIfANamedFunctionCannotBeProbedButNotForAWildcard) {
  Host host;
  for (const bool by_name : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(
        select(Kind::latency, {"dlhost:call", by_name ? "dlhost:_start" : "dlhost:_st*"}));
    auto measurement = begin(host);
    ASSERT_TRUE(measurement);
    EXPECT_EQ(measurement->shortfall().incomplete, by_name);
    EXPECT_FALSE(measurement->shortfall().missed);
    end(*measurement);
  }
}

TEST_F(MeasurementTest, FailsIfNoMatchCanBeProbed) {
  Host host;
  ASSERT_NO_FATAL_FAILURE(select(Kind::latency, {"dlhost:_start"}));
  const auto measurement = begin(host);
  ASSERT_FALSE(measurement);
  EXPECT_TRUE(std::holds_alternative<NothingArmed>(measurement.error()));
  EXPECT_THAT(ledger::find_sessions(host.pid()).sessions, IsEmpty());
}

TEST_F(MeasurementTest, LeavesNothingIfItIsCancelledBeforeTheFirstProbe) {
  Host host;
  ASSERT_NO_FATAL_FAILURE(select(Kind::latency, {"dlhost:*"}));
  listener_.cancels = true;
  const auto measurement = begin(host);
  ASSERT_FALSE(measurement);
  EXPECT_TRUE(std::holds_alternative<Interrupted>(measurement.error()));
  EXPECT_THAT(ledger::find_sessions(host.pid()).sessions, IsEmpty());
  host.tell("load " + kPlugin);
  EXPECT_TRUE(host.is_right());
}

TEST_F(MeasurementTest, FailsForAProcessThatDoesNotExist) {
  std::optional<Host> host(std::in_place);
  const pid_t pid = host->pid();
  host.reset();
  ASSERT_NO_FATAL_FAILURE(select(Kind::count, {"main"}));
  const auto measurement = Measurement::begin(pid, spec_, store_, listener_);
  ASSERT_FALSE(measurement);
  const auto& error =
      std::get<target::AttachError>(std::get<ledger::SessionError>(measurement.error()));
  EXPECT_EQ(error.cause, target::AttachCause::no_such_process);
}

// Another controller, which is killed.
TEST_F(MeasurementTest, TakesOutProbesOfAKilledOwner) {
  Host host;
  host.tell("load " + kPlugin);
  ASSERT_NO_FATAL_FAILURE(select(Kind::count, {"dlhost:call"}));
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t killed = ::fork();
  if (killed == 0) {
    const auto measurement = begin(host);
    static_cast<void>(!::write(ready[1], measurement ? "y" : "n", 1));
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  ::kill(killed, SIGKILL);
  ::waitpid(killed, nullptr, 0);
  for (int fd : ready) ::close(fd);
  ASSERT_EQ(answer, 'y');
  ASSERT_THAT(ledger::find_sessions(host.pid()).sessions, SizeIs(1));

  auto measurement = begin(host);
  ASSERT_TRUE(measurement);
  const auto sessions = ledger::find_sessions(host.pid()).sessions;
  ASSERT_THAT(sessions, SizeIs(1));
  EXPECT_EQ(sessions[0].journal.header.controller, ::getpid());
  host.tell("call 1");
  end(*measurement);
  EXPECT_THAT(rows(*measurement, Period::whole), ElementsAre(Pair("call", 1)));
  EXPECT_TRUE(host.is_right());
}

}  // namespace
}  // namespace pinprick::session
