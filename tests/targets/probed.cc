// Probes itself, by one command per line, each of which is answered with a line:
//
//     place F       a probe on F; "placed", or why not
//     time F        a Latency of F; the same
//     remove F      "removed"
//     call          each function a thousand times; "called", with the hits of the probes on work()
//                   and rest()
//     throw         through work() and rest(), a thousand times; "thrown"
//     churn F N     N times a probe on F is placed and removed, while threads call all functions;
//                   "churned", with how often it was placed; why not, if it once was not
//     nap           calls nap(), which ends with a jump to wait_for_line(), which returns once the
//                   next line is there; "napped"
//     attach        a function to the tracepoint in fire(); "attached", or why not
//     detach        "detached"
//     fire          fire() a thousand times; "fired", with the calls of the function
//     switch N      N times the function is attached and detached, while eight threads call fire();
//                   "switched", with how often it was attached
//     fork          the PID of a child that waits until this process ends
//     exec          executes itself: "executed"
//
// F is work, which ends with a jump to rest, or rest, nap, or wait_for_line. Ends at the end of its
// input.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "pinprick/latency.h"
#include "pinprick/probe.h"
#include "pinprick/tracepoint.h"

PINPRICK_POINT_DECLARE(probed, fired, long);
PINPRICK_POINT_DEFINE(probed, fired);

namespace {

bool throws = false;

}  // namespace

extern "C" {

[[gnu::noinline]] long rest(long x) {
  asm volatile("" : "+r"(x));
  if (throws && x % 2 == 0) throw x;
  return x - 1;
}

[[gnu::noinline]] long work(long x) {
  asm volatile("" : "+r"(x));
  return rest(3 * x + 2);
}

[[gnu::noinline]] long fire(long x) {
  asm volatile(".nops 9");  // room for a probe at the entry
  PINPRICK_POINT(probed, fired, x);
  return x + 7;
}

[[gnu::noinline]] long wait_for_line(long x) {
  std::string line;
  std::getline(std::cin, line);
  return x + 1;
}

// Ends with a jump to the function, so that both return at once.
[[gnu::noinline]] long nap(long x) {
  asm volatile("" : "+r"(x));
  return wait_for_line(x);
}
}

namespace {

// The value has to arrive as it was fired.
std::atomic<long> fired = 0;
std::atomic<bool> is_misfired = false;
void on_fired(void*, long x) {
  ++fired;
  if (x < 0 || x >= 1000) is_misfired = true;
}
bool attach() {
  return PINPRICK_POINT_ATTACH(probed, fired, on_fired, nullptr, 0) == 0;
}
bool detach() {
  return PINPRICK_POINT_DETACH(probed, fired, on_fired, nullptr) == 0;
}

bool fire_all() {
  for (long i = 0; i < 1000; ++i)
    if (fire(i) != i + 7) return false;
  return !is_misfired;
}

bool is_right(long i) {
  return work(i) == 3 * i + 1 && rest(i) == i - 1;
}

bool call_all() {
  for (long i = 0; i < 1000; ++i)
    if (!is_right(i)) return false;
  return true;
}

bool throw_all() {
  throws = true;
  int caught = 0;
  for (long i = 0; i < 1000; ++i) {
    try {
      if (work(2 * i) == 0) return false;
    } catch (long x) {
      caught += x == 6 * i + 2;
    }
  }
  throws = false;
  return caught == 1000;
}

pinprick::Where where(const std::string& function) {
  if (function == "rest") return rest;
  if (function == "nap") return nap;
  if (function == "wait_for_line") return wait_for_line;
  return work;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) std::cout << "executed" << std::endl;
  std::map<std::string, std::atomic<long>> hits;
  std::map<std::string, pinprick::Probe> probes;
  std::map<std::string, pinprick::Latency> times;
  const auto place = [&](const std::string& function) {
    std::atomic<long>& counted = hits[function];
    return pinprick::Probe::place(
        {.where = where(function), .pre = [&counted](pinprick::Registers&) { ++counted; }});
  };
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, function = "work";
    long count = 0;
    words >> command >> function >> count;
    if (function.empty()) function = "work";
    bool is_right_so_far = true;
    if (command == "place") {
      auto placed = place(function);
      std::cout << (placed ? "placed" : placed.error().message()) << std::endl;
      if (placed) probes.insert_or_assign(function, *std::move(placed));
    } else if (command == "time") {
      auto placed = pinprick::Latency::place(where(function));
      std::cout << (placed ? "placed" : placed.error().message()) << std::endl;
      if (placed) times.insert_or_assign(function, *std::move(placed));
    } else if (command == "remove") {
      probes.erase(function);
      times.erase(function);
      std::cout << "removed" << std::endl;
    } else if (command == "call") {
      is_right_so_far = call_all();
      std::cout << "called " << hits["work"] << ' ' << hits["rest"] << std::endl;
    } else if (command == "throw") {
      is_right_so_far = throw_all();
      std::cout << "thrown" << std::endl;
    } else if (command == "nap") {
      is_right_so_far = nap(1) == 2;
      std::cout << "napped" << std::endl;
    } else if (command == "churn") {
      std::atomic<bool> ends = false, is_wrong = false;
      std::vector<std::thread> threads;
      for (int i = 0; i < 3; ++i)
        threads.emplace_back([&] {
          while (!ends)
            if (!is_right(i)) is_wrong = true;
        });
      long placed = 0;
      std::string why_not;
      for (long i = 0; i < count; ++i) {
        const auto probe = place(function);
        if (probe)
          ++placed;
        else
          why_not = probe.error().message();
      }
      ends = true;
      for (std::thread& thread : threads) thread.join();
      is_right_so_far = !is_wrong;
      if (!why_not.empty()) std::cout << why_not << '\n';
      std::cout << "churned " << placed << std::endl;
    } else if (command == "attach") {
      std::cout << (attach() ? "attached" : pinprick_points_error()) << std::endl;
    } else if (command == "detach") {
      is_right_so_far = detach();
      std::cout << "detached" << std::endl;
    } else if (command == "fire") {
      is_right_so_far = fire_all();
      std::cout << "fired " << fired << std::endl;
    } else if (command == "switch") {
      std::atomic<bool> ends = false, is_wrong = false;
      std::vector<std::thread> threads;
      for (int i = 0; i < 8; ++i)
        threads.emplace_back([&] {
          while (!ends)
            if (!fire_all()) is_wrong = true;
        });
      long attached = 0;
      for (long i = 0; i < std::stol(function); ++i)
        if (attach()) {
          ++attached;
          if (!detach()) is_wrong = true;
        }
      ends = true;
      for (std::thread& thread : threads) thread.join();
      is_right_so_far = !is_wrong;
      std::cout << "switched " << attached << std::endl;
    } else if (command == "fork") {
      const pid_t child = ::fork();
      if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) ::pause();
      }
      std::cout << child << std::endl;
    } else if (command == "exec") {
      char again[] = "again";
      char* const arguments[] = {argv[0], again, nullptr};
      ::execv("/proc/self/exe", arguments);
    }
    if (!is_right_so_far) {
      std::cout << "WRONG" << std::endl;
      return 1;
    }
  }
}
