#include "files_cost.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "arch/code.h"
#include "base/clock.h"
#include "child.h"
#include "cli/render/units.h"
#include "image/process.h"
#include "kernel_probe.h"
#include "target/exec_catcher.h"
#include "target/exec_gate.h"

namespace pinprick::bench {
namespace {

constexpr int kRuns = 9, kExecutions = 50;
constexpr int kStorm = 1000, kAtOnce = 8, kCalls = 10;
constexpr size_t kFileBytes = 100 << 20;
constexpr int kBatch = 100;  // of the storm; each has to end within a minute
constexpr int kSources = 200, kPart = 25, kJobs = 2, kBuilds = 3;  // the same for each part
constexpr double kGateRatio = 2, kReaderRatio = 1.05, kMakeRatio = 1.3;

// The files belong to the measurement: no other process executes or loads them.
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

// `pinprick count --all FILE... FUNCTION...`, until it is ended.
class ByFile {
 public:
  static Result<ByFile, cli::Message> start(const std::string& pinprick,
                                            const std::vector<std::string>& files,
                                            const std::vector<std::string>& functions,
                                            const Interrupts& interrupts) {
    std::vector<std::string> command = {pinprick, "count", "--json"};
    for (const std::string& file : files) command.insert(command.end(), {"--all", file});
    command.insert(command.end(), functions.begin(), functions.end());
    auto child = Child::start(command, std::nullopt, interrupts);
    if (!child) return fail(child.error());
    const auto armed = child->read_line_with("\"type\":\"files_armed\"");
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
      if (!record.is_discarded() && record.value("type", "") == "files_detached")
        said_ = fmt::format("late {}, let through {}, left alone {}", record["late"].dump(),
                            record["let_through"].dump(), record["left_alone"].dump());
    }
  }
  // What it lacks by its own figures, after end().
  const std::string& said() const { return said_; }

 private:
  explicit ByFile(Child child) : child_(std::move(child)) {}
  Child child_;
  std::string said_;
};

// Returns how many times as long it took with it as without, round by round.
Estimate ratios(const Samples& samples) {
  std::vector<double> all;
  for (size_t i = 0; i < samples.with.size(); ++i) all.push_back(samples.with[i] / samples.base[i]);
  return estimate(std::move(all));
}

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
    auto by_file = ByFile::start(pinprick, {program}, {"call_short_function"}, interrupts);
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
  const Record floor = {"exec-floor", kPinprick, 1, {bare, held}, "executions"};
  const Record gate = {"exec-gate", kPinprick, 1, {bare, probed}, "executions"};
  results.add(floor);
  results.add(gate);
  print_goal(
      fmt::format("a probed execution adds at most {} times what holding it adds", kGateRatio),
      *ratio_of(gate, floor), kGateRatio, 1,
      fmt::format("; {} and {}, of an execution of {}", cli::duration_ns(gate.added().middle),
                  cli::duration_ns(floor.added().middle), cli::duration_ns(median(bare))));
  return {};
}

// Where a function's last instruction is in its file. The kernel's uprobe is put there, since
// pinprick's jump is at the first one; and a uprobe on a system call makes the process crash.
std::optional<uint64_t> last_instruction(const std::string& path, std::string_view function) {
  const auto image = image::load_file(path);
  if (!image) return std::nullopt;
  image::Object& object = *image->objects.front();
  const image::FunctionTable& table = object.functions();
  for (const image::Function& one : table.functions()) {
    const auto names = table.names(one);
    if (std::find(names.begin(), names.end(), function) == names.end()) continue;
    const auto code = object.code(one);
    Address last = one.range.begin;
    for (Address at = last; at < one.range.end;) {
      const auto next = arch::decode(code.subspan(at - one.range.begin), at);
      if (!next) return std::nullopt;
      last = at;
      at += next->length;
    }
    for (const image::Segment& segment : object.elf().segments())
      if (segment.range.contains(last)) return segment.offset + (last - segment.range.begin);
  }
  return std::nullopt;
}

// A function of libc, in a copy that only these processes load. The kernel's uprobe by file counts
// the same calls at the same time.
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
  std::optional<KernelProbe> kernel;
  if (const auto at = last_instruction(libc, "getppid")) {
    auto placed = KernelProbe::position_in_file(libc, *at);
    if (placed)
      kernel = *std::move(placed);
    else
      fmt::print("storm: without the kernel's uprobe; {}\n", placed.error().text);
  }
  Samples samples;
  uint64_t hits = 0, counted_by_kernel = 0;
  std::string said;
  for (int done = 0; done < kStorm; done += kBatch) {
    const auto bare = spawn(spawner, kBatch, kAtOnce, command);
    if (!bare) return fail(bare.error());
    uint64_t before = 0;
    if (kernel) {
      const auto counted = kernel->hits();
      if (!counted) return fail(counted.error());
      before = *counted;
    }
    auto by_file = ByFile::start(pinprick, {libc}, {"getppid"}, interrupts);
    if (!by_file) return fail(by_file.error());
    const auto probed = spawn(spawner, kBatch, kAtOnce, command);
    if (!probed) return fail(probed.error());
    const auto some = by_file->end();
    if (!some) return fail(some.error());
    hits += *some;
    said = by_file->said();
    if (kernel) {
      const auto counted = kernel->hits();
      if (!counted) return fail(counted.error());
      counted_by_kernel += *counted - before;
    }
    samples.base.push_back(*bare);
    samples.with.push_back(*probed);
  }
  constexpr uint64_t kAll = uint64_t{kStorm} * kCalls;
  const uint64_t expected = kernel ? counted_by_kernel : kAll;
  if (kernel) results.add_fact("storm-kernel", expected);
  results.add({"storm", kPinprick, kAtOnce, std::move(samples)});
  results.add_fact("storm-missed", expected - std::min(expected, hits));
  print_goal(fmt::format("of {} calls in {} processes none is missed", kAll, kStorm),
             hits == expected && expected == kAll,
             fmt::format("{} were counted{}; in the last round {}", hits,
                         kernel ? fmt::format(", {} by the kernel's uprobe", expected) : "", said));
  return {};
}

