// The target survives the controller's death at any moment.
//
// A case is a verb and a target. Each kill of a case: pinprick runs, is killed at one system call
// (killing.h) or one moment, and then
//
//     the target goes on with right results
//     `pinprick status` works, and shows the session if there is one
//     `pinprick detach` succeeds (or says that there is nothing, if there is no session)
//     text, mappings, descriptors and signal masks of the target are as before; no file is left
//
// KILLS in the environment is the number of kills over all cases; by default, as many as `make
// test` has time for. With KILLS=all every entry and exit of every case is visited.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmath>
#include <functional>
#include <ostream>
#include <random>

#include "base/clock.h"
#include "survive/footprint.h"
#include "survive/killing.h"
#include "survive/runtime_folder.h"
#include "survive/subjects.h"

namespace pinprick::survive {
namespace {

constexpr int kUsualKills = 208;
constexpr int kCases = 33;

bool is_full() {
  return environment("KILLS") == "all";
}

int kills_wanted() {
  constexpr int kFull = 1000;  // moments for each case, as there is no natural limit
  const std::string text = environment("KILLS");
  if (is_full()) return kFull;
  return text.empty() ? kUsualKills : std::stoi(text);
}

// A new seed in every run; a failure prints it.
std::mt19937_64& random_numbers() {
  static std::mt19937_64 generator(std::random_device{}());
  return generator;
}

// Which of `all` stops to visit: every one, or a random one in each of `n` equal parts.
std::vector<int> choose_stops(int all, int n) {
  std::vector<int> stops;
  if (is_full() || n >= all) {
    for (int stop = 1; stop <= all; ++stop) stops.push_back(stop);
    return stops;
  }
  for (int part = 0; part < n; ++part) {
    const int begin = all * part / n, end = all * (part + 1) / n;
    stops.push_back(
        std::uniform_int_distribution(begin + 1, std::max(begin + 1, end))(random_numbers()));
  }
  return stops;
}

enum class How { at_stops, at_moments };

struct Case {
  const char* name;
  const char* verb;  // count, latency, measure; or the verb of the orphan that is detached
  std::unique_ptr<Subject> (*start)();
  bool detach = false;   // kill `detach`, not the run that armed
  bool stopped = false;  // the target is in a group stop
  How how = How::at_stops;
  // Other controllers in the target, which live on, and detach before or after the clean-up.
  std::vector<const char*> company = {};
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class Survive : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { begin(); }

  void TearDown() override {
    company_.clear();
    subject_.reset();
    detach_everything();
  }

  // Starts a new target, and takes its footprint.
  void begin() {
    runtime_folder();
    company_.clear();
    subject_.reset();
    detach_everything();
    subject_ = GetParam().start();
    if (!subject_) return;
    ASSERT_EQ(subject_->check(), "");
    before_ = footprint_of(subject_->pid());
  }

  std::string pid() const { return std::to_string(subject_->pid()); }

  Command watch(const char* duration, const char* verb = GetParam().verb) const {
    Command arguments = {verb, "-p", pid(), "--json", "-d", duration};
    const Command patterns = subject_->patterns();
    arguments.insert(arguments.end(), patterns.begin(), patterns.end());
    return pinprick(arguments);
  }

  void make_orphan() {
    Program orphan(watch("1000"));
    ASSERT_TRUE(orphan.hear_of("\"type\":\"armed\"")) << orphan.rest();
    owner_ = std::to_string(orphan.pid());
    orphan.kill(SIGKILL);
    orphan.wait();
  }

  Command victim() {
    if (!GetParam().detach) return watch("0.005");
    make_orphan();
    return pinprick({"detach", "-p", pid(), "--owner", owner_});
  }

  void invite() {
    for (const char* verb : GetParam().company) {
      company_.push_back(std::make_unique<Program>(watch("1000", verb)));
      ASSERT_TRUE(company_.back()->hear_of("\"type\":\"armed\"")) << company_.back()->rest();
    }
  }
  // In any order. Returns what went wrong, or an empty text.
  std::string say_goodbye() {
    std::shuffle(company_.begin(), company_.end(), random_numbers());
    for (; !company_.empty(); company_.pop_back()) {
      Program& one = *company_.back();
      one.kill(SIGINT);
      const std::string output = one.rest();
      if (const Ending ending = one.wait(); !ending.exited_with(0))
        return "one of the company: " + ending.text() + ": " + output;
      if (output.find("\"memory_left\":false") == output.npos)
        return "one of the company leaves something behind: " + output;
    }
    return "";
  }

