#include "cli/render/figure_series.h"

#include <fmt/format.h>

#include <bit>
#include <string>

#include "cli/render/count_columns.h"
#include "cli/render/export.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

using exports::Labels;
using exports::PrometheusText;
using exports::Unit;
using Type = PrometheusText::Type;

bool has_durations(placement::Kind kind) {
  return kind == placement::Kind::latency || kind == placement::Kind::span;
}

}  // namespace

static void add_number(PrometheusText& text, const Labels& labels, uint64_t number,
                       layout::NumberOrder order) {
  switch (order) {
    case layout::NumberOrder::real:
      return text.add(labels, std::bit_cast<double>(number));
    case layout::NumberOrder::with_sign:
      return text.add(labels, static_cast<int64_t>(number));
    case layout::NumberOrder::without_sign:
      return text.add(labels, number);
  }
}

// Two parts of a key may have the same name then, so the second one gets a number.
Labels labels_of(const Row& row, std::string_view key, Labels labels) {
  labels.emplace_back("function", point_text(row.name));
  labels.emplace_back("object", row.name.object);
  if (row.kind == placement::Kind::value) labels.emplace_back("value", row.name.value);
  if (!row.key) return labels;
  const auto names = select::split_key(key);
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

void FigureSeries::add(const Labels& labels, const Row& row) {
  Series& series = series_[{row.kind, labels}];
  series.hits += row.hits;
  if (row.sum) {
    series.has_sum = true;
    series.order = order_of_sums(row.name);
    series.sum = layout::added(series.sum, *row.sum, row.name.is_sum_real);
    if (row.extremes) series.extremes.add(*row.extremes);
  }
  if (!row.distribution) return;
  add(labels, row.distribution->losses);
  if (row.only_counts()) return;
  if (series.values.count() == 0)
    series.values = row.histogram();
  else if (series.values.bits() == row.histogram().bits())  // others have forged labels
    series.values.merge(row.histogram());
  series.negative += row.negative();
}

void FigureSeries::add(const Labels& labels, const layout::Losses& losses) {
  losses.for_each([&](const layout::LossWords& words, uint64_t count) {
    if (count != 0) add_lost(labels, words.key, count);
  });
}

void FigureSeries::add_lost(Labels labels, std::string_view cause, uint64_t count) {
  labels.emplace_back("cause", cause);
  lost_[std::move(labels)] += count;
}

void FigureSeries::put_family(PrometheusText& text, const char* name, const char* help, Type type,
                              bool (*applies)(placement::Kind, const Series&), Put put_one) const {
  bool has_begun = false;
  for (const auto& [key, series] : series_) {
    if (!applies(key.first, series)) continue;
    if (!std::exchange(has_begun, true)) text.begin(name, type, help);
    put_one(text, key.second, series);
  }
}

void FigureSeries::put(PrometheusText& text) const {
  put_family(
      text, "pinprick_hits_total", "Hits of probes.", Type::counter,
      [](placement::Kind kind, const Series&) { return kind == placement::Kind::count; },
      [](PrometheusText& to, const Labels& labels, const Series& one) {
        to.add(labels, one.hits);
      });
  put_family(
      text, "pinprick_values_added", "Sum of the value that --sum names.", Type::gauge,
      [](placement::Kind, const Series& one) { return one.has_sum; },
      [](PrometheusText& to, const Labels& labels, const Series& one) {
        add_number(to, labels, one.sum, one.order);
      });
  put_family(
      text, "pinprick_values_least", "The least value that --min or --max names.", Type::gauge,
      [](placement::Kind, const Series& one) { return !one.extremes.empty(); },
      [](PrometheusText& to, const Labels& labels, const Series& one) {
        add_number(to, labels, one.extremes.least(one.order), one.order);
      });
  put_family(
      text, "pinprick_values_greatest", "The greatest value that --min or --max names.",
      Type::gauge, [](placement::Kind, const Series& one) { return !one.extremes.empty(); },
      [](PrometheusText& to, const Labels& labels, const Series& one) {
        add_number(to, labels, one.extremes.greatest(one.order), one.order);
      });
  put_family(
      text, "pinprick_call_duration_seconds", "Time from call to return, or of a span.",
      Type::histogram, [](placement::Kind kind, const Series&) { return has_durations(kind); },
      [](PrometheusText& to, const Labels& labels, const Series& one) {
        to.add(labels, one.values, Unit::nanoseconds, one.negative);
      });
  put_family(
      text, "pinprick_values", "Values of arguments and registers.", Type::histogram,
      [](placement::Kind kind, const Series&) { return kind == placement::Kind::value; },
      [](PrometheusText& to, const Labels& labels, const Series& one) {
        to.add(labels, one.values, Unit::number, one.negative);
      });
  if (lost_.empty()) return;
  text.begin("pinprick_not_recorded_total", Type::counter,
             "Hits and calls that are missing in the other metrics, by cause.");
  for (const auto& [labels, count] : lost_) text.add(labels, count);
}

}  // namespace pinprick::cli
