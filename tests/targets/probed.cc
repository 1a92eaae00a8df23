// Probes itself, by one command per line, each of which is answered with a line:
//
//     place     a probe on work(); "placed", or why not
//     remove    "removed"
//     call      work() a thousand times; "called", with the hits of the probe
//     fork      the PID of a child that waits until this process ends
//
// Ends at the end of its input.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <iostream>
#include <optional>
#include <string>

#include "pinprick/probe.h"

extern "C" [[gnu::noinline]] long work(long x) {
  asm volatile("" : "+r"(x));
  return x * 3 + 1;
}

int main() {
  long hits = 0;
  std::optional<pinprick::Probe> probe;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "place") {
      auto placed =
          pinprick::Probe::place({.where = work, .pre = [&](pinprick::Registers&) { ++hits; }});
      std::cout << (placed ? "placed" : placed.error().message()) << std::endl;
      if (placed) probe = *std::move(placed);
    } else if (line == "remove") {
      probe.reset();
      std::cout << "removed" << std::endl;
    } else if (line == "fork") {
      const pid_t child = ::fork();
      if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) ::pause();
      }
      std::cout << child << std::endl;
    } else {
      for (long i = 0; i < 1000; ++i)
        if (work(i) != 3 * i + 1) {
          std::cout << "WRONG" << std::endl;
          return 1;
        }
      std::cout << "called " << hits << std::endl;
    }
  }
}
