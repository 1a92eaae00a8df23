#include "cli/verbs/machine_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/machine.h"
#include "cli/render/figure_series.h"
#include "cli/verbs/session_rows.h"
#include "cli/version.h"
#include "export/prometheus.h"
#include "ledger/discovery.h"
#include "ledger/recorded_statistics.h"
#include "pinprick/version.h"
#include "session/statistics.h"

namespace pinprick::cli {
namespace {

using exports::Labels;
using exports::PrometheusText;
using exports::Unit;
using ledger::FoundSession;
using session::StatisticFigures;
using Type = PrometheusText::Type;

// Users may make as many statistics as they like, and root looks at all of them.
constexpr size_t kMostBytes = size_t{64} << 20;

struct Statistic {
  Unit unit = Unit::nanoseconds;
  bool is_running = true;
  stats::Histogram times;
};

Labels labels_of_owner(const ProcessName& process, std::string owner) {
  return {{"pid", fmt::format("{}", process.pid)},
          {"comm", process.command},
          {"owner", std::move(owner)}};
}

Labels labels_of_statistic(const ProcessName& process, const StatisticFigures& figures) {
  Labels labels = labels_of_owner(
      process, figures.kind == StatisticFigures::Kind::recorded ? "recorded" : "kstats");
  labels.emplace_back("statistic", figures.name);
  if (figures.what.empty()) return labels;
  const bool names_object = figures.what.starts_with(figures.object + ":");
  labels.emplace_back("function",
                      figures.what.substr(names_object ? figures.object.size() + 1 : 0));
  labels.emplace_back("object", figures.object);
  return labels;
}

void add_losses(const StatisticFigures& figures, const Labels& labels, FigureSeries& series) {
  layout::Losses losses = figures.losses;
  if (figures.kind == StatisticFigures::Kind::gaps) {
    // Before the first start on a CPU there is no gap.
    const uint64_t usual = figures.of_thread ? 0 : possible_cpus();
    const uint64_t starts = std::exchange(losses[layout::Loss::unmatched], 0);
    if (starts > usual) series.add_lost(labels, "unmatched_starts", starts);
  }
  series.add(labels, losses);
}

class Metrics {
 public:
  void add(const ProcessName& process, std::vector<StatisticFigures> all) {
    for (StatisticFigures& one : all) {
      const Labels labels = labels_of_statistic(process, one);
      add_losses(one, labels, series_);
      // A file of its owner's making may have a name twice.
      statistics_.try_emplace(
          labels, Statistic{one.kind == StatisticFigures::Kind::recorded ? Unit::recorded
                                                                         : Unit::nanoseconds,
                            one.is_running, stats::total_of(std::move(one.by_cpu), one.bits)});
    }
  }
  void add(const SessionRow& session) {
    const Labels labels = labels_of_owner(session.process, fmt::format("{}", session.controller));
    for (const Row& row : session.rows)
      if (row.has_calls()) series_.add(labels_of(row, row.name.key, labels), row);
  }
  void put(PrometheusText& text) const {
    if (!statistics_.empty()) put_statistics(text);
    series_.put(text);
  }

 private:
  void put_statistics(PrometheusText& text) const {
    text.begin("pinprick_statistic_seconds", Type::histogram,
               "Times of statistics that stay in processes, or that programs record themselves.");
    for (const auto& [labels, one] : statistics_) text.add(labels, one.times, one.unit, 0);
    text.begin("pinprick_statistic_running", Type::gauge, "0 if the statistic is stopped.");
    for (const auto& [labels, one] : statistics_) text.add(labels, uint64_t{one.is_running});
  }

  std::map<Labels, Statistic> statistics_;
  FigureSeries series_;
};

// Its probes are in the program that its process runs.
bool is_in_place(const FoundSession& found) {
  return found.target_lives && found.journal.header.state == layout::SessionState::armed &&
         !is_of_earlier_program(found);
}

std::string text_about_scrape(uint64_t begin_ns, size_t unreadable, uint64_t left_out) {
  PrometheusText text;
  const auto gauge = [&](const char* name, const char* help, const Labels& labels, auto value) {
    text.begin(name, Type::gauge, help);
    text.add(labels, value);
  };
  gauge("pinprick_up", "1: pinprick has read what there is.", {}, uint64_t{1});
  gauge("pinprick_build_info", "The program that serves this.",
        {{"version", kVersion}, {"commit", kCommit}}, uint64_t{1});
  gauge("pinprick_unreadable_files",
        "Files of sessions and statistics that are not readable, or not trusted.", {},
        uint64_t{unreadable});
  gauge("pinprick_left_out", "Series that are missing here, as there are too many.", {}, left_out);
  gauge("pinprick_scrape_duration_seconds", "How long it took to read all of this.", {},
        static_cast<double>(monotonic_ns() - begin_ns) / 1e9);
  return text.text();
}

}  // namespace

std::string machine_metrics(unsigned bits) {
  const uint64_t begin_ns = monotonic_ns();
  Metrics metrics;
  auto found = ledger::find_sessions();
  const auto recordings = ledger::find_recordings(std::nullopt, ledger::RecordedFile::Access::read);
  const auto others = std::partition(found.sessions.begin(), found.sessions.end(),
                                     [](const FoundSession& one) { return one.is_kept(); });
  session::read_statistics(std::span(found.sessions.begin(), others), recordings.files,
                           [&](const ProcessName& process, std::vector<StatisticFigures> figures) {
                             metrics.add(process, std::move(figures));
                           });
  const auto gone = std::partition(others, found.sessions.end(), is_in_place);
  const auto rows = session_rows(std::span(others, gone), Slots::left_out);
  for (const SessionRow& session : rows) metrics.add(session);
  PrometheusText text(bits, kMostBytes);
  metrics.put(text);
  const size_t unreadable = found.unreadable.size() + recordings.unreadable.size();
  // It may be large, and is not copied.
  std::string all = text.take();
  all += text_about_scrape(begin_ns, unreadable, text.left_out());
  return all;
}

}  // namespace pinprick::cli
