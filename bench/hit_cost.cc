#include "hit_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <sstream>
#include <vector>

#include "armed.h"
#include "child.h"
#include "kernel_probe.h"

namespace pinprick::bench {
namespace {

using placement::Kind;

// How often the base and the probed function are measured, in turn.
constexpr int kPairs = 21;
// The kernel takes some 80 ms to remove one of its probes.
constexpr int kKernelPairs = 7;
constexpr int kRunMilliseconds = 10;
constexpr std::array<std::string_view, 5> kShapes = {"nop", "push", "ret", "nop5", "mov"};
constexpr std::array<std::string_view, 2> kColdShapes = {"nop", "push"};
constexpr int kColdPairs = 7;
constexpr std::string_view kCold = "-cold";

// 1 to 8, then in steps of half the number, up to the number of CPUs or of hit_target's threads.
std::vector<size_t> numbers_of_threads() {
  constexpr size_t kMost = 64, kEach = 8;
  const size_t all = std::clamp<size_t>(allowed_cpus().size(), 1, kMost);
  std::vector<size_t> numbers;
  for (size_t n = 1; n < all; n += n < kEach ? 1 : n / 2) numbers.push_back(n);
  numbers.push_back(all);
  return numbers;
}

// A running hit_target.
class Target {
 public:
  static Result<Target, cli::Message> start(const std::string& path, const Interrupts& interrupts) {
    auto child = Child::start({path}, std::nullopt, interrupts);
    if (!child) return fail(child.error());
    Target target(*std::move(child));
    // Its answer says that it has started, and has mapped all that it ever will.
    if (auto run = target.run("nop", 1); !run) return fail(run.error());
    return target;
  }

  struct Run {
    double ns = 0;
    uint64_t calls = 0;
    uint64_t main_calls = 0;  // those by the main thread
  };
  Result<Run, cli::Message> run(std::string_view shape, size_t threads) {
    if (auto asked = child_.write_line(fmt::format("{} {} {}", shape, threads, kRunMilliseconds));
        !asked)
      return fail(asked.error());
    const auto line = child_.read_line_with(" ");
    if (!line) return fail(line.error());
    Run run;
    std::istringstream(*line) >> run.ns >> run.calls >> run.main_calls;
    return run;
  }

  pid_t pid() const { return child_.pid(); }

 private:
  explicit Target(Child child) : records_(child.pid()), child_(std::move(child)) {}
  LeftRecords records_;
  Child child_;
};

// A probe in the target, ours or the kernel's.
class PlacedProbe {
 public:
  virtual ~PlacedProbe() = default;
  virtual Result<uint64_t, cli::Message> hits() = 0;
  // How many hits these calls should make.
  virtual uint64_t expected(const Target::Run& run) const = 0;
  virtual Result<void, cli::Message> remove() = 0;
};

class OurProbe : public PlacedProbe {
 public:
  explicit OurProbe(Armed armed) : armed_(std::move(armed)) {}
  Result<uint64_t, cli::Message> hits() override { return bench::hits(armed_.session); }
  uint64_t expected(const Target::Run& run) const override { return run.calls; }
  Result<void, cli::Message> remove() override {
    auto report = disarm(armed_.session);
    if (!report) return fail(report.error());
    return {};
  }

 private:
  Armed armed_;
};

// Two owners' probes on one function: each counts all calls.
class SharedProbe : public PlacedProbe {
 public:
  SharedProbe(Armed first, Armed second) : first_(std::move(first)), second_(std::move(second)) {}
  Result<uint64_t, cli::Message> hits() override {
    auto first = first_.hits();
    if (!first) return first;
    auto second = second_.hits();
    if (!second) return second;
    return *first + *second;
  }
  uint64_t expected(const Target::Run& run) const override { return 2 * run.calls; }
  Result<void, cli::Message> remove() override {
    auto first = first_.remove();
    auto second = second_.remove();
    return first ? second : first;
  }

 private:
  OurProbe first_, second_;
};

// A statistic whose probe is switched off: its hits are not counted.
class StoppedProbe : public OurProbe {
 public:
  using OurProbe::OurProbe;
  uint64_t expected(const Target::Run&) const override { return 0; }
};

class TheKernelsProbe : public PlacedProbe {
 public:
  explicit TheKernelsProbe(KernelProbe probe) : probe_(std::move(probe)) {}
  Result<uint64_t, cli::Message> hits() override { return probe_->hits(); }
  uint64_t expected(const Target::Run& run) const override { return run.main_calls; }
  Result<void, cli::Message> remove() override {
    probe_.reset();
    return {};
  }

