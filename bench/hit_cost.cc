#include "hit_cost.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <sstream>
#include <thread>
#include <vector>

#include "armed.h"
#include "base/clock.h"
#include "base/fd.h"
#include "child.h"
#include "kernel_probe.h"
#include "ledger/session_file.h"

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

// Its hits are not counted: it is switched off, or its condition never holds.
class StoppedProbe : public OurProbe {
 public:
  using OurProbe::OurProbe;
  uint64_t expected(const Target::Run&) const override { return 0; }
};

// Its hits record events, and no reader takes them: what is in the rings is given away, so that
// there is always room.
class EventProbe : public PlacedProbe {
 public:
  static constexpr uint64_t kRingBytes = 32 << 20;

  // Each call makes that many events, all with that many values.
  static Result<std::unique_ptr<PlacedProbe>, cli::Message> make(Armed armed, uint64_t events,
                                                                 uint64_t values) {
    auto file =
        ledger::SessionFile::open(armed.session.file_path(), ledger::SessionFile::Lock::none);
    auto writable = open_file(armed.session.file_path(), O_RDWR);
    auto journal =
        file ? file->read() : Result<layout::Session, ledger::FileError>(fail(file.error()));
    if (!journal || !writable)
      return fail(cli::Message{"failed", "cannot read the session of the probe"});
    return std::unique_ptr<PlacedProbe>(new EventProbe(std::move(armed), *std::move(writable),
                                                       *std::move(journal), events,
                                                       PP_EVENT_VALUES + 8 * values));
  }
  ~EventProbe() override { stop(); }

  Result<uint64_t, cli::Message> hits() override {
    stop();
    uint64_t hits = 0;
    for (const uint64_t head : heads_) hits += head / event_size_;
    for (const uint64_t dropped : armed_.session.dropped()) hits += dropped;
    return hits;
  }
  uint64_t expected(const Target::Run& run) const override { return events_ * run.calls; }
  Result<void, cli::Message> remove() override {
    auto report = disarm(armed_.session);
    if (!report) return fail(report.error());
    return {};
  }

 private:
  EventProbe(Armed armed, Fd file, layout::Session journal, uint64_t events, uint64_t event_size)
      : armed_(std::move(armed)),
        file_(std::move(file)),
        journal_(std::move(journal)),
        events_(events),
        event_size_(event_size),
        heads_(journal_.header.cpu_count + 1),
        thread_([this] { run(); }) {}

  void run() {
    constexpr uint64_t kPauseNs = 4'000'000;  // in which no ring fills
    while (!stops_) {
      give_away();
      sleep_ns(kPauseNs);
    }
    give_away();
  }
  void give_away() {
    const layout::FileHeader& header = journal_.header;
    for (uint64_t area = 0; area < heads_.size(); ++area) {
      const uint64_t ring = layout::area_offset(header, area) + layout::ring_offset(header);
      const std::span bytes(reinterpret_cast<uint8_t*>(&heads_[area]), sizeof(uint64_t));
      // Nothing is given away where new events overwrite older ones.
      if (read_at(file_.get(), bytes, ring) && header.rings == layout::EventRings::oldest)
        static_cast<void>(write_at(file_.get(), bytes, ring + offsetof(layout::EventRing, tail)));
    }
  }
  void stop() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
  }

  Armed armed_;
  Fd file_;
  layout::Session journal_;
  uint64_t events_;  // of a call
  uint64_t event_size_;
  std::vector<uint64_t> heads_;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
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

