#include "cli/render/change_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "cli/render/comparison_words.h"
#include "cli/render/units.h"

namespace pinprick::cli {
namespace {

using compare::Change;
using compare::Comparison;
using compare::Presence;
using compare::SideFigures;

// With more rows than this, each is one line.
constexpr size_t kFewChanges = 10;

std::string without_blanks_at_end(std::string text) {
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

bool is_idle(const Change& row) {
  return row.before.figures.calls == 0 && row.after.figures.calls == 0;
}

// Prints the rows of one measure and kind, as a table or as a list of blocks.
class ChangeTable {
 public:
  ChangeTable(Output& output, const Comparison& comparison, std::span<const Change> rows,
              ChangesShown shown)
      : output_(output), comparison_(comparison), kind_(rows.front().name.kind) {
    for (const Change& row : rows) {
      ++labels_[label_of(row.name)];
      if (row.is_change())
        ++changed_;
      else if (is_idle(row))
        ++idle_;
      else
        ++same_;
    }
    const size_t most = shown.most == 0 ? rows.size() : shown.most;
    for (const Change& row : rows)
      if (shown_.size() < most && (row.is_change() || (shown.all && !is_idle(row))))
        shown_.push_back(&row);
  }

  void print() {
    if (!shown_.empty() && kind_ == compare::Kind::count)
      print_counts();
    else if (!shown_.empty() && shown_.size() <= kFewChanges)
      print_blocks();
    else if (!shown_.empty())
      print_lines();
    print_rest();
  }

 private:
  std::string label(const Change& row) const {
    std::string label = label_of(row.name);
    const bool is_shared = labels_.at(label) > 1 && !row.name.object.empty();
    return is_shared ? row.name.object + ":" + label : label;
  }

  std::string heading_of_calls(const char* what) const {
    return what + std::string(comparison_.is_per_run      ? "/run"
                              : comparison_.is_rate_known ? "/s"
                                                          : "");
  }
  std::string calls_of(const SideFigures& side) const {
    if (side.figures.calls == 0) return "-";
    if (comparison_.is_rate_known && !comparison_.is_per_run) return rate(side.per_exposure);
    return comparison_.is_per_run ? magnitude(side.per_exposure) : with_commas(side.figures.calls);
  }
  double calls_per_exposure(const SideFigures& side) const {
    return comparison_.is_rate_known ? side.per_exposure : static_cast<double>(side.figures.calls);
  }
  // Of a program per run, of others as a share of the time, which is more than 100% with threads.
  std::string time_of(const SideFigures& side) const {
    if (side.figures.calls == 0) return "-";
    if (!comparison_.is_rate_known) return duration_ns(side.figures.total);
    if (comparison_.is_per_run) return duration_ns(side.total_per_exposure);
    return percentage(side.total_per_exposure / 1e9);
  }
  double time_per_exposure(const SideFigures& side) const {
    return comparison_.is_rate_known ? side.total_per_exposure : side.figures.total;
  }
  std::string value_of(std::optional<double> value) const {
    if (!value) return "-";
    return kind_ == compare::Kind::latency ? duration_ns(*value) : magnitude(std::max(*value, 0.0));
  }

  using Cells = std::array<std::string, 7>;
  Cells headings() const {
    const bool is_latency = kind_ == compare::Kind::latency;
    return {heading_of_calls(is_latency ? "calls" : "values"),
            is_latency ? (comparison_.is_per_run ? "time/run" : "time") : "",
            "mean",
            "typical",
            "p50",
            "p90",
            "p99"};
  }
  Cells cells(const SideFigures& side) const {
    return {calls_of(side),      kind_ == compare::Kind::latency ? time_of(side) : "",
            value_of(side.mean), value_of(side.typical),
            value_of(side.p50),  value_of(side.p90),
            value_of(side.p99)};
  }
  Cells changes(const Change& row) const {
    const auto of = [](std::optional<double> before, std::optional<double> after) {
      return before && after ? change_of(*before, *after) : std::string();
    };
    const SideFigures &a = row.before, &b = row.after;
    if (a.figures.calls == 0 || b.figures.calls == 0) return {};
    return {change_of(calls_per_exposure(a), calls_per_exposure(b)),
            kind_ == compare::Kind::latency ? change_of(time_per_exposure(a), time_per_exposure(b))
                                            : "",
            of(a.mean, b.mean),
            of(a.typical, b.typical),
            of(a.p50, b.p50),
            of(a.p90, b.p90),
            of(a.p99, b.p99)};
  }
  std::string line(const std::string& side, const Cells& cells) const {
    std::string text = fmt::format("  {:<8}", side);
    for (const std::string& cell : cells)
      if (kind_ == compare::Kind::latency || &cell != &cells[1])
        text += fmt::format(" {:>9}", cell);
    return text;
  }
  void print_blocks() {
    output_.print("{}\n", line("", headings()));
    for (const Change* row : shown_) {
      const std::string what = change_text(*row);
      output_.print("{}  {}\n", output_.bold(label(*row)), what.empty() ? "within noise" : what);
      print_stack(*row, "    ");
      output_.print("{}\n{}\n", line("before", cells(row->before)),
                    line("after", cells(row->after)));
      if (row->presence == Presence::both) output_.print("{}\n", line("change", changes(*row)));
    }
  }
  static std::string columns(const Cells& a, const Cells& b) {
    std::string text;
    for (const size_t i : {size_t{0}, size_t{3}, size_t{6}})
      text += fmt::format("{:>8} {:>8}  ", a[i], b[i]);
    return text;
  }
  void print_lines() {
    const std::string indent(columns(Cells(), Cells()).size() + 2, ' ');
    Cells before, after;
    before.fill("before");
    after.fill("after");
    output_.print("{}\n{}function\n", without_blanks_at_end(columns(headings(), Cells())),
                  columns(before, after));
    for (const Change* row : shown_) {
      const std::string what = change_text(*row);
      output_.print("{}{}{}{}\n", columns(cells(row->before), cells(row->after)),
                    output_.bold(label(*row)), what.empty() ? "" : "  ", what);
      print_stack(*row, indent);
    }
  }

  using Triple = std::array<std::string, 3>;
  std::string hit_columns(const Triple& hits, const Triple& sums) const {
    std::string text = fmt::format("{:>11} {:>11} {:>8}  ", hits[0], hits[1], hits[2]);
    if (has_sums()) text += fmt::format("{:>11} {:>11} {:>8}  ", sums[0], sums[1], sums[2]);
    return text;
  }
  bool has_sums() const { return !shown_.front()->name.sum.empty(); }
  void print_counts() {
    const std::string of_sums = "sum " + shown_.front()->name.sum;
    const Triple names = {"before", "after", "change"};
    const std::string indent(hit_columns(Triple(), Triple()).size() + 2, ' ');
    output_.print("{}\n{}function\n",
                  without_blanks_at_end(hit_columns({heading_of_calls("hits"), "", ""},
                                                    {heading_of_calls(of_sums.c_str()), "", ""})),
                  hit_columns(names, names));
    for (const Change* row : shown_) {
      const SideFigures &a = row->before, &b = row->after;
      const std::string hits = row->presence != Presence::both
                                   ? presence_text(*row)
                                   : change_of(calls_per_exposure(a), calls_per_exposure(b));
      output_.print(
          "{}{}\n",
          hit_columns({calls_of(a), calls_of(b), hits},
                      {sum_of(a), sum_of(b), change_of(a.sum_per_exposure, b.sum_per_exposure)}),
          output_.bold(label(*row)));
      print_stack(*row, indent);
    }
  }
  std::string sum_of(const SideFigures& side) const {
    const double sum = comparison_.is_rate_known ? side.sum_per_exposure : side.figures.sum;
    return (sum < 0 ? "-" : "") + magnitude(std::abs(sum));
  }
  void print_stack(const Change& row, const std::string& indent) {
    for (const std::string& frame : row.name.frames) output_.print("{}{}\n", indent, frame);
  }

  void print_rest() {
    std::string text;
    const auto add = [&](size_t n, const char* what) {
      if (n != 0) text += (text.empty() ? "" : ", ") + plural(n, "row") + " " + what;
    };
    if (changed_ == 0) text = "no change";
    const size_t n = shown_.size();
    add(changed_ - std::min(changed_, n), "changed less");
    add(same_ - (n - std::min(changed_, n)), "within noise");
    add(idle_, "without a hit");
    if (!text.empty()) output_.print("{}\n", output_.faint(text));
  }

  Output& output_;
  const Comparison& comparison_;
  compare::Kind kind_;
  std::map<std::string, size_t> labels_;
  std::vector<const Change*> shown_;
  size_t changed_ = 0, same_ = 0, idle_ = 0;
};

}  // namespace

void print_changes(Output& output, const compare::Comparison& comparison,
                   std::span<const compare::Change> rows, ChangesShown shown) {
  ChangeTable(output, comparison, rows, shown).print();
}

}  // namespace pinprick::cli
