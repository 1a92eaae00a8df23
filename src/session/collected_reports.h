// The reports of many processes: each alone if that is wanted, and their sum. They outlive the
// measurements that they come from. For one thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "session/report.h"
#include "session/results.h"
#include "session/row_sum.h"

namespace pinprick::session {

enum class Keep : uint8_t { sum, each };

class CollectedReports : public ReportSink {
 public:
  explicit CollectedReports(Keep keep) : keep_(keep) {}

  // All rows are needed to tell functions of the same name apart; show() leaves out.
  bool shows_idle(size_t) const override { return true; }
  void report(const Report& report) override;

  // From now on, rows of the object `alias` are rows of `name`: a file may have several names.
  void take_as(const std::string& alias, const std::string& name) { aliases_[alias] = name; }

  // Hands on the reports of the processes, if they are kept, and then the sums, under `name`. The
  // names in their rows live as long as this.
  void show(ReportSink& sink, const ProcessName& name, double seconds, Period period) const;
  void clear();
  // Was there ever anything that was measured, with calls or without?
  bool has_rows() const { return has_rows_; }

 private:
  struct Sum {
    std::string name;
    placement::Kind kind = placement::Kind::count;
    RowSum rows;
    uint64_t slots_to_ask_for = 0;
    std::optional<BudgetFigures> budget;
  };

  size_t partial_rows() const;
  std::string_view kept(std::string_view name);
  static void hand_on(Report report, ReportSink& sink);

  Keep keep_;
  bool has_rows_ = false;
  std::vector<Report> each_;      // as they came: those of a process follow each other
  std::map<uint32_t, Sum> sums_;  // by measure
  std::map<std::string, std::string, std::less<>> aliases_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace pinprick::session
