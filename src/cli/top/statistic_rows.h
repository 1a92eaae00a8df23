// The rows of statistics that stay in processes (session/statistics.h), or that programs record
// themselves. They are only read: nothing is placed, and nothing is taken out.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/top/row_source.h"
#include "control/statistics.h"
#include "session/statistics.h"

namespace pinprick::cli::top {

class StatisticRows : public RowSource {
 public:
  // The statistics of these processes, or of all if there are none. New ones appear as rows later.
  explicit StatisticRows(std::vector<pid_t> pids);

  // Is there any statistic?
  bool has_any() const { return !known_.empty(); }

  std::vector<int> descriptors() const override { return {}; }
  uint64_t look_after() override;
  // Gaps are left out: they would have the largest share of the time. A statistic that was reset
  // starts anew.
  void read(const TakeReport& take) override;
  std::vector<pid_t> ended() const override;
  bool all_ended() const override;
  bool can_be_left_alone() override { return true; }

 private:
  struct Known {
    uint64_t start_time = 0;
    std::string command;
    bool has_ended = false;
    bool was_read_after_end = false;
    struct Last {
      uint64_t created_ns = 0, resets = 0;
      session::Distribution recorded;
    };
    // A program can record a statistic that has the name of a traced one.
    std::map<std::pair<session::StatisticFigures::Kind, std::string>, Last> last;
    uint64_t read_ns = 0;
  };
  void find_processes();
  void read_one(pid_t pid, Known& known, const TakeReport& take);

  const std::vector<pid_t> pids_;
  std::unique_ptr<control::Processes> processes_;
  std::map<pid_t, Known> known_;
};

}  // namespace pinprick::cli::top
