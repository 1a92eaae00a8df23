#include "stop_cost.h"

#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <array>
#include <vector>

#include "armed.h"
#include "base/clock.h"
#include "child.h"
#include "cli/render/units.h"
#include "target/memory.h"
#include "target/procfs.h"

namespace pinprick::bench {
namespace {

constexpr std::array<size_t, 2> kThreads = {1, 64};
constexpr int kRuns = 31;
constexpr double kMostFloors = 4;
const std::string kFunction = "stand_still_here";

// Nanoseconds.
struct Floor {
  double whole = 0;     // from before the first thread is seized until after the last is resumed
  double standing = 0;  // from the first interrupt until the last thread is resumed
};

// Stops all threads at once, without any work for a probe: each thread is seized, interrupted and
// waited for, its registers are read, eight bytes of text are rewritten unchanged, and it is
// resumed.
Result<Floor, cli::Message> measure_floor(pid_t pid, const target::Memory& memory, Address text) {
  const auto failed = [] { return fail(cli::Message{"ptrace", "a thread cannot be stopped"}); };
  const auto tids = target::list_threads(pid);
  const uint64_t begin = monotonic_ns();
  for (pid_t tid : tids)
    if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) return failed();
  const uint64_t interrupted = monotonic_ns();
  for (pid_t tid : tids)
    if (::ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0) return failed();
  for (pid_t tid : tids) {
    int status = 0;
    user_regs_struct registers = {};
    uint64_t bytes = 0;
    if (::waitpid(tid, &status, __WALL) != tid ||
        ::ptrace(PTRACE_GETREGS, tid, nullptr, &registers) != 0 ||
        !memory.read_value(text, bytes) || !memory.write_value(text, bytes))
      return failed();
  }
  uint64_t last = interrupted;
  for (pid_t tid : tids) {
    last = monotonic_ns();
    if (::ptrace(PTRACE_DETACH, tid, nullptr, nullptr) != 0) return failed();
  }
  const uint64_t end = monotonic_ns();
  return Floor{static_cast<double>(end - begin), static_cast<double>(last - interrupted)};
}

// For one number of threads. Both ways take turns, as no machine is quiet.
Result<void, cli::Message> measure(const std::string& program, size_t threads,
                                   const Interrupts& interrupts, Results& results) {
  auto child = Child::start({program, std::to_string(threads)}, std::nullopt, interrupts);
  if (!child) return fail(child.error());
  if (auto up = child->read_line_with("ready"); !up) return fail(up.error());
  const auto found = find(child->pid(), {kFunction});
  if (!found) return fail(found.error());
  const Address text = found->matches.front().site;
  const auto memory = target::Memory::open(child->pid());
  if (!memory) return fail(cli::Message{"memory", "its memory cannot be opened"});
  // As of a controller that lives on: it has decoded the objects before, and has a probe there.
  auto first = bench::arm(child->pid(), {"main"}, placement::Kind::count);
  if (!first) return fail(first.error());
  std::vector<double> arm, disarm, whole, standing, adding, removing;
  for (int i = 0; i < kRuns; ++i) {
    auto floor = measure_floor(child->pid(), *memory, text);
    if (!floor) return fail(floor.error());
    const uint64_t begin = monotonic_ns();
    auto armed = bench::arm(child->pid(), {kFunction}, placement::Kind::count);
    if (!armed) return fail(armed.error());
    const uint64_t middle = monotonic_ns();
    const auto disarmed = bench::disarm(armed->session);
    if (!disarmed) return fail(disarmed.error());
    adding.push_back(static_cast<double>(middle - begin));
    removing.push_back(static_cast<double>(monotonic_ns() - middle));
    arm.push_back(static_cast<double>(armed->session.report().stopped_ns));
    disarm.push_back(static_cast<double>(disarmed->stopped_ns));
    whole.push_back(floor->whole);
    standing.push_back(floor->standing);
  }
  if (const auto disarmed = bench::disarm(first->session); !disarmed) return fail(disarmed.error());
  const std::string many = threads == 1 ? "" : fmt::format("-{}", threads);
  const double stop = median(arm), least = median(whole);
  const std::string rounds = "stops" + many;
  const auto add = [&](const char* name, std::string_view engine, const std::vector<double>& ns) {
    results.add({name + many, engine, threads, {{}, ns}, rounds});
  };
  add("stop-one", kPinprick, arm);
  add("stop-disarm-one", kPinprick, disarm);
  add("add-one", kPinprick, adding);
  add("remove-one", kPinprick, removing);
  add("ptrace-floor", kKernel, whole);
  add("ptrace-standing", kKernel, standing);
  fmt::print("{:>7} | {:>9} {:>9} | {:>9} {:>9} | {:>9} {:>9} | {:>6.1f}\n", threads,
             cli::duration_ns(median(adding)), cli::duration_ns(median(removing)),
             cli::duration_ns(stop), cli::duration_ns(median(disarm)), cli::duration_ns(least),
             cli::duration_ns(median(standing)), stop / least);
  std::fflush(stdout);
  results.add_fact(fmt::format("stop_one_over_ptrace_floor_{}", threads), stop / least);
  return {};
}

}  // namespace

Result<void, cli::Message> measure_stops(const std::string& targets, const Interrupts& interrupts,
                                         Results& results) {
  fmt::print("{:>7} | {:>9} {:>9} | {:>9} {:>9} | {:>9} {:>9} | {:>6}\n", "threads", "add",
             "remove", "stopped", "removing", "floor", "standing", "ratio");
  for (size_t threads : kThreads)
    if (auto done = measure(targets + "/still_target", threads, interrupts, results); !done)
      return done;
  fmt::print("\n");
  for (size_t threads : kThreads) {
    const std::string many = threads == 1 ? "" : fmt::format("-{}", threads);
    const auto ratio = ratio_of(*results.find("stop-one" + many, kPinprick, threads),
                                *results.find("ptrace-floor" + many, kKernel, threads));
    print_goal(
        fmt::format("stop-one{} is at most {:.0f} times ptrace-floor{}", many, kMostFloors, many),
        *ratio, kMostFloors);
  }
  fmt::print("\n");
  return {};
}

}  // namespace pinprick::bench
