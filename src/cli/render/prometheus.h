// `-o FILE.prom`: figures as metrics for Prometheus (export/prometheus.h), of the time since the
// start. With -i the file is written anew after each interval.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cli/render/export.h"
#include "export/prometheus.h"

namespace pinprick::cli {

class PrometheusRenderer : public ExportRenderer {
 public:
  PrometheusRenderer(TextRenderer text, const std::string& path, std::string key)
      : ExportRenderer(std::move(text), exports::Format::prometheus, path), key_(std::move(key)) {}

  int error_of_writing() const override {
    return error_ != 0 ? error_ : ExportRenderer::error_of_writing();
  }
  void flush() override;

 private:
  struct Series {
    placement::Kind kind = placement::Kind::count;
    uint64_t hits = 0;
    bool has_sum = false, is_sum_signed = false;
    uint64_t sum = 0;
    stats::Histogram values;
    uint64_t negative = 0;
    layout::Losses losses;
  };
  void add(const Report& report) override;
  void add_interval(const Report& report) override;
  void finish() override { is_due_ = true; }
  exports::Labels labels_of(const Report& report, const Row& row) const;
  void add_row(const Report& report, const Row& row);
  std::string text() const;

  std::string key_;  // the expression
  std::map<std::pair<placement::Kind, exports::Labels>, Series> series_;
  bool is_whole_ = false;  // what is there is of reports of the whole time
  bool is_due_ = false;    // something has changed since the file was written
  int error_ = 0;
};

}  // namespace pinprick::cli
