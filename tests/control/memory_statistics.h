// Statistics without processes: a PID is there as long as a set, or a folder, has it.
//
// All functions are there whose names do not begin with "no_such". A statistic that runs records
// a round of values whenever its text is read, so that no two texts are the same.
#pragma once

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "control/statistics.h"
#include "stats/kstats_text.h"

namespace pinprick::control {

inline Failure<ControlError> refusal(int number, std::string reason) {
  return fail(ControlError{number, std::move(reason)});
}

// What a process has. It outlives the Statistics that look at it.
struct MemoryProcess {
  struct Statistic {
    StatisticInfo info;
    stats::Histogram histogram;
    int rounds = 0;
  };
  std::vector<Statistic> statistics;
  bool is_over = false;
  std::vector<std::string> commands;  // all that ran, as text
};

class MemoryStatistics : public Statistics {
 public:
  explicit MemoryStatistics(std::shared_ptr<MemoryProcess> process)
      : process_(std::move(process)) {}

  Result<void, ControlError> run(const Command& command) override {
    if (process_->is_over) return refusal(ESRCH, "the process has ended");
    process_->commands.push_back(to_text(command));
    if (command.verb == Verb::trace) return trace(command);
    auto* found = find(command.name);
    if (found == nullptr) return refusal(ENOENT, "there is no such statistic");
    if (command.verb == Verb::remove) {
      std::erase_if(process_->statistics, [&](const MemoryProcess::Statistic& one) {
        return one.info.name == command.name ||
               one.info.name == std::string(kGapPrefix) + command.name;
      });
      return {};
    }
    if (command.verb == Verb::reset) found->histogram = stats::Histogram(found->histogram.bits());
    if (command.verb == Verb::start) found->info.running = true;
    if (command.verb == Verb::stop) found->info.running = false;
    found->info.changed_ns = realtime_ns();
    return {};
  }

  Result<std::vector<StatisticInfo>, ControlError> list() override {
    if (process_->is_over) return refusal(ESRCH, "the process has ended");
    std::vector<StatisticInfo> all;
    for (const auto& one : process_->statistics) all.push_back(one.info);
    return all;
  }

  Result<std::string, ControlError> text(std::string_view name) override {
    auto* found = find(name);
    if (process_->is_over) return refusal(ESRCH, "the process has ended");
    if (found == nullptr) return refusal(ENOENT, "there is no such statistic");
    if (found->info.running) {
      ++found->rounds;
      // Of all magnitudes: a text of many lines, which grows for a while.
      for (int i = 0; i < found->rounds % 1000; ++i)
        found->histogram.record(static_cast<uint64_t>(i) << (i % 50));
      found->info.changed_ns = realtime_ns();
    }
    const stats::CpuHistogram all[] = {{0, found->histogram}};
    return stats::kstats_text(all, 1);
  }

 private:
  MemoryProcess::Statistic* find(std::string_view name) {
    const auto found = std::find_if(process_->statistics.begin(), process_->statistics.end(),
                                    [&](const auto& one) { return one.info.name == name; });
    return found == process_->statistics.end() ? nullptr : &*found;
  }

  Result<void, ControlError> trace(const Command& command) {
    if (find(command.name) != nullptr) return refusal(EEXIST, "the name is taken");
    for (const std::string& point : {command.start, command.end.value_or("")})
      if (point.starts_with("no_such"))
        return refusal(ENOENT, "there is no function '" + point + "'");
    add(command.name, command.bits);
    if (command.gap != Gap::none) add(std::string(kGapPrefix) + command.name, command.bits);
    return {};
  }

  void add(const std::string& name, unsigned bits) {
    const uint64_t now = realtime_ns();
    process_->statistics.push_back({{name, true, false, now, now}, stats::Histogram(bits), 0});
  }

  std::shared_ptr<MemoryProcess> process_;
};

class MemoryProcesses : public Processes {
 public:
  // Asked at each look which PIDs there are.
  explicit MemoryProcesses(std::function<std::vector<pid_t>()> pids) : pids_(std::move(pids)) {}

  std::vector<pid_t> all() override { return pids_(); }

  Result<std::unique_ptr<Statistics>, ControlError> open(pid_t pid) override {
    const std::vector<pid_t> now = pids_();
    std::shared_ptr<MemoryProcess>& process = processes_[pid];
    if (std::find(now.begin(), now.end(), pid) == now.end()) {
      if (process) process->is_over = true;
      process = nullptr;
      return refusal(ESRCH, "there is no such process");
    }
    if (!process) process = std::make_shared<MemoryProcess>();
    return std::unique_ptr<Statistics>(std::make_unique<MemoryStatistics>(process));
  }

  void provide() override { ++provided; }

  MemoryProcess& process(pid_t pid) { return *processes_.at(pid); }
  uint64_t provided = 0;

 private:
  std::function<std::vector<pid_t>()> pids_;
  std::map<pid_t, std::shared_ptr<MemoryProcess>> processes_;
};

}  // namespace pinprick::control
