#include "point_cost.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <sstream>
#include <utility>
#include <vector>

#include "child.h"
#include "target_records.h"

namespace pinprick::bench {
namespace {

constexpr double kOffNs = 0.3, kOnNs = 4, kSwitchNs = 100e6, kColdBytes = 70;
constexpr std::array<size_t, 5> kProcesses = {50, 100, 200, 400, 800};
constexpr int kMessages = 100'000;  // of one run, which takes about a second
constexpr int kExchanges = 7;

// A LTTng of its own, for the program that is the first argument. Its daemon, its sockets and its
// buffers are in namespaces that end with this shell, in whatever way, so nothing stays. In the
// snapshot mode a session only writes to memory, the newest events over the oldest. The daemon's
// sockets belong to group root, since the namespace may have no other.
constexpr const char* kLttngSession = R"(
set -e
exec 3>&1 >/dev/null
mount -t tmpfs none /run
mount -t tmpfs none /dev/shm
mkdir /run/home
export HOME=/run/home LTTNG_HOME=/run/home
lttng-sessiond --no-kernel --group root --daemonize
lttng create bench --snapshot
lttng enable-event --userspace bench:hit
"$0" lttng --quiet start >&3
)";

Result<void, cli::Message> measure_lttng(const std::string& targets, const Interrupts& interrupts,
                                         Results& results) {
  const std::string program = targets + "/lttng_target";
  if (::access(program.c_str(), X_OK) != 0) {
    fmt::print("engine lttng-ust: skipped; liblttng-ust-dev was not found when this was built\n");
    return {};
  }
  for (const char* needed : {"lttng-sessiond", "lttng", "unshare"})
    if (!is_installed(needed)) {
      fmt::print("engine lttng-ust: skipped; there is no {}\n", needed);
      return {};
    }
  std::vector<std::string> command = {"unshare", "--mount", "--pid", "--fork", "--kill-child"};
  // Only root may mount file systems there.
  if (::geteuid() != 0) command.emplace_back("--map-root-user");
  command.insert(command.end(), {"sh", "-c", kLttngSession, program});
  if (auto done = read_records(command, interrupts, results); !done) {
    if (done.error().cause == "interrupted") return done;
    fmt::print("engine lttng-ust: skipped; its daemon cannot run here in namespaces of its own\n");
  }
  return {};
}

struct Exchange {
  double ns = 0;  // 0 if there cannot be so many processes
  double cpu_ns = 0;
};

Result<Exchange, cli::Message> exchange(const std::string& program, size_t processes,
                                        const Interrupts& interrupts) {
  auto child = Child::start({program, fmt::format("{}", processes), fmt::format("{}", kMessages)},
                            std::nullopt, interrupts);
  if (!child) return fail(child.error());
  const auto line = child->read_line_with("");
  if (!line) return fail(line.error());
  Exchange one;
  std::istringstream(*line) >> one.ns >> one.cpu_ns;
  return one;
}

// While it lives, we are the parent of processes whose parent has ended. At its end, it waits for
// those, which have to be about to end.
class Orphans {
 public:
  Orphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }
  Orphans(const Orphans&) = delete;
  Orphans& operator=(const Orphans&) = delete;
  ~Orphans() {
    while (::waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
    }
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
};

// Of the runs, with points and without; no samples if there cannot be so many processes. Both
// programs in turn, and each of them first in every second turn.
struct Exchanges {
  Samples ns, cpu_ns;
};
Result<Exchanges, cli::Message> exchange_messages(const std::string& targets, size_t processes,
                                                  const Interrupts& interrupts) {
  Exchanges all;
  const std::array<std::string, 2> programs = {targets + "/messages_without_points",
                                               targets + "/messages_with_points"};
  for (size_t run = 0; run < kExchanges; ++run)
    for (size_t turn = 0; turn < programs.size(); ++turn) {
      const size_t which = (run + turn) % programs.size();
      const auto one = exchange(programs[which], processes, interrupts);
      if (!one) return fail(one.error());
      if (one->ns == 0) return Exchanges{};
      (which == 0 ? all.ns.base : all.ns.with).push_back(one->ns);
      (which == 0 ? all.cpu_ns.base : all.cpu_ns.with).push_back(one->cpu_ns);
    }
  return all;
}

std::string percent_of_base(const Samples& samples) {
  const Estimate added = estimate(samples.differences());
  const double base = median(samples.base);
  const auto percent = [&](double value) { return 100 * value / base; };
  return scatters(added, base, 0)
             ? fmt::format("scatters, {:+.1f} to {:+.1f}%", percent(added.low), percent(added.high))
             : fmt::format("{:+.1f}%", percent(added.middle));
}

Result<void, cli::Message> measure_messages(const std::string& targets,
                                            const Interrupts& interrupts, Results& results) {
  fmt::print(
      "tracepoint-hackbench: {} messages between processes, with two points in the way of each, "
      "which are off;\nseconds, medians of {}\n\n{:>9} {:>12} {:>12} {:>28} {:>28}\n",
      kMessages, kExchanges, "processes", "no points", "points", "difference", "of CPU time");
  // If we end one of the programs, its processes end with it.
  const Orphans orphans;
  for (const size_t processes : kProcesses) {
    std::fflush(stdout);
    const auto all = exchange_messages(targets, processes, interrupts);
    if (!all) return fail(all.error());
    if (all->ns.with.empty()) {
      fmt::print("{:>9} skipped; so many processes cannot be started here\n", processes);
      continue;
    }
    Record record = {"tracepoint-hackbench", kPinprick, processes, all->ns};
    record.in_percent = true;
    fmt::print("{:>9} {:>12.3f} {:>12.3f} {:>28} {:>28}\n", processes, record.base() / 1e9,
               record.value() / 1e9, percent_of_base(all->ns), percent_of_base(all->cpu_ns));
    results.add(std::move(record));
  }
  return {};
}

}  // namespace

Result<void, cli::Message> measure_points(const std::string& targets, const Interrupts& interrupts,
                                          Results& results) {
  const size_t first = results.records().size();
  if (auto done = read_records({targets + "/points_target"}, interrupts, results); !done)
    return done;
  if (auto done = measure_lttng(targets, interrupts, results); !done) return done;
  results.print_table(first, false);
  results.print_limit("tracepoint-off", "a tracepoint that is off adds", kOffNs, 1, "ns");
  results.print_limit("tracepoint-on", "one with a counting function adds", kOnNs, 1, "ns");
  results.print_limit("tracepoints-switch-10000", "switching 10,000 of them takes", kSwitchNs, 1e6,
                      "ms", 2);
  results.print_limit("tracepoint-cold-bytes", "a site has", kColdBytes, 1,
                      "bytes away from the usual path");
  fmt::print("\n");
  auto done = measure_messages(targets, interrupts, results);
  fmt::print("\n");
  return done;
}

}  // namespace pinprick::bench