// Of a program, since its mapping may have to be held as well as its opening.
Result<void, cli::Message> measure_reader(const std::string& pinprick, const std::string& folder,
                                          const std::string& program, Child& spawner,
                                          const Interrupts& interrupts, Results& results) {
  // With much after its end.
  const std::string file = folder + "/marked";
  std::error_code failed;
  std::filesystem::copy_file(program, file, failed);
  if (failed) return fail(cli::Message{"no_file", "cannot copy " + program});
  std::ofstream(file, std::ios::app) << std::string(kFileBytes, 'x');
  // Read by turns with it, at the same time: a machine's speed changes by more than this goal.
  const std::string other = folder + "/unmarked";
  std::filesystem::copy_file(file, other, failed);
  if (failed) return fail(cli::Message{"no_file", "cannot copy " + file});
  std::vector<double> bare, marked;
  auto by_file = ByFile::start(pinprick, {file}, {"call_short_function"}, interrupts);
  if (!by_file) return fail(by_file.error());
  for (int run = 0; run < 2 * kRuns; ++run) {
    for (const bool is_marked : {run % 2 == 0, run % 2 != 0}) {
      const auto took = spawn(spawner, 1, 1, "sha256sum " + (is_marked ? file : other));
      if (!took) return fail(took.error());
      (is_marked ? marked : bare).push_back(*took);
    }
  }
  if (const auto hits = by_file->end(); !hits) return fail(hits.error());
  print_goal(fmt::format("reading a file takes at most {} times as long", kReaderRatio),
             ratios({bare, marked}), kReaderRatio);
  results.add({"reader", kPinprick, 1, {std::move(bare), std::move(marked)}});
  return {};
}

// What a command prints, without its newline.
std::string output_of(const std::string& command, const Interrupts& interrupts) {
  auto child = Child::start({"sh", "-c", command + " 2>/dev/null"}, std::nullopt, interrupts);
  if (!child) return {};
  const auto line = child->read_line();
  return line && *line ? **line : std::string();
}

// The compiler and the assembler are copies that only this build executes.
Result<void, cli::Message> measure_make(const std::string& pinprick, const std::string& folder,
                                        Child& spawner, const Interrupts& interrupts,
                                        Results& results) {
  const std::string tools = folder + "/tools", sources = folder + "/sources";
  std::error_code failed, failed_too;
  std::filesystem::create_directory(tools, failed);
  std::filesystem::create_directory(sources, failed);
  std::filesystem::copy_file(output_of("gcc -print-prog-name=cc1", interrupts), tools + "/cc1",
                             failed);
  std::filesystem::copy_file(output_of("command -v as", interrupts), tools + "/as", failed_too);
  if (failed || failed_too || output_of("command -v make", interrupts).empty()) {
    fmt::print("follow-make: skipped; there is no make, gcc or as\n");
    return {};
  }
  std::ofstream makefile(sources + "/Makefile");
  for (int i = 0; i < kSources; ++i) {
    makefile << "part" << i / kPart << ": f" << i << ".o\n";
    std::ofstream(fmt::format("{}/f{}.c", sources, i))
        << fmt::format("int f{}(int x) {{ return x * {}; }}\n", i, i);
  }
  makefile << "%.o: %.c\n\t@gcc -B " << tools << "/ -O2 -c $< -o $@\n";
  makefile.close();
  const auto build = [&]() -> Result<double, cli::Message> {
    double sum = 0;
    for (int part = 0; part < kSources / kPart; ++part) {
      const auto ns =
          spawn(spawner, 1, 1, fmt::format("make -B -C {} -j{} part{}", sources, kJobs, part));
      if (!ns) return fail(ns.error());
      sum += *ns;
    }
    return sum;
  };
  std::vector<double> bare, probed;
  for (int run = 0; run < kBuilds; ++run) {
    const auto before = build();
    if (!before) return fail(before.error());
    // The assembler's function is one that it calls in each run; it has no name for its start.
    auto by_file = ByFile::start(pinprick, {tools + "/cc1", tools + "/as"},
                                 {"cc1:_start", "as:_obstack_begin"}, interrupts);
    if (!by_file) return fail(by_file.error());
    const auto meanwhile = build();
    if (!meanwhile) return fail(meanwhile.error());
    const auto hits = by_file->end();
    if (!hits) return fail(hits.error());
    if (*hits < uint64_t{2} * kSources)
      return fail(
          cli::Message{"wrong_count", fmt::format("{} hits in {} compilations", *hits, kSources)});
    bare.push_back(*before);
    probed.push_back(*meanwhile);
  }
  print_goal(fmt::format("a build takes at most {} times as long", kMakeRatio),
             ratios({bare, probed}), kMakeRatio);
  results.add({"follow-make", kPinprick, kJobs, {std::move(bare), std::move(probed)}});
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
  if (auto done = measure_reader(pinprick, folder.path(), program, *spawner, interrupts, results);
      !done)
    return done;
  if (auto done = measure_make(pinprick, folder.path(), *spawner, interrupts, results); !done)
    return done;
  results.print_table(first, false);
  fmt::print("\n");
  return {};
}

}  // namespace pinprick::bench
