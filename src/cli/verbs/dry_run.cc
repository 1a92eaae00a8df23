// --dry-run: what the verb would probe, and with --probe-rate also what that would cost.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/interrupts.h"
#include "cli/measure/event_output.h"
#include "cli/measure/measured_files.h"
#include "cli/measure/patterns.h"
#include "cli/measure/spec.h"
#include "cli/messages/messages.h"
#include "cli/object_store.h"
#include "cli/verbs/verbs.h"
#include "select/span.h"
#include "select/spec.h"
#include "session/dry_run.h"
#include "session/measurement.h"

namespace pinprick::cli {
namespace {

class NoEvents : public session::EventSink {
 public:
  void event(const session::Event&) override {}
};

// Adds up the hits of functions.
class Hits : public session::ReportSink {
 public:
  bool shows_idle(size_t) const override { return false; }
  void report(const session::Report& report) override {
    seconds = report.seconds;
    for (const session::Row& row : report.rows) {
      all += row.hits;
      by_function_[text_of(row.name)] += row.hits;
    }
  }
  std::vector<std::pair<std::string, uint64_t>> most() const {
    constexpr size_t kMost = 5;
    std::vector<std::pair<std::string, uint64_t>> sorted(by_function_.begin(), by_function_.end());
    std::ranges::stable_sort(sorted, std::ranges::greater(),
                             [](const auto& one) { return one.second; });
    std::erase_if(sorted, [](const auto& one) { return one.second == 0; });
    sorted.resize(std::min(sorted.size(), kMost));
    return sorted;
  }
  uint64_t all = 0;
  double seconds = 0;

 private:
  std::map<std::string, uint64_t> by_function_;
};

// Returns the points alone: counting them costs least, and reads nothing that a hit would read.
std::vector<std::string> points_of(const Options& options) {
  std::vector<std::string> points;
  const auto add = [&](std::string_view text) {
    const select::Spec spec = select::split_spec(text);
    const auto span = select::parse_span(spec.point);
    if (!options.regex && select::is_span(text) && span) {
      points.emplace_back(span->start);
      points.emplace_back(span->end);
    } else {
      points.emplace_back(spec.point);
    }
  };
  for (const std::string& text : options.patterns) {
    if (options.verb != "measure") {
      add(text);
    } else if (const auto measure = parse_measure(text, options.regex)) {
      for (const std::string& wanted : measure->wanted) add(wanted);
    }
  }
  std::ranges::sort(points);
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

double ns_per_hit(const session::Selection& selection) {
  const session::HitCosts costs = hit_costs();
  double most = 0;
  for (const action::Action& action : selection.actions.all())
    most = std::max(most, action.kind == placement::Kind::span     ? costs.span
                          : action.times_call()                    ? costs.call
                          : action.counts() && !action.uses_keys() ? costs.count
                                                                   : costs.value);
  return most;
}

Result<ProbeRate, Message> counted_rate(pid_t pid, const Options& options, double cost_ns) {
  constexpr uint64_t kNs = 100'000'000, kTurnNs = 10'000'000;
  Options counting;
  counting.verb = "count";
  counting.patterns = points_of(options);
  counting.excluded = options.excluded;
  counting.excluded_in = options.excluded_in;
  counting.regex = options.regex;
  counting.entry_sites = options.entry_sites;
  counting.instructions = options.instructions;
  counting.allow_missing = options.allow_missing;
  auto selection = parse_patterns(counting);
  if (!selection) return fail(selection.error());
  const auto spec = spec_of(counting, *std::move(selection));
  NoEvents events;
  QuietListener listener(events);
  auto measurement = session::Measurement::begin(pid, spec, object_store(), listener);
  if (!measurement) return fail(message(measurement.error()));
  for (const uint64_t until = monotonic_ns() + kNs; monotonic_ns() < until;) {
    sleep_ns(kTurnNs);
    if (measurement->notice_end()) break;
    measurement->look_after();
  }
  measurement->end(monotonic_ns());
  measurement->disarm();
  Hits hits;
  measurement->report(session::Period::whole, hits);
  if (hits.seconds <= 0) return fail(message(session::MeasurementError(session::Interrupted{})));
  return ProbeRate{hits.seconds, hits.all, cost_ns, hits.most()};
}

}  // namespace

int run_dry_run(const Options& options, Renderer& renderer) {
  auto selection = parse_patterns(options);
  if (!selection) return give_up(renderer, selection.error());
  const double cost_ns = options.probe_rate ? ns_per_hit(*selection) : 0;
  const auto spec = spec_of(options, *std::move(selection));
  const Interrupts interrupts;  // a count is taken out at Ctrl-C, too
  for (const pid_t pid : options.pids) {
    const auto run = session::dry_run(pid, spec, object_store());
    if (!run) return give_up(renderer, message(run.error()));
    std::optional<ProbeRate> rate;
    if (options.probe_rate && run->functions != 0) {
      auto counted = counted_rate(pid, options, cost_ns);
      if (!counted) return give_up(renderer, counted.error());
      rate = *std::move(counted);
    }
    renderer.dry_run({*run, std::move(rate)});
  }
  renderer.flush();
  object_store().write_pending();
  return renderer.is_broken() ? kFailed : kOk;
}

}  // namespace pinprick::cli
