#include "cli/render/prometheus.h"

#include <utility>
#include <vector>

#include "cli/replaced_file.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

using exports::Labels;
using exports::PrometheusText;
using Type = PrometheusText::Type;

}  // namespace

// Two parts of a key may have the same name then, so the second one gets a number.
Labels PrometheusRenderer::labels_of(const Report& report, const Row& row) const {
  Labels labels;
  if (report.process.pid != 0) labels.emplace_back("pid", fmt::format("{}", report.process.pid));
  labels.emplace_back("comm", report.process.command);
  if (!report.name.empty()) labels.emplace_back("measure", report.name);
  labels.emplace_back("function", point_text(row.name));
  labels.emplace_back("object", row.name.object);
  if (row.kind == placement::Kind::value) labels.emplace_back("value", row.name.value);
  if (!row.key) return labels;
  const auto names = select::split_key(key_);
  auto texts = key_texts(row);
  // Keys that there was no room for, or that could not be read, have one text for all parts.
  texts.resize(names.size(), texts.front());
  for (size_t i = 0; i < names.size(); ++i) {
    std::string name = exports::label_name(names[i]);
    for (const auto& [other, text] : labels)
      if (other == name) name += fmt::format("_{}", i + 1);
    labels.emplace_back(std::move(name), texts[i]);
  }
  return labels;
}

void PrometheusRenderer::add_row(const Report& report, const Row& row) {
  const auto [known, is_new] = series_.try_emplace({row.kind, labels_of(report, row)});
  Series& series = known->second;
  series.kind = row.kind;
  series.hits += row.hits;
  if (row.sum) {
    series.has_sum = true;
    series.is_sum_signed = row.name.is_sum_signed;
    series.sum += *row.sum;
  }
  if (!row.distribution) return;
  series.losses += row.distribution->losses;
  if (row.only_counts()) return;
  if (series.values.count() == 0)
    series.values = row.histogram();
  else
    series.values.merge(row.histogram());
  series.negative += row.negative();
}

void PrometheusRenderer::add_interval(const Report& report) {
  for (const Row& row : report.rows) add_row(report, row);
  is_due_ = true;
}

// Reports of the whole time come last. They take the place of the intervals.
void PrometheusRenderer::add(const Report& report) {
  if (!std::exchange(is_whole_, true)) series_.clear();
  add_interval(report);
}

std::string PrometheusRenderer::text() const {
  PrometheusText text;
  const auto family = [&](const char* name, Type type, const char* help, auto applies, auto put) {
    bool has_begun = false;
    for (const auto& [key, series] : series_) {
      if (!applies(series)) continue;
      if (!std::exchange(has_begun, true)) text.begin(name, type, help);
      put(key.second, series);
    }
  };
  const auto is_time = [](const Series& one) {
    return one.kind == placement::Kind::latency || one.kind == placement::Kind::span;
  };
  family(
      "pinprick_hits_total", Type::counter, "Hits of probes.",
      [](const Series& one) { return one.kind == placement::Kind::count; },
      [&](const Labels& labels, const Series& one) { text.add(labels, one.hits); });
  family(
      "pinprick_values_added", Type::gauge, "Sum of the value that --sum names.",
      [](const Series& one) { return one.has_sum; },
      [&](const Labels& labels, const Series& one) {
        if (one.is_sum_signed)
          text.add(labels, static_cast<int64_t>(one.sum));
        else
          text.add(labels, one.sum);
      });
  family("pinprick_call_duration_seconds", Type::histogram,
         "Time from call to return, or of a span.", is_time,
         [&](const Labels& labels, const Series& one) {
           constexpr double kNanoseconds = 1e9;
           text.add(labels, one.values, kNanoseconds, one.negative);
         });
  family(
      "pinprick_values", Type::histogram, "Values of arguments and registers.",
      [](const Series& one) { return one.kind == placement::Kind::value; },
      [&](const Labels& labels, const Series& one) {
        text.add(labels, one.values, 1, one.negative);
      });
  family(
      "pinprick_not_recorded_total", Type::counter,
      "Hits and calls that are missing in the other metrics, by cause.",
      [](const Series& one) { return one.losses.total() != 0; },
      [&](const Labels& labels, const Series& one) {
        one.losses.for_each([&](const layout::LossWords& words, uint64_t count) {
          if (count == 0) return;
          Labels with_cause = labels;
          with_cause.emplace_back("cause", words.key);
          text.add(with_cause, count);
        });
      });
  return text.text();
}

void PrometheusRenderer::flush() {
  ExportRenderer::flush();
  if (!std::exchange(is_due_, false) || error_ != 0) return;
  error_ = replace_file(path(), text());
}

}  // namespace pinprick::cli
