// Figures as series of metrics, by their labels: for files (render/prometheus.h), and for what is
// served (verbs/machine_metrics.h). docs/exports.md has the metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "cli/render/renderer.h"
#include "export/prometheus.h"

namespace pinprick::cli {

// Returns these labels and those of the row. `key` is the expression of its key.
exports::Labels labels_of(const Row& row, std::string_view key, exports::Labels labels);

class FigureSeries {
 public:
  // Adds up what has the same labels.
  void add(const exports::Labels& labels, const Row& row);
  void add(const exports::Labels& labels, const layout::Losses& losses);
  void add_lost(exports::Labels labels, std::string_view cause, uint64_t count);
  void put(exports::PrometheusText& text) const;

 private:
  struct Series {
    uint64_t hits = 0;
    bool has_sum = false;
    layout::NumberOrder order = layout::NumberOrder::without_sign;  // of sums
    uint64_t sum = 0;
    layout::Extremes extremes;
    stats::Histogram values;
    uint64_t negative = 0;
  };
  using Put = void (*)(exports::PrometheusText&, const exports::Labels&, const Series&);
  // Puts the series for which it is meant, if there are any.
  void put_family(exports::PrometheusText& text, const char* name, const char* help,
                  exports::PrometheusText::Type type,
                  bool (*applies)(placement::Kind, const Series&), Put put_one) const;

  std::map<std::pair<placement::Kind, exports::Labels>, Series> series_;
  std::map<exports::Labels, uint64_t> lost_;  // one of the labels is the cause
};

}  // namespace pinprick::cli
