// Exceptions, cancellation and forks on eight threads, while probes come and go at random, for 5
// seconds, or TURMOIL_SECONDS in the environment.
#include <gtest/gtest.h>

#include <atomic>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "survive/runtime_folder.h"
#include "survive/subjects.h"

namespace pinprick::survive {
namespace {

// A new seed, and so other probes, in every run; a failure prints it.
class AnyProbes {
 public:
  explicit AnyProbes(uint64_t seed) : random_(seed) {}

  Command next(pid_t pid) {
    Command command = {pick({"count", "latency"}),
                       "-p",
                       std::to_string(pid),
                       "--allow-missing",
                       "--json",
                       "-d",
                       pick({"0.001", "0.01", "0.05"})};
    // Few slots: calls are missed in between.
    if (command[0] == "latency" && random_() % 3 == 0)
      command.insert(command.end(), {"--slots", "64"});
    if (command[0] == "count" && random_() % 3 == 0) {
      command.insert(command.end(), {"--instructions", "turmoil:*"});
      return command;
    }
    const size_t patterns = 1 + random_() % 3;
    for (size_t i = 0; i < patterns; ++i)
      command.push_back(pick({"turmoil:*", "turmoil:passes", "turmoil:c*", "libstdc++:__cxa*",
                              "libstdc++:*", "libgcc_s:*", "libc:pthread*", "libc:*fork*",
                              "libc:m*", "libc:*", "ld-linux-x86-64:*"}));
    return command;
  }

 private:
  std::string pick(const std::vector<std::string>& of) { return of[random_() % of.size()]; }
  std::mt19937_64 random_;
};

std::string joined(const Command& command) {
  std::string line;
  for (const std::string& word : command) line += word + " ";
  return line;
}

uint64_t seconds_wanted() {
  const std::string wanted = environment("TURMOIL_SECONDS");
  return wanted.empty() ? 5 : std::stoull(wanted);
}

TEST(Turmoil, gives_right_results_whatever_is_probed) {
  const uint64_t seconds = seconds_wanted();
  runtime_folder();
  const auto subject = start_turmoil();
  ASSERT_EQ(subject->check(), "");
  const uint64_t seed = std::random_device{}();
  AnyProbes probes(seed);
  const uint64_t end = monotonic_ns() + seconds * 1'000'000'000;
  int attached = 0;
  for (; monotonic_ns() < end; ++attached) {
    const Command command = probes.next(subject->pid());
    const auto done = run(pinprick(command));
    // 3: nothing of that can be probed.
    const bool went = done.ending.exited_with(0) || done.ending.exited_with(3);
    ASSERT_TRUE(went) << "seed " << seed << ", " << joined(command) << done.output;
    ASSERT_EQ(subject->check(), "") << "seed " << seed << ", " << joined(command) << done.output;
    // Threads that waited within a call may have kept the memory; they have ended by now.
    run(pinprick({"detach", "-p", std::to_string(subject->pid())}));
  }
  RecordProperty("attached", attached);
  EXPECT_GT(attached, 0);
}

TEST(Turmoil, gives_right_results_with_three_controllers) {
  runtime_folder();
  const auto subject = start_turmoil();
  ASSERT_EQ(subject->check(), "");
  const uint64_t seed = std::random_device{}();
  const uint64_t end = monotonic_ns() + seconds_wanted() * 1'000'000'000;
  std::atomic<int> attached = 0;
  std::vector<std::string> wrong(3);
  std::vector<std::thread> owners;
  for (size_t i = 0; i < wrong.size(); ++i)
    owners.emplace_back([&, i] {
      AnyProbes probes(seed + i);
      for (; monotonic_ns() < end && wrong[i].empty(); ++attached) {
        const Command command = probes.next(subject->pid());
        const auto done = run(pinprick(command));
        // 1: a named function cannot be shared. 3: nothing can be probed.
        const bool went =
            done.ending.exited_with(0) || done.ending.exited_with(1) || done.ending.exited_with(3);
        const bool failed = done.output.find("\"type\":\"error\"") != std::string::npos;
        if (!went || (failed && !done.ending.exited_with(3)))
          wrong[i] = joined(command) + done.output;
      }
    });
  std::string check;
  while (monotonic_ns() < end && check.empty()) check = subject->check();
  for (std::thread& owner : owners) owner.join();
  EXPECT_EQ(check, "") << "seed " << seed;
  for (const std::string& one : wrong) EXPECT_EQ(one, "") << "seed " << seed;
  ASSERT_EQ(subject->check(), "");
  // Threads that waited within a call may have kept memory; they have ended by now.
  run(pinprick({"detach", "-p", std::to_string(subject->pid())}));
  EXPECT_EQ(session_files().size(), 0u);
  RecordProperty("attached", attached);
  std::cout << attached << " came and went\n";
}

}  // namespace
}  // namespace pinprick::survive