// A kind of probe, and in how many of the rounds it takes its turn.
struct Contender {
  std::string name;
  std::string_view engine;
  int pairs = 0;
  Place place;
};

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
        if (auto done = all_on(kind, shape); !done) return done;
      for (std::string_view shape : kColdShapes)
        if (auto done = all_on_cold(kind, shape); !done) return done;
    }
    if (auto done = points(); !done) return done;
    if (auto done = statistics(); !done) return done;
    if (auto done = conditions(); !done) return done;
    results_.add_fact("hits_counted_by_locked_instructions", locked_);
    return {};
  }

 private:
  // Base, probed, base, probed by another, base, probed ..., each time with all numbers of threads,
  // so that the scaling is as little disturbed as the cost itself.
  Result<void, cli::Message> compare(Target& target, const std::string& shape,
                                     std::vector<Contender> contenders,
                                     const std::vector<size_t>& thread_counts) {
    std::vector<std::vector<Samples>> samples(contenders.size(),
                                              std::vector<Samples>(thread_counts.size()));
    int rounds = 0;
    for (const Contender& one : contenders) rounds = std::max(rounds, one.pairs);
    for (int round = 0; round < rounds; ++round)
      for (size_t i = 0; i < contenders.size(); ++i) {
        const Contender& one = contenders[i];
        // Spreads its turns evenly over the rounds.
        const bool has_turn = (round + 1) * one.pairs / rounds > round * one.pairs / rounds;
        if (!has_turn || (no_kernel_ && one.engine == kKernel)) continue;
        auto done = take_turn(target, shape, one, thread_counts, samples[i]);
        if (done) continue;
        if (done.error().cause != "no_uprobes") return done;
        no_kernel_ = true;
        fmt::print("engine kernel: skipped; {}\n", done.error().text);
      }
    for (size_t i = 0; i < contenders.size(); ++i)
      for (size_t k = 0; k < thread_counts.size(); ++k)
        if (!samples[i][k].with.empty())
          add(contenders[i], shape, thread_counts[k], std::move(samples[i][k]));
    return {};
  }

  static Result<void, cli::Message> take_turn(Target& target, const std::string& shape,
                                              const Contender& what,
                                              const std::vector<size_t>& thread_counts,
                                              std::vector<Samples>& samples) {
    std::vector<double> base;
    for (const size_t threads : thread_counts) {
      const auto run = target.run(shape, threads);
      if (!run) return fail(run.error());
      base.push_back(run->ns);
    }
    auto placed = what.place();
    if (!placed) return fail(placed.error());
    PlacedProbe& probe = **placed;
    uint64_t expected = 0;
    for (size_t i = 0; i < thread_counts.size(); ++i) {
      const auto run = target.run(shape, thread_counts[i]);
      if (!run) return fail(run.error());
      samples[i].base.push_back(base[i]);
      samples[i].with.push_back(run->ns);
      expected += probe.expected(*run);
    }
    const auto hits = probe.hits();
    if (!hits) return fail(hits.error());
    if (auto removed = probe.remove(); !removed) return removed;
    if (*hits != expected)
      return fail(cli::Message{
          "wrong_count", fmt::format("{} ({}): {} calls, but {} hits: its figures mean nothing",
                                     what.name, what.engine, expected, *hits)});
    return {};
  }

  void add(const Contender& what, const std::string& shape, size_t threads, Samples samples) {
    Record record = {what.name, what.engine, threads, std::move(samples),
                     fmt::format("{} {}", what.name.starts_with("uret") ? "calls" : "hits", shape)};
    std::vector<double> millions;
    for (const double ns : record.samples.with)
      millions.push_back(static_cast<double>(threads) * 1e3 / ns);
    if (!what.name.ends_with(kCold)) {
      record.millions = mean(millions);
      record.millions_sd = standard_deviation(millions);
    }
    results_.add(std::move(record));
  }

  // Ours, the kernel's and, on one of the functions, those of two owners together.
  Result<void, cli::Message> all_on(Kind kind, std::string_view shape) {
    auto target = Target::start(path_, interrupts_);
    if (!target) return fail(target.error());
    const pid_t pid = target->pid();
    const std::string function = fmt::format("shape_{}", shape);
    const std::string name = fmt::format("{}-{}", name_of(kind), shape);
    std::vector<Contender> contenders = {
        {name, kPinprick, kPairs, ours(pid, kind, function)},
        {name, kKernel, kKernelPairs, kernels(pid, kind, function)}};
    if (kind == Kind::latency)
      contenders.push_back({fmt::format("exits-{}", shape), kPinprick, kPairs,
                            ours(pid, kind, function, placement::Ends::exits)});
    if (shape == kShapes.front())
      contenders.push_back({kind == Kind::count ? "shared-count" : "shared-latency", kPinprick,
                            kPairs, shared(pid, kind, function)});
    return compare(*target, std::string(shape), std::move(contenders), thread_counts_);
  }

  Result<void, cli::Message> all_on_cold(Kind kind, std::string_view shape) {
    auto target = Target::start(path_, interrupts_);
    if (!target) return fail(target.error());
    const pid_t pid = target->pid();
    const std::string function = fmt::format("shape_{}", shape);
    const std::string name = fmt::format("{}-{}{}", name_of(kind), shape, kCold);
    return compare(*target, fmt::format("{}{}", shape, kCold),
                   {{name, kPinprick, kColdPairs, ours(pid, kind, function)},
                    {name, kKernel, kColdPairs, kernels(pid, kind, function)}},
                   {1});
  }

  static std::string_view name_of(Kind kind) {
    return kind == Kind::count ? "uprobe" : "uretprobe";
  }

  // A count on a site of an SDT point, in the midst of a function.
  Result<void, cli::Message> points() {
    auto target = Target::start(path_, interrupts_);
    if (!target) return fail(target.error());
    const pid_t pid = target->pid();
    const std::string site = "usdt:bench:hit";
    return compare(*target, "usdt",
                   {{"usdt-count", kPinprick, kPairs, ours(pid, Kind::count, site)},
                    {"usdt-count", kKernel, kKernelPairs, kernels(pid, Kind::count, site)}},
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
    if (auto done = compare(*target, "nop", {{"kstats-stopped", kPinprick, kPairs, stopped}}, {1});
        !done)
      return done;
    if (auto done =
            compare(*target, "nop", {{"kstats-gap", kPinprick, kPairs, running}}, thread_counts_);
        !done)
      return done;
    if (auto done =
            compare(*target, "nop-apart", {{"kstats-cold", kPinprick, kColdPairs, running}}, {1});
        !done)
      return done;
    return compare(*target, "pair", {{"span", kPinprick, kPairs, span}}, thread_counts_);
  }

  // Of the hits of a function, all or none under a condition; and what they record.
  Result<void, cli::Message> conditions() {
    auto target = Target::start(path_, interrupts_);
    if (!target) return fail(target.error());
    const pid_t pid = target->pid();
    const std::string never = "shape_nop if %rsp==1", always = "shape_nop if %rsp!=1";
    const std::string rejected = "shape_nop if %r8==1234567 || %r9==1234567";
    const std::string slow = "shape_nop%return if $latency>=1s";
    const std::string kept = "shape_nop%return if $retval!=$arg1 || $arg1==1234567";
    const auto refusing = [&](Kind kind, const std::string& what) -> Place {
      return [=]() -> Result<std::unique_ptr<PlacedProbe>, cli::Message> {
        auto armed = arm(pid, {what}, kind);
        if (!armed) return fail(armed.error());
        return std::unique_ptr<PlacedProbe>(new StoppedProbe(*std::move(armed)));
      };
    };
    const auto by = [=](const std::string& key) -> Place {
      return [=]() -> Result<std::unique_ptr<PlacedProbe>, cli::Message> {
        auto armed = arm_by_key(pid, "shape_nop", key);
        if (!armed) return fail(armed.error());
        return std::unique_ptr<PlacedProbe>(new OurProbe(*std::move(armed)));
      };
    };
    const auto events = [=](const std::vector<std::string>& what, uint64_t values,
                            layout::EventRings rings = layout::EventRings::oldest) -> Place {
      return [=]() -> Result<std::unique_ptr<PlacedProbe>, cli::Message> {
        engine::ArmOptions options;
        options.ring_bytes = EventProbe::kRingBytes;
        options.rings = rings;
        auto armed = arm(pid, what, Kind::event, {}, options);
        if (!armed) return fail(armed.error());
        return EventProbe::make(*std::move(armed), what.size(), values);
      };
    };
    if (auto done = compare(*target, "nop-deep",
                            {{"stack-10", kPinprick, kPairs, by("stack:10")},
                             {"stack-1", kPinprick, kPairs, by("stack:1")}},
                            thread_counts_);
        !done)
      return done;
    return compare(
        *target, "nop",
        {{"event", kPinprick, kPairs, events({"shape_nop $arg1 $arg2"}, 2)},
         {"event-newest", kPinprick, kPairs,
          events({"shape_nop $arg1 $arg2"}, 2, layout::EventRings::newest)},
         // As r->peer->port of debug information, which is resolved before.
         {"event-two-pointers", kPinprick, kPairs, events({"shape_nop *(u32*)*(u64*)%rsp"}, 1)},
         {"event-at-return", kPinprick, kPairs, events({"shape_nop%return $arg1 $retval"}, 3)},
         {"graph", kPinprick, kPairs,
          events({"shape_nop $arg1 $arg2", "shape_nop%return $retval"}, 2)},
         {"if-false", kPinprick, kPairs, refusing(Kind::count, rejected)},
         {"if-false-latency", kPinprick, kPairs, refusing(Kind::latency, rejected)},
         {"slower-rejects", kPinprick, kPairs, refusing(Kind::latency, slow)},
         {"latency-beside", kPinprick, kPairs, ours(pid, Kind::latency, "shape_nop")},
         {"carried", kPinprick, kPairs, ours(pid, Kind::latency, kept)},
         {"if-false-computed", kPinprick, kPairs, refusing(Kind::count, never)},
         {"if-true", kPinprick, kPairs, ours(pid, Kind::count, always)},
         {"hist-arg", kPinprick, kPairs, ours(pid, Kind::value, "shape_nop %rsp:u8")},
         {"hist-computed", kPinprick, kPairs, ours(pid, Kind::value, "shape_nop %rsp*3&255")},
         {"by-int", kPinprick, kPairs, by("%rsp:u8")},
         {"caller", kPinprick, kPairs, by("$caller")},
         {"deref", kPinprick, kPairs, ours(pid, Kind::value, "shape_nop *(u8*)%rsp")},
         {"by-string", kPinprick, kPairs, by("%rsp:string")}},
        thread_counts_);
  }

  // A function that reads the clock, against one that does not.
  Result<void, cli::Message> look_at_clock() {
    auto target = Target::start(path_, interrupts_);
    if (!target) return fail(target.error());
    Samples samples;
    for (int pair = 0; pair < kPairs; ++pair)
      for (auto [shape, values] :
           {std::pair("nop", &samples.base), std::pair("nop-rdtsc", &samples.with)}) {
        const auto run = target->run(shape, 1);
        if (!run) return fail(run.error());
        values->push_back(run->ns);
      }
    results_.add({"rdtsc", kPinprick, 1, std::move(samples)});
    return {};
  }

  // `pattern` selects one site.
  Place ours(pid_t pid, Kind kind, const std::string& pattern,
             placement::Ends ends = placement::Ends::automatic) {
    return [=, this]() -> Result<std::unique_ptr<PlacedProbe>, cli::Message> {
      auto armed = arm(pid, {pattern}, kind, {}, {}, ends);
      if (!armed) return fail(armed.error());
      if (armed->session.report().locked) locked_ = true;
      return std::unique_ptr<PlacedProbe>(new OurProbe(*std::move(armed)));
    };
  }

  // Places the probes of two owners on the same function.
  static Place shared(pid_t pid, Kind kind, const std::string& pattern) {
    return [=]() -> Result<std::unique_ptr<PlacedProbe>, cli::Message> {
      auto first = arm(pid, {pattern}, kind);
      if (!first) return fail(first.error());
      auto second = arm(pid, {pattern}, kind);
      if (!second) return fail(second.error());
      return std::unique_ptr<PlacedProbe>(new SharedProbe(*std::move(first), *std::move(second)));
    };
  }

  static Place kernels(pid_t pid, Kind kind, const std::string& pattern) {
    return [=]() -> Result<std::unique_ptr<PlacedProbe>, cli::Message> {
      const auto found = find(pid, {pattern});
      if (!found) return fail(found.error());
      auto probe = KernelProbe::place(
          pid, found->matches.front().site,
          kind == Kind::count ? KernelProbeKind::entry : KernelProbeKind::at_return);
      if (!probe) return fail(probe.error());
      return std::unique_ptr<PlacedProbe>(new TheKernelsProbe(*std::move(probe)));
    };
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
