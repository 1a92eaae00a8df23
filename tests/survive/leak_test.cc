// Attaching repeatedly costs a target nothing: 200 times, or LEAK_ROUNDS in the environment.
#include <gtest/gtest.h>

#include "survive/footprint.h"
#include "survive/runtime_folder.h"
#include "survive/subjects.h"

namespace pinprick::survive {
namespace {

TEST(Leak, attaching_repeatedly_leaves_nothing) {
  constexpr int kUsualRounds = 200;
  const std::string wanted = environment("LEAK_ROUNDS");
  const int rounds = wanted.empty() ? kUsualRounds : std::stoi(wanted);
  runtime_folder();
  const auto subject = start_steady();
  const std::string pid = std::to_string(subject->pid());
  std::string output;
  const auto attach = [&](const char* verb) {
    Command arguments = {verb, "-p", pid, "-d", "0.001", "--json"};
    const Command patterns = subject->patterns();
    arguments.insert(arguments.end(), patterns.begin(), patterns.end());
    const auto done = run(pinprick(arguments));
    ASSERT_TRUE(done.ending.exited_with(0)) << done.ending.text() << ": " << done.output;
    output = done.output;
  };
  // The first round makes private copies of the pages that are written.
  for (const char* verb : {"count", "latency"}) attach(verb);
  ASSERT_EQ(subject->check(), "");
  const Footprint before = footprint_of(subject->pid());
  for (int round = 0; round < rounds; ++round) {
    attach(round % 2 == 0 ? "count" : "latency");
    // An abandoned call would keep memory; there is none here.
    ASSERT_TRUE(session_files().empty()) << "round " << round << ": " << output;
  }
  EXPECT_EQ(subject->check(), "");
  const Footprint after = footprint_of(subject->pid());
  EXPECT_EQ(differences(before, after), "");
  constexpr uint64_t kNoiseKib = 64;  // stacks are deeper at times
  EXPECT_LE(after.resident_kib, before.resident_kib + kNoiseKib);
}

}  // namespace
}  // namespace pinprick::survive
