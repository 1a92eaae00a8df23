// lttng_target COMMAND...: what points_target measures, of a tracepoint of LTTng. Prints lines of
// timing.h.
//
// The point is off at first. COMMAND turns it on: from then on its hits are recorded in a ring
// buffer, as LTTng's daemon has set it up. Exits with status 1 if the point is not on then.
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "lttng_points.h"
#include "timing.h"

namespace {

constexpr int kRecordedRuns = 21;  // a record takes so long that others disturb a run little

HIT_LOOP(empty, asm volatile(""))
HIT_LOOP(with_point, lttng_ust_tracepoint(bench, hit, i))

void compare(const char* name, int runs) {
  Samples samples;
  for (int run = 0; run < runs; ++run) take_turn(samples, empty, with_point);
  report(name, "lttng-ust", 1, name, samples);
}

bool is_on() {
  return lttng_ust_tracepoint_enabled(bench, hit);
}

bool run(char** command) {
  pid_t pid = 0;
  int status = 0;
  return posix_spawnp(&pid, command[0], nullptr, nullptr, command, environ) == 0 &&
         waitpid(pid, &status, 0) == pid && status == 0;
}

// The daemon's word reaches the process some time after the command has ended.
bool turns_on() {
  constexpr int kMostWaits = 1000;
  for (int i = 0; i < kMostWaits && !is_on(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return is_on();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  compare("tracepoint-off", kRuns);
  if (!run(argv + 1) || !turns_on()) return 1;
  compare("tracepoint-on", kRecordedRuns);
  std::cout << "done" << std::endl;
}