 private:
  std::optional<KernelProbe> probe_;
};

using Place = std::function<Result<std::unique_ptr<PlacedProbe>, cli::Message>()>;

struct Comparison {
  std::string name;
  std::string_view engine;
  std::string shape;
  int pairs = 0;
};

// Base, probed, base, probed ..., each time with all numbers of threads, so that the scaling is as
// little disturbed as the cost itself.
Result<void, cli::Message> compare(Target& target, const Comparison& what, const Place& place,
                                   const std::vector<size_t>& thread_counts, Results& results) {
  struct Samples {
    std::vector<double> base, probed;
  };
  std::vector<Samples> samples(thread_counts.size());
  for (int pair = 0; pair < what.pairs; ++pair) {
    for (size_t i = 0; i < thread_counts.size(); ++i) {
      const auto run = target.run(what.shape, thread_counts[i]);
      if (!run) return fail(run.error());
      samples[i].base.push_back(run->ns);
    }
    auto placed = place();
    if (!placed) return fail(placed.error());
    PlacedProbe& probe = **placed;
    uint64_t expected = 0;
    for (size_t i = 0; i < thread_counts.size(); ++i) {
      const auto run = target.run(what.shape, thread_counts[i]);
      if (!run) return fail(run.error());
      samples[i].probed.push_back(run->ns);
      expected += probe.expected(*run);
    }
    const auto hits = probe.hits();
    if (!hits) return fail(hits.error());
    if (auto removed = probe.remove(); !removed) return removed;
    if (*hits != expected)
      return fail(cli::Message{
          "wrong_count", fmt::format("{} ({}): {} calls, but {} hits: its figures mean nothing",
                                     what.name, what.engine, expected, *hits)});
  }
  for (size_t i = 0; i < thread_counts.size(); ++i) {
    Record record = {what.name, what.engine, thread_counts[i], median(samples[i].base),
                     median(samples[i].probed)};
    std::vector<double> millions;
    for (const double ns : samples[i].probed)
      millions.push_back(static_cast<double>(thread_counts[i]) * 1e3 / ns);
    if (!what.name.ends_with(kCold)) {
      record.millions = mean(millions);
      record.millions_sd = standard_deviation(millions);
    }
    results.add(std::move(record));
  }
  return {};
}

class HitCost {
 public:
  HitCost(const std::string& path, const Interrupts& interrupts, Results& results)
      : path_(path),
        interrupts_(interrupts),
        results_(results),
        thread_counts_(numbers_of_threads()) {}

  Result<void, cli::Message> run() {
    if (auto done = look_at_clock(); !done) return done;
    for (Kind kind : {Kind::count, Kind::latency}) {
      for (std::string_view shape : kShapes)
        if (auto done = both(kind, shape, "", thread_counts_); !done) return done;
      for (std::string_view shape : kColdShapes)
        if (auto done = both(kind, shape, kCold, {1}); !done) return done;
    }
    if (auto done = points(); !done) return done;
    if (auto done = statistics(); !done) return done;
    for (Kind kind : {Kind::count, Kind::latency})
      if (auto done = shared(kind); !done) return done;
    return {};
  }

 private:
  // A count on a site of an SDT point, in the midst of a function.
  Result<void, cli::Message> points() {
    const std::string site = "usdt:bench:hit";
    if (auto done =
            ours(Kind::count, site, {"usdt-count", kPinprick, "usdt", kPairs}, thread_counts_);
        !done)
      return done;
    return kernels(Kind::count, site, {"usdt-count", kKernel, "usdt", kKernelPairs},
                   thread_counts_);
  }

  // A timed function that has switches and gaps, as statistics have, and a span.
  Result<void, cli::Message> statistics() {
    auto target = Target::start(path_, interrupts_);
    if (!target) return fail(target.error());
    const auto statistic = [&]() {
      engine::ArmOptions options;
      options.has_switches = true;
      options.gap = layout::Gap::cpu;
      return arm(target->pid(), {"shape_nop"}, Kind::latency, {}, options);
    };
    const auto running = [&]() -> Result<std::unique_ptr<PlacedProbe>, cli::Message> {
      auto armed = statistic();
      if (!armed) return fail(armed.error());
      return std::unique_ptr<PlacedProbe>(new OurProbe(*std::move(armed)));
    };
    const auto stopped = [&]() -> Result<std::unique_ptr<PlacedProbe>, cli::Message> {
      auto armed = statistic();
      if (!armed) return fail(armed.error());
      std::vector<uint32_t> all(armed->session.probes().size());
      std::iota(all.begin(), all.end(), 0u);
      if (auto off = armed->session.turn(all, engine::Switched::off); !off)
        return fail(cli::message(off.error()));
      return std::unique_ptr<PlacedProbe>(new StoppedProbe(*std::move(armed)));
    };
    const auto span = [&]() -> Result<std::unique_ptr<PlacedProbe>, cli::Message> {
      auto armed = arm_span(target->pid(), "shape_nop..shape_push");
      if (!armed) return fail(armed.error());
      return std::unique_ptr<PlacedProbe>(new OurProbe(*std::move(armed)));
    };
    for (const auto& [what, place, threads] :
         {std::tuple<Comparison, Place, std::vector<size_t>>(
              {"kstats-stopped", kPinprick, "nop", kPairs}, stopped, {1}),
          {{"kstats-gap", kPinprick, "nop", kPairs}, running, thread_counts_},
          {{"kstats-cold", kPinprick, "nop-apart", kColdPairs}, running, {1}},
          {{"span", kPinprick, "pair", kPairs}, span, thread_counts_}})
      if (auto done = compare(*target, what, place, threads, results_); !done) return done;
    return {};
  }

