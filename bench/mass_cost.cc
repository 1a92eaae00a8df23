#include "mass_cost.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <sstream>
#include <vector>

#include "armed.h"
#include "base/clock.h"
#include "child.h"
#include "cli/render/units.h"
#include "image/maps.h"
#include "kernel_probe.h"
#include "target/procfs.h"

namespace pinprick::bench {
namespace {

using placement::Kind;

constexpr std::array<size_t, 4> kSizes = {1'000, 10'000, 40'000, 100'000};
constexpr size_t kHitSize = 40'000;
constexpr int kRuns = 5;
constexpr int kHitPairs = 9;
constexpr int kHitMilliseconds = 10;
const std::string kFirstFunction = "many_0";
const std::string kEveryFunction = "many_*";

// A running many_N.
class ManyTarget {
 public:
  static Result<ManyTarget, cli::Message> start(const std::string& path,
                                                const Interrupts& interrupts) {
    auto child = Child::start({path}, std::nullopt, interrupts);
    if (!child) return fail(child.error());
    ManyTarget target(*std::move(child));
    // Its answer says that it has started.
    if (auto run = target.time(); !run) return fail(run.error());
    return target;
  }

  struct Run {
    double ns = 0;
    uint64_t calls = 0;
  };
  // Times calls of the first function while the other threads rest.
  Result<Run, cli::Message> time() {
    auto line = ask(fmt::format("time {}", kHitMilliseconds), " ");
    if (!line) return fail(line.error());
    Run run;
    std::istringstream(*line) >> run.ns >> run.calls;
    return run;
  }
  // Makes two threads call all functions from now on.
  Result<void, cli::Message> call() {
    if (auto answer = ask("call", "calling"); !answer) return fail(answer.error());
    return {};
  }

  pid_t pid() const { return child_.pid(); }

 private:
  explicit ManyTarget(Child child) : records_(child.pid()), child_(std::move(child)) {}
  Result<std::string, cli::Message> ask(const std::string& request, std::string_view answer) {
    if (auto asked = child_.write_line(request); !asked) return fail(asked.error());
    return child_.read_line_with(answer);
  }

  LeftRecords records_;
  Child child_;
};

// Times of whole batches of one size, in nanoseconds.
struct BatchTimes {
  std::vector<double> arm, stop, disarm, stop_disarming;
};

class MassCost {
 public:
  MassCost(const std::string& targets, const Interrupts& interrupts, Results& results)
      : targets_(targets), interrupts_(interrupts), results_(results) {}

  Result<void, cli::Message> run() {
    for (size_t size : kSizes) {
      if (auto done = batches(size); !done) return done;
      print_line(size);
    }
    fmt::print("\n");
    if (auto done = switches(kHitSize); !done) return done;
    fmt::print("\n");
    if (auto done = removal(kHitSize); !done) return done;
    fmt::print("\n");
    const size_t begin = results_.records().size();
    if (auto done = hits(); !done) return done;
    results_.print_table(begin, false);
    print_goals();
    return {};
  }

  static void print_head() {
    fmt::print("{:>9} | {:>9} {:>9} {:>9} {:>9} {:>9} | {:>11} {:>9} {:>11} {:>9}\n", "functions",
               "arm", "a probe", "stopped", "disarm", "a probe", "kernel arms", "a probe",
               "disarms", "a probe");
  }

 private:
  Result<ManyTarget, cli::Message> start(size_t size) {
    return ManyTarget::start(fmt::format("{}/many_{}", targets_, size), interrupts_);
  }