  KillReport strike(const std::function<KillReport(const Command&)>& kill) {
    invite();
    const Command command = victim();
    subject_->stir();
    if (GetParam().stopped) ::kill(subject_->pid(), SIGSTOP);
    return kill(command);
  }

  // Returns what is not as it should be, or an empty text.
  std::string aftermath();
  std::string detach_all();

  // One kill, and all checks after it. Returns false if this target has to be given up.
  bool one_kill(const std::function<KillReport(const Command&)>& kill, KillReport& report);

  std::unique_ptr<Subject> subject_;
  std::vector<std::unique_ptr<Program>> company_;
  Footprint before_;
  std::string owner_;  // of the orphan
  int again_ = 0;      // detaches that had to leave something at first
};

std::string Survive::detach_all() {
  constexpr int kMostTries = 50;
  for (int attempt = 0; attempt < kMostTries; ++attempt) {
    const bool was_there = !session_files().empty();
    const auto detach = run(pinprick({"detach", "-p", pid()}));
    if (!detach.ending.exited_with(was_there ? 0 : 3))
      return "detach: " + detach.ending.text() + ": " + detach.output;
    if (session_files().empty()) return "";
    ++again_;
    // A stopped thread cannot leave a stub.
    if (GetParam().stopped) ::kill(subject_->pid(), SIGCONT);
  }
  return "detach leaves something behind for ever: " +
         run(pinprick({"detach", "-p", pid()})).output;
}

std::string Survive::aftermath() {
  if (const int traced = traced_threads(subject_->pid()); traced != 0)
    return std::to_string(traced) + " threads are still traced";
  if (GetParam().stopped && !comes_to_stand(subject_->pid())) return "it was stopped, and is not";
  if (!GetParam().stopped)
    if (std::string wrong = subject_->check(); !wrong.empty()) return wrong;
  const auto files = session_files();
  const auto status = run(pinprick({"status", "-p", pid(), "--json"}));
  if (!status.ending.exited_with(0)) return "status: " + status.ending.text() + status.output;
  if (files.empty() != (status.output.find("\"type\":\"session\"") == std::string::npos))
    return "status does not say what is there: " + status.output;
  if (!company_.empty() && random_numbers()() % 2 == 0) {
    // The killed session is cleaned up beside the others, which are left alone.
    const auto detach = run(pinprick({"detach", "-p", pid()}));
    if (!detach.ending.exited_with(4))
      return "detach beside others: " + detach.ending.text() + ": " + detach.output;
    if (std::string wrong = subject_->check(); !wrong.empty()) return wrong + ", beside others";
  }
  if (std::string wrong = say_goodbye(); !wrong.empty()) return wrong;
  if (std::string wrong = detach_all(); !wrong.empty()) return wrong;
  if (GetParam().stopped) ::kill(subject_->pid(), SIGCONT);
  if (std::string wrong = subject_->check(); !wrong.empty()) return wrong + ", after detach";
  if (std::string wrong = subject_->traces(); !wrong.empty()) return wrong;
  return differences(before_, footprint_of(subject_->pid()));
}

bool Survive::one_kill(const std::function<KillReport(const Command&)>& kill, KillReport& report) {
  report = strike(kill);
  if (!environment("VERBOSE").empty()) std::cout << report.where << std::endl;
  const std::string wrong = aftermath();
  if (wrong.empty()) return true;
  ADD_FAILURE() << "killed at " << report.where << " (" << report.ending.text() << "):\n"
                << wrong << report.output;
  return false;
}

TEST_P(Survive, a_kill) {
  if (!subject_) GTEST_SKIP() << "the target is not installed";
  const int share = kills_wanted() / kCases;
  KillReport report;
  // One run to its end, to find out where it can be killed, and how long it takes.
  const uint64_t start_ns = monotonic_ns();
  ASSERT_TRUE(one_kill([](const Command& c) { return kill_at_stop(c, 0); }, report));
  const uint64_t duration_ns = monotonic_ns() - start_ns;
  ASSERT_TRUE(report.ending.exited_with(0)) << report.ending.text() << report.output;
  ASSERT_GT(report.stops, 100) << "nothing was traced";

  int kills = 0, failures = 0;
  const auto count = [&](bool fine) {
    if (report.killed) ++kills;
    if (fine) return true;
    begin();  // a new target, as the old one may be broken
    constexpr int kEnough = 3;
    return ++failures < kEnough;
  };
  const auto stops =
      GetParam().how == How::at_stops ? choose_stops(report.stops, share) : std::vector<int>();
  for (int stop : stops)
    if (!count(one_kill([&](const Command& c) { return kill_at_stop(c, stop); }, report))) break;
  std::uniform_int_distribution<uint64_t> moments(0, duration_ns / 2);
  while (GetParam().how == How::at_moments && kills < share)
    if (!count(one_kill([&](const Command& c) { return kill_after(c, moments(random_numbers())); },
                        report)))
      break;
  RecordProperty("kills", kills);
  RecordProperty("detached_again", again_);
  std::cout << kills << " kills; " << again_ << " times detach had to be called again\n";
}

const Case kAll[] = {
    {"count", "count", start_steady},
    {"latency", "latency", start_steady},
    {"count_by_keys", "count", start_steady_for_keys},
    {"detach_of_keys", "count", start_steady_for_keys, true},
    {"measures", "measure", start_steady_for_measures},
    {"detach_of_measures", "measure", start_steady_for_measures, true},
    {"detach_of_count", "count", start_steady, true},
    {"detach_of_latency", "latency", start_steady, true},
    {"count_of_a_stopped_target", "count", start_steady, false, true},
    {"count_by_puns", "count", start_punned},
    {"detach_of_puns", "count", start_punned, true},
    {"detach_of_puns_at_any_moment", "count", start_punned, true, false, How::at_moments},
    {"count_by_puns_that_evict", "count", start_evicting},
    {"detach_of_puns_that_evict", "count", start_evicting, true},
    {"count_of_points_with_a_semaphore", "count", start_points},
    {"detach_of_points_with_a_semaphore", "count", start_points, true},
    {"count_of_points_beside_another",
     "count",
     start_points,
     false,
     false,
     How::at_stops,
     {"count"}},
    {"count_of_tracepoints", "count", start_tracepoints},
    {"detach_of_tracepoints", "count", start_tracepoints, true},
    {"count_of_tracepoints_beside_another",
     "count",
     start_tracepoints,
     false,
     false,
     How::at_stops,
     {"count"}},
    {"count_of_redis", "count", start_redis},
    {"latency_of_redis", "latency", start_redis},
    {"latency_of_exceptions", "latency", start_thrower},
    {"detach_of_exceptions", "latency", start_thrower, true},
    {"count_of_what_is_loaded", "count", start_loader},
    {"latency_of_what_is_loaded", "latency", start_loader, false, false, How::at_moments},
    {"latency_at_any_moment", "latency", start_steady, false, false, How::at_moments},
    {"detach_at_any_moment", "latency", start_steady, true, false, How::at_moments},
    {"detach_of_exceptions_at_any_moment", "latency", start_thrower, true, false, How::at_moments},
    {"count_beside_latency", "count", start_steady, false, false, How::at_stops, {"latency"}},
    {"latency_beside_both",
     "latency",
     start_steady,
     false,
     false,
     How::at_stops,
     {"count", "latency"}},
    {"detach_beside_latency", "latency", start_steady, true, false, How::at_stops, {"latency"}},
    {"latency_of_exceptions_beside_latency",
     "latency",
     start_thrower,
     false,
     false,
     How::at_moments,
     {"latency"}},
};
static_assert(std::size(kAll) == kCases);

INSTANTIATE_TEST_SUITE_P(, Survive, testing::ValuesIn(kAll),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace pinprick::survive