  // What two owners measure, against a function without probes.
  Result<void, cli::Message> shared(Kind kind) {
    auto target = Target::start(path_, interrupts_);
    if (!target) return fail(target.error());
    const auto place = [&]() -> Result<std::unique_ptr<PlacedProbe>, cli::Message> {
      auto first = arm(target->pid(), {"shape_nop"}, kind);
      if (!first) return fail(first.error());
      auto second = arm(target->pid(), {"shape_nop"}, kind);
      if (!second) return fail(second.error());
      return std::unique_ptr<PlacedProbe>(new SharedProbe(*std::move(first), *std::move(second)));
    };
    return compare(
        *target,
        {kind == Kind::count ? "shared-count" : "shared-latency", kPinprick, "nop", kPairs}, place,
        thread_counts_, results_);
  }

  // `how` is empty, or kCold.
  Result<void, cli::Message> both(Kind kind, std::string_view shape, std::string_view how,
                                  const std::vector<size_t>& thread_counts) {
    const std::string function = fmt::format("shape_{}", shape);
    if (auto done =
            ours(kind, function, comparison(kind, kPinprick, shape, how, kPairs), thread_counts);
        !done)
      return done;
    return kernels(kind, function, comparison(kind, kKernel, shape, how, kKernelPairs),
                   thread_counts);
  }

  static Comparison comparison(Kind kind, std::string_view engine, std::string_view shape,
                               std::string_view how, int pairs) {
    const std::string_view probe = kind == Kind::count ? "uprobe" : "uretprobe";
    return {fmt::format("{}-{}{}", probe, shape, how), engine, fmt::format("{}{}", shape, how),
            how == kCold ? kColdPairs : pairs};
  }

  // A function that reads the clock, against one that does not.
  Result<void, cli::Message> look_at_clock() {
    auto target = Target::start(path_, interrupts_);
    if (!target) return fail(target.error());
    std::vector<double> base, with_clock;
    for (int pair = 0; pair < kPairs; ++pair)
      for (auto [shape, samples] : {std::pair("nop", &base), std::pair("nop-rdtsc", &with_clock)}) {
        const auto run = target->run(shape, 1);
        if (!run) return fail(run.error());
        samples->push_back(run->ns);
      }
    results_.add({"rdtsc", kPinprick, 1, median(base), median(with_clock)});
    return {};
  }

  // `pattern` selects one site.
  Result<void, cli::Message> ours(Kind kind, const std::string& pattern, const Comparison& what,
                                  const std::vector<size_t>& thread_counts) {
    auto target = Target::start(path_, interrupts_);
    if (!target) return fail(target.error());
    const auto place = [&]() -> Result<std::unique_ptr<PlacedProbe>, cli::Message> {
      auto armed = arm(target->pid(), {pattern}, kind);
      if (!armed) return fail(armed.error());
      if (armed->session.report().locked) locked_ = true;
      return std::unique_ptr<PlacedProbe>(new OurProbe(*std::move(armed)));
    };
    auto done = compare(*target, what, place, thread_counts, results_);
    results_.add_fact("hits_counted_by_locked_instructions", locked_);
    return done;
  }

  Result<void, cli::Message> kernels(Kind kind, const std::string& pattern, const Comparison& what,
                                     const std::vector<size_t>& thread_counts) {
    if (no_kernel_) return {};
    auto target = Target::start(path_, interrupts_);
    if (!target) return fail(target.error());
    const auto found = find(target->pid(), {pattern});
    if (!found) return fail(found.error());
    const Address address = found->matches.front().site;
    const auto place = [&]() -> Result<std::unique_ptr<PlacedProbe>, cli::Message> {
      auto probe = KernelProbe::place(
          target->pid(), address,
          kind == Kind::count ? KernelProbeKind::entry : KernelProbeKind::at_return);
      if (!probe) return fail(probe.error());
      return std::unique_ptr<PlacedProbe>(new TheKernelsProbe(*std::move(probe)));
    };
    auto done = compare(*target, what, place, thread_counts, results_);
    if (!done && done.error().cause == "no_uprobes") {
      no_kernel_ = true;
      fmt::print("engine kernel: skipped; {}\n", done.error().text);
      return {};
    }
    return done;
  }

  const std::string& path_;
  const Interrupts& interrupts_;
  Results& results_;
  std::vector<size_t> thread_counts_;
  bool no_kernel_ = false;
  bool locked_ = false;
};

}  // namespace

Result<void, cli::Message> measure_hits(const std::string& target, const Interrupts& interrupts,
                                        Results& results) {
  return HitCost(target, interrupts, results).run();
}

}  // namespace pinprick::bench