  Result<void, cli::Message> batches(size_t size) {
    auto target = start(size);
    if (!target) return fail(target.error());
    if (auto calling = target->call(); !calling) return calling;
    const size_t threads = target::list_threads(target->pid()).size();
    BatchTimes ours, kernels;
    auto batch = no_kernel_ ? std::nullopt : prepare_kernel_batch(*target);
    for (int i = 0; i < kRuns; ++i) {
      if (auto done = arm_and_disarm(target->pid(), size, ours); !done) return done;
      if (batch && !arm_and_disarm_kernel(*batch, size, kernels)) batch.reset();
    }
    const auto add = [&](std::string_view what, std::string_view engine,
                         const std::vector<double>& ns) {
      results_.add({fmt::format("{}-{}", what, size), engine, threads, {{}, ns}});
    };
    add("arm", kPinprick, ours.arm);
    add("stop", kPinprick, ours.stop);
    add("disarm", kPinprick, ours.disarm);
    add("stop-disarm", kPinprick, ours.stop_disarming);
    if (kernels.arm.empty()) return {};
    add("arm", kKernel, kernels.arm);
    add("disarm", kKernel, kernels.disarm);
    return {};
  }

  Result<void, cli::Message> arm_and_disarm(pid_t pid, size_t size, BatchTimes& samples) {
    const uint64_t begin = monotonic_ns();
    auto armed = arm(pid, {kEveryFunction}, Kind::count);
    if (!armed) return fail(armed.error());
    const uint64_t middle = monotonic_ns();
    const engine::ArmReport& report = armed->session.report();
    if (report.armed < size)
      return fail(cli::Message{"not_armed",
                               fmt::format("only {} of {} functions armed", report.armed, size)});
    if (samples.arm.empty()) keep_facts(pid, size, report);
    const uint64_t end_of_rest = monotonic_ns();
    const auto disarmed = disarm(armed->session);
    if (!disarmed) return fail(disarmed.error());
    samples.arm.push_back(static_cast<double>(middle - begin));
    samples.stop.push_back(static_cast<double>(report.stopped_ns));
    samples.disarm.push_back(static_cast<double>(monotonic_ns() - end_of_rest));
    samples.stop_disarming.push_back(static_cast<double>(disarmed->stopped_ns));
    return {};
  }

  void keep_facts(pid_t pid, size_t size, const engine::ArmReport& report) {
    const auto a_probe = [&](uint64_t bytes) {
      return static_cast<double>(bytes) / static_cast<double>(report.armed);
    };
    if (const auto maps = image::read_maps(pid)) {
      uint64_t shared = 0;
      for (const image::Mapping& mapping : *maps)
        if (mapping.path.ends_with(".session")) shared += mapping.range.size();
      results_.add_fact(fmt::format("mappings_{}", size), maps->size());
      results_.add_fact(fmt::format("shared_bytes_per_probe_{}", size), a_probe(shared));
    }
    results_.add_fact(fmt::format("stub_bytes_per_probe_{}", size), a_probe(report.stub_bytes));
  }

  // Every second one of them off and on again, each time in one batch.
  Result<void, cli::Message> switches(size_t size) {
    auto target = start(size);
    if (!target) return fail(target.error());
    if (auto calling = target->call(); !calling) return calling;
    const size_t threads = target::list_threads(target->pid()).size();
    engine::ArmOptions options;
    options.has_switches = true;
    auto armed = arm(target->pid(), {kEveryFunction}, Kind::count, {}, options);
    if (!armed) return fail(armed.error());
    std::vector<uint32_t> some;
    for (uint32_t i = 0; i < armed->session.probes().size(); i += 2) some.push_back(i);
    std::vector<double> all[2], stopped[2];
    for (int i = 0; i < 2 * kRuns; ++i) {
      const bool turns_on = i % 2 != 0;
      const uint64_t begin = monotonic_ns();
      const auto turned =
          armed->session.turn(some, turns_on ? engine::Switched::on : engine::Switched::off);
      if (!turned) return fail(cli::message(turned.error()));
      all[turns_on].push_back(static_cast<double>(monotonic_ns() - begin));
      stopped[turns_on].push_back(static_cast<double>(turned->stopped_ns));
      if (turned->changed != some.size())
        return fail(cli::Message{"not_switched", fmt::format("only {} of {} probes were switched",
                                                             turned->changed, some.size())});
    }
    if (const auto disarmed = disarm(armed->session); !disarmed) return fail(disarmed.error());
    for (const bool turns_on : {false, true}) {
      const std::string name = fmt::format("switch-{}-{}", turns_on ? "on" : "off", some.size());
      results_.add({name, kPinprick, threads, {{}, all[turns_on]}, "switches"});
      results_.add({"stop-" + name, kPinprick, threads, {{}, stopped[turns_on]}, "switches"});
      fmt::print("{} of {}: {}, stopped for {}\n", name, size,
                 cli::duration_ns(median(all[turns_on])),
                 cli::duration_ns(median(stopped[turns_on])));
    }
    return {};
  }

