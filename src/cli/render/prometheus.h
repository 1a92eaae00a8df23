// `-o FILE.prom`: figures as metrics for Prometheus (export/prometheus.h), of the time since the
// start. With -i the file is written anew after each interval.
#pragma once

#include <string>

#include "cli/render/export.h"
#include "cli/render/figure_series.h"

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
  void add(const Report& report) override;
  void add_interval(const Report& report) override;
  void finish() override { is_due_ = true; }

  std::string key_;  // the expression
  FigureSeries series_;
  bool is_whole_ = false;  // what is there is of reports of the whole time
  bool is_due_ = false;    // something has changed since the file was written
  int error_ = 0;
};

}  // namespace pinprick::cli
