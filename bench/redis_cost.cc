#include "redis_cost.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "armed.h"
#include "base/clock.h"
#include "child.h"
#include "kernel_probe.h"
#include "target/procfs.h"

namespace pinprick::bench {
namespace {

using placement::Kind;

constexpr int kArmings = 5;
// Many short runs, as disturbances come in bursts of seconds.
constexpr size_t kPairs = 21;
constexpr size_t kFewestPairs = 7;
// With the kernel's probes a request takes ten times as long, and each removal a second.
constexpr size_t kKernelPairs = 3;
constexpr size_t kKernelRequests = 40'000;
constexpr uint64_t kLongestNs = 90'000'000'000;  // after that, the fewest runs must do
constexpr int kPipeline = 16;
constexpr size_t kRequests = 400'000;  // in one run, which takes about a fifth of a second

const std::vector<std::string> kEveryFunction = {"redis-server:*"};
// The functions that a request passes through, then those that all requests of a pipeline share.
// None of them waits: a call that has not returned when the probes are removed would keep its
// memory in the server.
const std::vector<std::string> kBusyFunctions = {"redis-server:processCommand", "redis-server:call",
                                                 "redis-server:lookupKey*", "libc:read",
                                                 "libc:write"};

class PrivateFolder {
 public:
  PrivateFolder() : path_(std::filesystem::temp_directory_path() / "pinprick-bench-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) path_.clear();
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  ~PrivateFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The cost of one GET or SET, averaged over a run of the load.
struct Request {
  double ns = 0;      // by the throughput
  double cpu_ns = 0;  // of the server's CPU time
};

// A server and its load, each on a CPU of its own if there are two.
class Redis {
 public:
  static Result<Redis, cli::Message> start(const std::string& folder,
                                           const Interrupts& interrupts) {
    const auto cpus = allowed_cpus();
    const bool apart = cpus.size() > 1;
    const std::string socket = folder + "/socket";
    auto server = Child::start({"redis-server", "--port", "0", "--unixsocket", socket, "--dir",
                                folder, "--save", "", "--appendonly", "no"},
                               apart ? std::optional(cpus[0]) : std::nullopt, interrupts);
    if (!server) return fail(server.error());
    if (auto ready = server->read_line_with("ready to accept connections"); !ready)
      return fail(ready.error());
    Redis redis(*std::move(server), socket, apart ? std::optional(cpus[1]) : std::nullopt,
                interrupts);
    // The key that the load gets.
    if (auto set = redis.requests_per_second("set", 1); !set) return fail(set.error());
    return redis;
  }

  pid_t pid() const { return server_.pid(); }

  // `command` is get or set.
  Result<Request, cli::Message> load(const std::string& command, size_t requests) const {
    const double before = cpu_ns();
    const auto rate = requests_per_second(command, requests);
    if (!rate) return fail(rate.error());
    return Request{1e9 / *rate, (cpu_ns() - before) / static_cast<double>(requests)};
  }

 private:
  Redis(Child server, std::string socket, std::optional<int> cpu, const Interrupts& interrupts)
      : records_(server.pid()),
        server_(std::move(server)),
        socket_(std::move(socket)),
        cpu_(cpu),
        interrupts_(&interrupts) {}

  // The server's CPU time so far.
  double cpu_ns() const {
    clockid_t clock = 0;
    timespec time = {};
    if (::clock_getcpuclockid(pid(), &clock) == 0) ::clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
  }

  // As redis-benchmark prints it: "GET","1953124.88","0.235",...
  Result<double, cli::Message> requests_per_second(const std::string& command,
                                                   size_t requests) const {
    auto benchmark =
        Child::start({"redis-benchmark", "-s", socket_, "-t", command, "-P",
                      fmt::format("{}", kPipeline), "-n", fmt::format("{}", requests), "--csv"},
                     cpu_, *interrupts_);
    if (!benchmark) return fail(benchmark.error());
    const auto line = benchmark->read_line_with(command == "get" ? "\"GET\",\"" : "\"SET\",\"");
    if (!line) return fail(line.error());
    const size_t comma = line->find(",\"");
    const double rate = comma == line->npos ? 0 : std::strtod(line->c_str() + comma + 2, nullptr);
    if (!(rate > 0))
      return fail(cli::Message{"redis_benchmark", fmt::format("redis-benchmark says: {}", *line)});
    return rate;
  }

  LeftRecords records_;
  Child server_;
  std::string socket_;
  std::optional<int> cpu_;
  const Interrupts* interrupts_;
};

class RedisCost {
 public:
  RedisCost(Redis redis, Results& results) : redis_(std::move(redis)), results_(results) {}

  Result<void, cli::Message> run() {
    const size_t begin = results_.records().size();
    if (auto done = arm_everything(); !done) return done;
    if (auto done = find_idle_functions(); !done) return done;
    if (auto done = measure_throughput(); !done) return done;
    if (auto done = compare_with_kernel(); !done) return done;
    results_.print_table(begin, true);
    for (const std::string& note : notes_) fmt::print("{}\n", note);
    return {};
  }

 private:
  // Whole batches: the time from looking at the process to the last probe in place, how long the
  // server was stopped, and the time to take the probes out.
  Result<void, cli::Message> arm_everything() {
    std::vector<double> arm_ns, stop_ns, disarm_ns;
    for (int i = 0; i < kArmings; ++i) {
      const uint64_t begin = monotonic_ns();
      auto armed = arm(redis_.pid(), kEveryFunction, Kind::count);
      if (!armed) return fail(armed.error());
      const uint64_t middle = monotonic_ns();
      if (auto disarmed = disarm(armed->session); !disarmed) return fail(disarmed.error());
      const uint64_t end = monotonic_ns();
      const engine::ArmReport& report = armed->session.report();
      arm_ns.push_back(static_cast<double>(middle - begin));
      stop_ns.push_back(static_cast<double>(report.stopped_ns));
      disarm_ns.push_back(static_cast<double>(end - middle));
      if (i == 0) keep_facts(report);
    }
    const size_t threads = target::list_threads(redis_.pid()).size();
    results_.add({"arm-redis", kPinprick, threads, {{}, arm_ns}});
    results_.add({"stop-redis", kPinprick, threads, {{}, stop_ns}});
    results_.add({"disarm-redis", kPinprick, threads, {{}, disarm_ns}});
    return {};
  }

  void keep_facts(const engine::ArmReport& report) {
    const double bytes = static_cast<double>(report.stub_bytes) / static_cast<double>(report.armed);
    results_.add_fact("redis_functions", report.armed + report.skipped.size());
    results_.add_fact("redis_functions_armed", report.armed);
    results_.add_fact("count_stub_bytes_per_probe", bytes);
    notes_.push_back(
        fmt::format("arm, stop, disarm: {} of {} functions; stubs of {:.1f} bytes per probe, "
                    "alignment not counted",
                    report.armed, report.armed + report.skipped.size(), bytes));
  }

  // The functions that a run of the load does not call.
  Result<void, cli::Message> find_idle_functions() {
    auto armed = arm(redis_.pid(), kEveryFunction, Kind::count);
    if (!armed) return fail(armed.error());
    if (auto load = redis_.load("get", kRequests); !load) return fail(load.error());
    if (auto disarmed = disarm(armed->session); !disarmed) return fail(disarmed.error());
    const auto counters = armed->session.counters();
    for (const auto& probe : armed->session.probes())
      if (counters[probe.index] == 0) idle_.insert(armed->session.match_of(probe).site);
    return {};
  }

  // A run without probes, then a run with them.
  struct Pair {
    Request base, probed;
    // The part of the time in which the server worked, and waited neither for a CPU nor for the
    // load to get one. It shows whether other programs use the machine.
    double undisturbed() const {
      return std::min(base.cpu_ns / base.ns, probed.cpu_ns / probed.ns);
    }
  };
  struct Pairs {
    std::string name;
    std::string_view kind;
    std::string command = "get";
    std::string_view engine = kPinprick;
    size_t requests = kRequests;
    std::vector<Pair> pairs = {};
    uint64_t hits = 0;
    size_t probes = 0;

    // Over the half of the runs that was disturbed least.
    std::vector<double> all_of(const std::function<double(const Pair&)>& value) const {
      auto best = pairs;
      std::sort(best.begin(), best.end(),
                [](const Pair& a, const Pair& b) { return a.undisturbed() > b.undisturbed(); });
      best.resize((best.size() + 1) / 2);
      std::vector<double> values;
      values.reserve(best.size());
      for (const Pair& pair : best) values.push_back(value(pair));
      return values;
    }
  };

  Result<void, cli::Message> add_pair(Pairs& pairs,
                                      const std::function<Result<Armed, cli::Message>()>& place) {
    const auto base = redis_.load(pairs.command, pairs.requests);
    if (!base) return fail(base.error());
    auto armed = place();
    if (!armed) return fail(armed.error());
    const auto probed = redis_.load(pairs.command, pairs.requests);
    if (!probed) return fail(probed.error());
    if (auto disarmed = disarm(armed->session); !disarmed) return fail(disarmed.error());
    pairs.pairs.push_back({*base, *probed});
    pairs.hits += hits(armed->session);
    pairs.probes = armed->session.report().armed;
    return {};
  }

  Result<void, cli::Message> add_kernel_pair(Pairs& pairs, KernelProbeKind kind) {
    const auto base = redis_.load(pairs.command, pairs.requests);
    if (!base) return fail(base.error());
    const auto found = find(redis_.pid(), kBusyFunctions);
    if (!found) return fail(found.error());
    std::vector<KernelProbe> probes;
    for (const image::Match& match : found->matches) {
      auto probe = KernelProbe::place(redis_.pid(), match.site, kind);
      if (!probe) return fail(probe.error());
      probes.push_back(*std::move(probe));
    }
    const auto probed = redis_.load(pairs.command, pairs.requests);
    if (!probed) return fail(probed.error());
    for (const KernelProbe& probe : probes) {
      const auto hits = probe.hits();
      if (!hits) return fail(hits.error());
      pairs.hits += *hits;
    }
    pairs.pairs.push_back({*base, *probed});
    pairs.probes = probes.size();
    return {};
  }

  // The functions of a GET and a SET, counted and timed; by the kernel's probes, too, if available.
  Result<void, cli::Message> compare_with_kernel() {
    struct Compared {
      const char* name;
      const char* command;
      Kind kind;
    };
    constexpr Compared kCompared[] = {{"redis-get-count", "get", Kind::count},
                                      {"redis-get-latency", "get", Kind::latency},
                                      {"redis-set-count", "set", Kind::count},
                                      {"redis-set-latency", "set", Kind::latency}};
    bool has_kernel = true;
    for (const Compared& what : kCompared) {
      const bool counts = what.kind == Kind::count;
      Pairs ours{what.name, counts ? "count" : "latency", what.command};
      Pairs kernels{what.name, counts ? "uprobes" : "uretprobes", what.command, kKernel,
                    kKernelRequests};
      for (size_t i = 0; i < kFewestPairs; ++i) {
        const auto place = [&] { return arm(redis_.pid(), kBusyFunctions, what.kind); };
        if (auto done = add_pair(ours, place); !done) return done;
        if (!has_kernel || i >= kKernelPairs) continue;
        auto done =
            add_kernel_pair(kernels, counts ? KernelProbeKind::entry : KernelProbeKind::at_return);
        if (!done && done.error().cause != "no_uprobes") return done;
        if (!done) {
          has_kernel = false;
          notes_.push_back(fmt::format("engine kernel: skipped; {}", done.error().text));
        }
      }
      report(ours);
      if (!kernels.pairs.empty()) report(kernels);
    }
    return {};
  }

  Result<void, cli::Message> measure_throughput() {
    Pairs busy{"redis-get-P16", "latency"}, all{"redis-get-all", "count"},
        idle{"redis-get-idle", "count"};
    const auto time_busy = [&] { return arm(redis_.pid(), kBusyFunctions, Kind::latency); };
    const auto count_all = [&] { return arm(redis_.pid(), kEveryFunction, Kind::count); };
    const auto count_idle = [&] {
      return arm(redis_.pid(), kEveryFunction, Kind::count,
                 [&](const image::Match& match) { return idle_.contains(match.site); });
    };
    const uint64_t begin = monotonic_ns();
    for (size_t i = 0; i < kPairs; ++i) {
      if (i >= kFewestPairs && monotonic_ns() - begin > kLongestNs) break;
      if (auto done = add_pair(busy, time_busy); !done) return done;
      if (auto done = add_pair(all, count_all); !done) return done;
      if (auto done = add_pair(idle, count_idle); !done) return done;
    }
    for (const Pairs* pairs : {&busy, &all, &idle}) report(*pairs);
    return {};
  }

  void report(const Pairs& pairs) {
    const auto time = estimate(
        pairs.all_of([](const Pair& pair) { return 100 * (pair.probed.ns / pair.base.ns - 1); }));
    const auto cpu_time = estimate(pairs.all_of(
        [](const Pair& pair) { return 100 * (pair.probed.cpu_ns / pair.base.cpu_ns - 1); }));
    const auto cpu_ns = estimate(
        pairs.all_of([](const Pair& pair) { return pair.probed.cpu_ns - pair.base.cpu_ns; }));
    const double hits =
        static_cast<double>(pairs.hits) / static_cast<double>(pairs.pairs.size() * pairs.requests);
    results_.add({pairs.name,
                  pairs.engine,
                  1,
                  {pairs.all_of([](const Pair& pair) { return pair.base.ns; }),
                   pairs.all_of([](const Pair& pair) { return pair.probed.ns; })}});
    std::string fact = pairs.name;
    if (pairs.engine != kPinprick) fact += fmt::format("_{}", pairs.engine);
    std::replace(fact.begin(), fact.end(), '-', '_');
    results_.add_fact(fact + "_probes", pairs.probes);
    results_.add_fact(fact + "_hits_per_request", hits);
    const auto add = [&](std::string_view name, const Estimate& percent) {
      if (!scatters(percent, 100, 0))
        results_.add_fact(fmt::format("{}_{}", fact, name), percent.middle);
    };
    add("percent", time);
    add("cpu_percent", cpu_time);
    const auto percent = [](const Estimate& value) {
      return scatters(value, 100, 0)
                 ? fmt::format("scatters, {:+.1f} to {:+.1f}%", value.low, value.high)
                 : fmt::format("{:+.1f}%", value.middle);
    };
    std::string note = fmt::format("{}: {} on {} functions, {:.2f} hits per request", pairs.name,
                                   pairs.kind, pairs.probes, hits);
    note +=
        fmt::format("; {} time per request, {} time on the CPU", percent(time), percent(cpu_time));
    if (hits >= 1 && !scatters(cpu_time, 100, 0)) {
      results_.add_fact(fact + "_cpu_ns_per_hit", cpu_ns.middle / hits);
      note += fmt::format(", {:.1f} ns per hit", cpu_ns.middle / hits);
    }
    notes_.push_back(std::move(note));
  }

  Redis redis_;
  Results& results_;
  std::set<Address> idle_;
  std::vector<std::string> notes_;
};

}  // namespace

Result<void, cli::Message> measure_redis(const Interrupts& interrupts, Results& results) {
  for (const char* program : {"redis-server", "redis-benchmark"})
    if (!is_installed(program)) {
      fmt::print("redis: skipped; there is no {}\n", program);
      return {};
    }
  const PrivateFolder folder;
  if (folder.path().empty()) return fail(cli::Message{"no_folder", "no temporary folder"});
  auto redis = Redis::start(folder.path(), interrupts);
  if (!redis) return fail(redis.error());
  return RedisCost(*std::move(redis), results).run();
}

}  // namespace pinprick::bench