  // Every second one of them taken out, while the others and the session stay, and then the rest,
  // as `count --once` does with what was hit. Then times the first function, whose own text is
  // back.
  Result<void, cli::Message> removal(size_t size) {
    auto target = start(size);
    if (!target) return fail(target.error());
    std::vector<double> all, stopped;
    Samples hit;
    for (int i = 0; i < kHitPairs; ++i) {
      const auto without = target->time();
      if (!without) return fail(without.error());
      auto armed = arm(target->pid(), {kEveryFunction}, Kind::count);
      if (!armed) return fail(armed.error());
      std::vector<uint32_t> halves[2];
      for (uint32_t probe = 0; probe < armed->session.probes().size(); ++probe)
        halves[probe % 2].push_back(probe);
      for (const auto& half : halves) {
        const uint64_t begin = monotonic_ns();
        const auto removed = armed->session.remove(half);
        if (!removed) return fail(cli::message(removed.error()));
        if (removed->removed != half.size())
          return fail(cli::Message{"not_removed", fmt::format("only {} of {} probes were removed",
                                                              removed->removed, half.size())});
        all.push_back(static_cast<double>(monotonic_ns() - begin));
        stopped.push_back(static_cast<double>(removed->stopped_ns));
      }
      const auto with = target->time();
      if (!with) return fail(with.error());
      // Not by disarm(), for which probes have to be there.
      if (const auto disarmed = armed->session.disarm(); !disarmed)
        return fail(cli::message(disarmed.error()));
      if (const uint64_t counted = bench::hits(armed->session); counted != 0)
        return fail(cli::Message{"wrong_count",
                                 fmt::format("hit-removed: {} hits of removed probes", counted)});
      hit.base.push_back(without->ns);
      hit.with.push_back(with->ns);
    }
    const std::string name = fmt::format("remove-{}", size / 2);
    fmt::print("{} of {}: {}, stopped for {}\n", name, size, cli::duration_ns(median(all)),
               cli::duration_ns(median(stopped)));
    results_.add({name, kPinprick, 1, {{}, std::move(all)}, "removal"});
    results_.add({"stop-" + name, kPinprick, 1, {{}, std::move(stopped)}, "removal"});
    const size_t begin = results_.records().size();
    results_.add({"hit-removed", kPinprick, 1, std::move(hit)});
    results_.print_table(begin, false);
    return {};
  }

  // Returns nullopt if the kernel places none here.
  std::optional<KernelProbeBatch> prepare_kernel_batch(const ManyTarget& target) {
    const auto found = find(target.pid(), {kEveryFunction});
    std::vector<Address> addresses;
    if (found)
      for (const image::Match& match : found->matches) addresses.push_back(match.site);
    auto batch = KernelProbeBatch::prepare(target.pid(), addresses);
    if (batch) return *std::move(batch);
    skip_kernel(addresses.size(), batch.error());
    return std::nullopt;
  }

  // Only the system calls, without symbols or decoding. Returns false if these fail.
  bool arm_and_disarm_kernel(KernelProbeBatch& batch, size_t size, BatchTimes& samples) {
    const uint64_t begin = monotonic_ns();
    if (auto placed = batch.place(); !placed) {
      skip_kernel(size, placed.error());
      return false;
    }
    const uint64_t middle = monotonic_ns();
    batch.remove();
    samples.arm.push_back(static_cast<double>(middle - begin));
    samples.disarm.push_back(static_cast<double>(monotonic_ns() - middle));
    return true;
  }

  void skip_kernel(size_t size, const cli::Message& why) {
    no_kernel_ = true;
    fmt::print("engine kernel, {} functions: skipped; {}\n", size, why.text);
  }

