// The rows of functions or spans that pinprick times itself.
#pragma once

#include <set>
#include <vector>

#include "cli/measure/measured_processes.h"
#include "cli/top/row_source.h"

namespace pinprick::cli::top {

class MeasurementRows : public RowSource {
 public:
  // `measured` was begun, with probes that time calls or spans, and must outlive this.
  explicit MeasurementRows(MeasuredProcesses& measured) : measured_(measured) {}

  std::vector<int> descriptors() const override { return measured_.descriptors(); }
  uint64_t look_after() override;
  void read(const TakeReport& take) override;
  std::vector<pid_t> ended() const override;
  bool all_ended() const override { return measured_.all_ended(); }
  bool can_be_left_alone() override;

 private:
  MeasuredProcesses& measured_;
  std::set<pid_t> finished_;  // their last report was handed over
};

}  // namespace pinprick::cli::top
