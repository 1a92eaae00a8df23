#include "cli/render/prometheus.h"

#include <utility>

#include "cli/replaced_file.h"

namespace pinprick::cli {
namespace {

exports::Labels labels_of_process(const Report& report) {
  exports::Labels labels;
  if (report.process.pid != 0) labels.emplace_back("pid", fmt::format("{}", report.process.pid));
  labels.emplace_back("comm", report.process.command);
  if (!report.name.empty()) labels.emplace_back("measure", report.name);
  return labels;
}

}  // namespace

void PrometheusRenderer::add_interval(const Report& report) {
  for (const Row& row : report.rows)
    series_.add(labels_of(row, key_, labels_of_process(report)), row);
  is_due_ = true;
}

// Reports of the whole time come last. They take the place of the intervals.
void PrometheusRenderer::add(const Report& report) {
  if (!std::exchange(is_whole_, true)) series_ = {};
  add_interval(report);
}

void PrometheusRenderer::flush() {
  ExportRenderer::flush();
  if (!std::exchange(is_due_, false) || error_ != 0) return;
  exports::PrometheusText text;
  series_.put(text);
  error_ = replace_file(path(), text.text());
}

}  // namespace pinprick::cli