  // Times the first function, with a probe on it alone and with one on each function in turn.
  Result<void, cli::Message> hits() {
    auto target = start(kHitSize);
    if (!target) return fail(target.error());
    constexpr std::array<size_t, 2> kProbes = {1, kHitSize};
    std::array<Samples, kProbes.size()> samples;
    for (int i = 0; i < kHitPairs; ++i)
      for (size_t k = 0; k < kProbes.size(); ++k) {
        const std::string pattern = kProbes[k] == 1 ? kFirstFunction : kEveryFunction;
        const auto without = target->time();
        if (!without) return fail(without.error());
        auto armed = arm(target->pid(), {pattern}, Kind::count);
        if (!armed) return fail(armed.error());
        const auto with = target->time();
        if (!with) return fail(with.error());
        if (auto disarmed = disarm(armed->session); !disarmed) return fail(disarmed.error());
        // No thread calls another function at the same time.
        if (const uint64_t counted = bench::hits(armed->session); counted != with->calls)
          return fail(cli::Message{"wrong_count",
                                   fmt::format("hit-{}: {} calls, but {} hits: its figures mean "
                                               "nothing",
                                               kProbes[k], with->calls, counted)});
        samples[k].base.push_back(without->ns);
        samples[k].with.push_back(with->ns);
      }
    for (size_t k = 0; k < kProbes.size(); ++k)
      results_.add(
          {fmt::format("hit-{}", kProbes[k]), kPinprick, 1, std::move(samples[k]), "hit-of-many"});
    return {};
  }

  double ns_of(std::string_view what, size_t size, std::string_view engine) const {
    const std::string name = fmt::format("{}-{}", what, size);
    for (const Record& record : results_.records())
      if (record.name == name && record.engine == engine) return record.value();
    return 0;
  }

  void print_line(size_t size) const {
    const auto whole = [&](std::string_view what, std::string_view engine) {
      const double ns = ns_of(what, size, engine);
      return ns == 0 ? std::string("-") : cli::duration_ns(ns);
    };
    const auto each = [&](std::string_view what, std::string_view engine) {
      const double ns = ns_of(what, size, engine);
      return ns == 0 ? std::string("-") : cli::duration_ns(ns / static_cast<double>(size));
    };
    fmt::print("{:>9} | {:>9} {:>9} {:>9} {:>9} {:>9} | {:>11} {:>9} {:>11} {:>9}\n", size,
               whole("arm", kPinprick), each("arm", kPinprick), whole("stop", kPinprick),
               whole("disarm", kPinprick), each("disarm", kPinprick), whole("arm", kKernel),
               each("arm", kKernel), whole("disarm", kKernel), each("disarm", kKernel));
    std::fflush(stdout);
  }

  void print_goals() const {
    const auto at_most = [&](std::string_view what, double limit_ns) {
      const double ns = ns_of(what, kHitSize, kPinprick);
      print_goal(fmt::format("{}-{} takes at most {}", what, kHitSize, cli::duration_ns(limit_ns)),
                 ns <= limit_ns, cli::duration_ns(ns));
    };
    at_most("arm", 200e6);
    at_most("stop", 5e6);
    at_most("disarm", 20e6);
    constexpr double kLinear = 1.5;
    const auto per_probe = [&](size_t size) {
      return ns_of("arm", size, kPinprick) / static_cast<double>(size);
    };
    const double growth = per_probe(kSizes.back()) / per_probe(10'000);
    print_goal("a probe of 100,000 takes no longer to arm than one of 10,000", growth <= kLinear,
               fmt::format("{:.2f} times as long", growth));
    fmt::print("\n");
  }

  const std::string& targets_;
  const Interrupts& interrupts_;
  Results& results_;
  bool no_kernel_ = false;
};

}  // namespace

Result<void, cli::Message> measure_mass(const std::string& targets, const Interrupts& interrupts,
                                        Results& results) {
  MassCost::print_head();
  return MassCost(targets, interrupts, results).run();
}

}  // namespace pinprick::bench
