#include "arm_cost.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

#include "armed.h"
#include "base/clock.h"
#include "child.h"
#include "cli/render/units.h"

namespace pinprick::bench {
namespace {

constexpr int kRuns = 15;
// The goals, for the machine on which they were set, with nothing else running.
constexpr double kGoalNs = 15e6, kGoalWithoutCacheNs = 40e6;
// A typical program: it sleeps, works a little, and has a library mapped.
constexpr const char* kProgram =
    "import time, zlib\n"
    "print('up', flush=True)\n"
    "while True:\n"
    "    zlib.crc32(b'0123456789')\n"
    "    time.sleep(0.001)\n";

// The cache is in a folder of the measurement.
class OwnCache {
 public:
  OwnCache() {
    std::string name = std::filesystem::temp_directory_path() / "pinprick-bench-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) return;
    path_ = name;
    ::setenv("XDG_CACHE_HOME", path_.c_str(), 1);
  }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;
  ~OwnCache() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
    ::unsetenv("XDG_CACHE_HOME");
  }
  bool is_there() const { return !path_.empty(); }

 private:
  std::string path_;
};

// Returns the time from its execution to the record that says that the probe is armed.
Result<double, cli::Message> time_one(const std::string& pinprick, pid_t pid, bool cached,
                                      const Interrupts& interrupts) {
  std::vector<std::string> command = {pinprick, "count", "--json",    "-p", std::to_string(pid),
                                      "-d",     "0.01",  "libz:crc32"};
  if (!cached) command.insert(command.begin() + 2, "--no-cache");
  auto run = Child::start(command, std::nullopt, interrupts);
  if (!run) return fail(run.error());
  const auto armed = run->read_line_with("\"type\":\"armed\"");
  const uint64_t end = monotonic_ns();
  if (!armed) return fail(armed.error());
  // Lets it take its probe out.
  for (;;) {
    const auto line = run->read_line();
    if (!line) return fail(line.error());
    if (!*line) return static_cast<double>(end - run->executed_ns());
  }
}

}  // namespace

Result<void, cli::Message> measure_arm(const std::string& pinprick, const Interrupts& interrupts,
                                       Results& results) {
  const OwnCache cache;
  if (!cache.is_there()) return fail(cli::Message{"no_folder", "no temporary folder to be had"});
  auto program = Child::start({"python3", "-c", kProgram}, std::nullopt, interrupts);
  if (!program) return fail(program.error());
  const LeftRecords records(program->pid());
  if (!program->read_line_with("up")) {
    fmt::print("arm-one: skipped; there is no python3 with zlib\n\n");
    return {};
  }
  std::array<std::vector<double>, 2> samples;
  // The first run decodes, and fills the cache.
  if (const auto first = time_one(pinprick, program->pid(), true, interrupts); !first)
    return fail(first.error());
  for (int i = 0; i < kRuns; ++i)
    for (const bool cached : {false, true}) {
      const auto ns = time_one(pinprick, program->pid(), cached, interrupts);
      if (!ns) return fail(ns.error());
      samples[cached].push_back(*ns);
    }
  const auto report = [&](const char* name, const std::vector<double>& ns, double goal) {
    results.add({name, kPinprick, 1, {{}, ns}, "arm"});
    print_goal(fmt::format("{} takes at most {} ms", name, goal / 1e6), estimate(ns), goal, 1e6);
  };
  report("arm-one", samples[1], kGoalNs);
  report("arm-one-no-cache", samples[0], kGoalWithoutCacheNs);
  fmt::print("\n");
  return {};
}

}  // namespace pinprick::bench
