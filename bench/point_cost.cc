#include "point_cost.h"

#include <fmt/format.h>
#include <unistd.h>

#include <vector>

#include "child.h"
#include "target_records.h"

namespace pinprick::bench {
namespace {

constexpr double kOffNs = 0.3, kOnNs = 4, kSwitchNs = 100e6, kColdBytes = 70;

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
  // Who is not root has to become it there, so that file systems can be mounted.
  if (::geteuid() != 0) command.push_back("--map-root-user");
  command.insert(command.end(), {"sh", "-c", kLttngSession, program});
  if (auto done = read_records(command, interrupts, results); !done) {
    if (done.error().cause == "interrupted") return done;
    fmt::print("engine lttng-ust: skipped; its daemon cannot run here in namespaces of its own\n");
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
  return {};
}

}  // namespace pinprick::bench
