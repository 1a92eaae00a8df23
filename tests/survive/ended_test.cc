// A target is killed while pinprick is at any of its system calls. pinprick must say that it has
// ended, nothing else may go wrong, and no session file may stay.
#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <sstream>

#include "survive/killing.h"
#include "survive/runtime_folder.h"
#include "survive/subjects.h"

namespace pinprick::survive {
namespace {

struct Case {
  const char* name;
  const char* verb;
  const char* option;
  std::unique_ptr<Subject> (*start)();
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class Ended : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override { detach_everything(); }

  static Command watch(const Subject& subject) {
    Command arguments = {GetParam().verb, "-p", std::to_string(subject.pid()),
                         "--json",        "-d", "0.005"};
    if (*GetParam().option != '\0') arguments.emplace_back(GetParam().option);
    const Command patterns = subject.patterns();
    arguments.insert(arguments.end(), patterns.begin(), patterns.end());
    return pinprick(arguments);
  }

  static KillReport strike(int stop) {
    const auto subject = GetParam().start();
    EXPECT_EQ(subject->check(), "");
    subject->stir();
    return kill_at_stop(watch(*subject), stop, subject->pid());
  }
};

// Returns what pinprick should not have printed; empty if nothing.
std::string complaint(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto has = [&](const char* text) { return line.find(text) != line.npos; };
    const bool is_complaint = has("\"type\":\"warning\"") || has("\"memory_left\":true") ||
                              (has("\"type\":\"error\"") && !has("\"cause\":\"exited\""));
    if (is_complaint) return line;
  }
  return {};
}

TEST_P(Ended, meanwhile) {
  runtime_folder();
  const KillReport whole = strike(0);
  ASSERT_TRUE(whole.ending.exited_with(0)) << whole.ending.text() << whole.output;
  std::mt19937_64 random{std::random_device{}()};
  const bool all = environment("KILLS") == "all";
  const int kills = all ? whole.stops : 16;
  for (int i = 0; i < kills && !HasFailure(); ++i) {
    const int begin = whole.stops * i / kills + 1, end = whole.stops * (i + 1) / kills;
    const KillReport report =
        strike(std::uniform_int_distribution(begin, std::max(begin, end))(random));
    EXPECT_EQ(complaint(report.output), "") << "killed at " << report.where << "\n"
                                            << report.output;
    EXPECT_TRUE(report.ending.exited_with(0) || report.ending.exited_with(4))
        << report.ending.text() << ", killed at " << report.where << "\n"
        << report.output;
    EXPECT_TRUE(session_files().empty()) << "killed at " << report.where << "\n" << report.output;
  }
}

constexpr Case kAll[] = {
    {"count", "count", "", start_steady},
    {"latency", "latency", "", start_steady},
    {"count_with_follow_exec", "count", "--follow-exec", start_steady},
    {"count_of_what_is_loaded", "count", "", start_loader},
    {"latency_of_what_is_loaded", "latency", "", start_loader},
};

INSTANTIATE_TEST_SUITE_P(, Ended, testing::ValuesIn(kAll),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace pinprick::survive
