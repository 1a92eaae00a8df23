#include "files_cost.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "child.h"
#include "cli/render/units.h"
#include "target/exec_catcher.h"
#include "target/exec_gate.h"

namespace pinprick::bench {
namespace {

constexpr int kRuns = 9, kExecutions = 50;
constexpr int kStorm = 1000, kAtOnce = 8, kCalls = 10;
constexpr size_t kFileBytes = 100 << 20;
constexpr double kGateRatio = 2, kReaderRatio = 1.05;

// The files are of the measurement: nobody else executes or loads them.
class OwnFolder {
 public:
  OwnFolder() {
    std::string name = std::filesystem::temp_directory_path() / "pinprick-bench-XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Holds each execution of a file, and lets it go at the first instruction: what cannot be saved.
class BareGate {
 public:
  explicit BareGate(const std::string& path) {
    if (auto gate = target::ExecGate::open()) gate_ = *std::move(gate);
    if (gate_ != nullptr && !gate_->watch(path)) gate_.reset();
    if (gate_ != nullptr) thread_ = std::thread([this] { run(); });
  }
  BareGate(const BareGate&) = delete;
  BareGate& operator=(const BareGate&) = delete;
  ~BareGate() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
  }
  bool is_there() const { return gate_ != nullptr; }

 private:
  // One thread traces.
  void run() {
    target::ExecCatcher catcher(
        *gate_, [](pid_t) { return true; }, [](pid_t) { return true; });
    while (!ends_) {
      pollfd requested = {gate_->descriptor(), POLLIN, 0};
      ::poll(&requested, 1, catcher.is_busy() ? 0 : 10);
      while (catcher.next()) continue;
    }
    gate_->close();
  }

  std::unique_ptr<target::ExecGate> gate_;
  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

// `pinprick count --all FILE FUNCTION`, until it is ended.
class ByFile {
 public:
  static Result<ByFile, cli::Message> start(const std::string& pinprick, const std::string& file,
                                            const std::string& function,
                                            const Interrupts& interrupts) {
    auto child = Child::start({pinprick, "count", "--json", "--all", file, function}, std::nullopt,
                              interrupts);
    if (!child) return fail(child.error());
    const auto armed = child->read_line_with("\"type\":\"armed\"");
    if (!armed) return fail(armed.error());
    return ByFile(*std::move(child));
  }
  // Returns the hits.
  Result<uint64_t, cli::Message> end() {
    ::kill(child_.pid(), SIGINT);
    uint64_t hits = 0;
    for (;;) {
      const auto line = child_.read_line();
      if (!line) return fail(line.error());
      if (!*line) return hits;
      const auto record = nlohmann::json::parse(**line, nullptr, false);
      if (!record.is_discarded() && record.value("type", "") == "count")
        hits += record.value("hits", uint64_t{0});
    }
  }

 private:
  explicit ByFile(Child child) : child_(std::move(child)) {}
  Child child_;
};

Result<double, cli::Message> spawn(Child& spawner, int times, int at_once,
                                   const std::string& command) {
  if (auto sent = spawner.write_line(fmt::format("{} {} {}", times, at_once, command)); !sent)
    return fail(sent.error());
  const auto line = spawner.read_line_with("");
  if (!line) return fail(line.error());
  if (*line == "failed")
    return fail(cli::Message{"failed", command + " did not end well", cli::kFailed});
  return std::strtod(line->c_str(), nullptr) / times;
}

// Three ways take turns: as it is, held with nothing armed, and probed.
Result<void, cli::Message> measure_executions(const std::string& pinprick,
                                              const std::string& program, Child& spawner,
                                              const Interrupts& interrupts, Results& results) {
  std::vector<double> bare, held, probed;
  const std::string command = program + " 1";
  for (int run = 0; run < kRuns; ++run) {
    const auto once = spawn(spawner, kExecutions, 1, command);
    if (!once) return fail(once.error());
    bare.push_back(*once);
    {
      const BareGate gate(program);
      const auto ns = spawn(spawner, kExecutions, 1, command);
      if (!ns) return fail(ns.error());
      held.push_back(*ns);
    }
    auto by_file = ByFile::start(pinprick, program, "call_short_function", interrupts);
    if (!by_file) return fail(by_file.error());
    const auto ns = spawn(spawner, kExecutions, 1, command);
    if (!ns) return fail(ns.error());
    probed.push_back(*ns);
    const auto hits = by_file->end();
    if (!hits) return fail(hits.error());
    if (*hits != kExecutions)
      return fail(cli::Message{"wrong_count",
                               fmt::format("{} of {} calls were counted", *hits, kExecutions)});
  }
  const Record floor = {"exec-floor", kPinprick, 1, median(bare), median(held)};
  const Record gate = {"exec-gate", kPinprick, 1, median(bare), median(probed)};
  results.add(floor);
  results.add(gate);
  const double ratio = gate.added_ns() / floor.added_ns();
  print_goal(
      fmt::format("a probed execution adds at most {} times what holding it adds", kGateRatio),
      ratio <= kGateRatio,
      fmt::format("{:.2f}; {} and {}, of an execution of {}", ratio,
                  cli::duration_ns(gate.added_ns()), cli::duration_ns(floor.added_ns()),
                  cli::duration_ns(median(bare))));
  return {};
}

// A function of libc, in a copy that only these processes load.
Result<void, cli::Message> measure_storm(const std::string& pinprick, const std::string& folder,
                                         const std::string& program, Child& spawner,
                                         const Interrupts& interrupts, Results& results) {
  const std::string libc = folder + "/libc.so.6";
  std::error_code failed;
  std::filesystem::copy_file("/lib/x86_64-linux-gnu/libc.so.6", libc, failed);
  if (failed) {
    fmt::print("storm: skipped; there is no /lib/x86_64-linux-gnu/libc.so.6\n");
    return {};
  }
  const std::string command = fmt::format("env LD_LIBRARY_PATH={} {} {}", folder, program, kCalls);
  const auto bare = spawn(spawner, kStorm, kAtOnce, command);
  if (!bare) return fail(bare.error());
  auto by_file = ByFile::start(pinprick, libc, "getppid", interrupts);
  if (!by_file) return fail(by_file.error());
  const auto probed = spawn(spawner, kStorm, kAtOnce, command);
  if (!probed) return fail(probed.error());
  const auto hits = by_file->end();
  if (!hits) return fail(hits.error());
  results.add({"storm", kPinprick, kAtOnce, *bare, *probed});
  constexpr uint64_t kAll = uint64_t{kStorm} * kCalls;
  results.add_fact("storm-missed", kAll - std::min(kAll, *hits));
  print_goal(fmt::format("of {} calls in {} processes none is missed", kAll, kStorm), *hits == kAll,
             fmt::format("{} were counted", *hits));
  return {};
}

Result<void, cli::Message> measure_reader(const std::string& pinprick, const std::string& folder,
                                          Child& spawner, const Interrupts& interrupts,
                                          Results& results) {
  // A library, with much after its end.
  const std::string file = folder + "/libmarked.so";
  std::error_code failed;
  std::filesystem::copy_file("/lib/x86_64-linux-gnu/libc.so.6", file, failed);
  if (failed) return {};
  std::ofstream(file, std::ios::app) << std::string(kFileBytes, 'x');
  const std::string command = "sha256sum " + file;
  std::vector<double> bare, marked;
  for (int run = 0; run < kRuns; ++run) {
    const auto before = spawn(spawner, 1, 1, command);
    if (!before) return fail(before.error());
    auto by_file = ByFile::start(pinprick, file, "getppid", interrupts);
    if (!by_file) return fail(by_file.error());
    const auto meanwhile = spawn(spawner, 1, 1, command);
    if (!meanwhile) return fail(meanwhile.error());
    if (const auto hits = by_file->end(); !hits) return fail(hits.error());
    bare.push_back(*before);
    marked.push_back(*meanwhile);
  }
  results.add({"reader", kPinprick, 1, median(bare), median(marked)});
  const double ratio = median(marked) / median(bare);
  print_goal(fmt::format("reading a file takes at most {} times as long", kReaderRatio),
             ratio <= kReaderRatio, fmt::format("{:.3f}", ratio));
  return {};
}

}  // namespace

Result<void, cli::Message> measure_files(const std::string& pinprick, const std::string& targets,
                                         const Interrupts& interrupts, Results& results) {
  const OwnFolder folder;
  if (folder.path().empty())
    return fail(cli::Message{"no_folder", "no temporary folder to be had"});
  const std::string program = folder.path() + "/short_target";
  std::error_code failed;
  std::filesystem::copy_file(targets + "/short_target", program, failed);
  if (failed) return fail(cli::Message{"no_target", "cannot copy " + targets + "/short_target"});
  if (!BareGate(program).is_there()) {
    fmt::print("files: skipped; executions are not held here, which takes root and Linux 6.8\n\n");
    return {};
  }
  auto spawner = Child::start({targets + "/spawn_target"}, std::nullopt, interrupts);
  if (!spawner) return fail(spawner.error());
  const size_t first = results.records().size();
  if (auto done = measure_executions(pinprick, program, *spawner, interrupts, results); !done)
    return done;
  if (auto done = measure_storm(pinprick, folder.path(), program, *spawner, interrupts, results);
      !done)
    return done;
  if (auto done = measure_reader(pinprick, folder.path(), *spawner, interrupts, results); !done)
    return done;
  results.print_table(first, false);
  fmt::print("\n");
  return {};
}

}  // namespace pinprick::bench
