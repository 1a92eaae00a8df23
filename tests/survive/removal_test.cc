// A controller that removes some of its probes, killed at any of its system calls: the program goes
// on with right results, and `pinprick detach` leaves nothing. At 24 of them, or at all with
// KILLS=all.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "survive/footprint.h"
#include "survive/killing.h"
#include "survive/program.h"
#include "survive/runtime_folder.h"

namespace pinprick::survive {
namespace {

TEST(Removal, of_some_probes_survives_the_controllers_death_at_any_call) {
  runtime_folder();
  Program program({TARGETS "called"});
  const auto calls = [&](const char* how_often) {
    program.say(how_often);
    return program.hear();
  };
  ASSERT_EQ(calls("call 10"), "called");
  const Footprint before = footprint_of(program.pid());
  const std::string pid = std::to_string(program.pid());
  const Command controller = {REMOVER, pid};
  const KillReport whole = kill_at_stop(controller, 0);
  ASSERT_TRUE(whole.ending.exited_with(0)) << whole.output;
  ASSERT_GT(whole.stops, 100);
  EXPECT_EQ(differences(before, footprint_of(program.pid())), "");

  constexpr size_t kUsualKills = 24;
  std::vector<int> stops;
  for (int stop = 1; stop <= whole.stops; ++stop) stops.push_back(stop);
  const uint64_t seed = std::random_device{}();
  std::shuffle(stops.begin(), stops.end(), std::mt19937_64(seed));
  if (environment("KILLS") != "all") stops.resize(std::min(stops.size(), kUsualKills));
  size_t killed = 0;
  for (const int stop : stops) {
    // Meanwhile, on two threads.
    program.say("call 100000");
    const KillReport report = kill_at_stop(controller, stop);
    const std::string where = "seed " + std::to_string(seed) + ", stop " + std::to_string(stop) +
                              ", " + report.where + report.output;
    killed += report.killed ? 1 : 0;
    ASSERT_EQ(program.hear(), "called") << where;
    ASSERT_EQ(calls("call 20"), "called") << where;
    const auto detached = run(pinprick({"detach", "-p", pid}));
    ASSERT_TRUE(detached.ending.exited_with(0) || session_files().empty())
        << where << detached.output;
    ASSERT_TRUE(session_files().empty()) << where;
    ASSERT_EQ(calls("call 20"), "called") << where;
    ASSERT_EQ(differences(before, footprint_of(program.pid())), "") << where;
  }
  EXPECT_GT(killed, 0u);
}

}  // namespace
}  // namespace pinprick::survive
