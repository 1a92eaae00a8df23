#include "cli/render/comparison_words.h"

#include <fmt/format.h>

#include <cmath>

#include "cli/render/units.h"
#include "select/spec.h"

namespace pinprick::cli {
namespace {

using compare::Change;
using compare::Figure;
using compare::Finding;
using compare::Presence;
using compare::SideFigures;

// How each figure is told if it grew by so many times, grew, or fell.
struct ChangeWords {
  const char *times, *more, *less;
};
ChangeWords change_words(Figure figure, compare::Kind kind) {
  switch (figure) {
    case Figure::calls:
      if (kind == compare::Kind::latency)
        return {"{} the calls", "{} more calls", "{} fewer calls"};
      return {"{} the hits", "{} more hits", "{} fewer hits"};
    case Figure::sum:
      return {"{} the sum", "sum {} higher", "sum {} lower"};
    case Figure::typical:
      if (kind == compare::Kind::latency) return {"takes {} as long", "{} slower", "{} faster"};
      return {"{} as large", "{} larger", "{} smaller"};
    case Figure::mean:
      return {"mean {} as high", "mean {} higher", "mean {} lower"};
    case Figure::tail:
      return {"p99 {} as high", "p99 {} higher", "p99 {} lower"};
  }
  return {"{}", "{}", "{}"};
}

std::string finding_text(const Finding& finding, compare::Kind kind, bool with_interval) {
  const stats::Difference& difference = finding.difference;
  if (difference.before == 0)
    return kind == compare::Kind::latency ? "no calls before" : "no hits before";
  if (finding.figure == Figure::calls && difference.after == 0)
    return kind == compare::Kind::latency ? "no calls after" : "no hits after";
  const ChangeWords words = change_words(finding.figure, kind);
  const double change = difference.change();
  const bool is_times = change >= 1;
  const std::string size = is_times ? fmt::format("{:.2f}x", 1 + change) : percent_text(change);
  std::string text = fmt::format(fmt::runtime(is_times     ? words.times
                                              : change > 0 ? words.more
                                                           : words.less),
                                 size);
  if (!with_interval || difference.low == difference.high) return text;
  return text + fmt::format(" ({:+.0f}% to {:+.0f}%)", difference.least_change() * 100,
                            difference.most_change() * 100);
}

}  // namespace

// `+3.1%`, `-60%`, or `x2.4` from twice as much on.
std::string change_of(double before, double after) {
  constexpr double kTimes = 2, kLarge = 0.0995;
  if (before == 0) return after == 0 ? "" : "from 0";
  if (after == 0) return "to 0";
  const double change = after / before - 1;
  if (after / before >= kTimes) return fmt::format("x{:.3g}", after / before);
  return std::abs(change) >= kLarge ? fmt::format("{:+.0f}%", change * 100)
                                    : fmt::format("{:+.1f}%", change * 100);
}

std::string percent_text(double change) {
  const double percent = std::abs(change) * 100;
  return percent >= 9.95 ? fmt::format("{:.0f}%", percent) : fmt::format("{:.1f}%", percent);
}

std::string presence_text(const Change& change) {
  const Presence presence = change.presence;
  const SideFigures& other = presence == Presence::appeared ? change.before : change.after;
  const std::string side = presence == Presence::appeared ? "before" : "after";
  if (other.is_skipped) return "not probed " + side;
  return presence == Presence::appeared ? "new" : "gone";
}

std::string label_of(const compare::RowName& name) {
  std::string label = name.function;
  if (name.at_return) label += select::kReturnMark;
  if (!name.value.empty()) label += fmt::format(" {}", name.value);
  if (!name.condition.empty()) label += fmt::format(" if {}", name.condition);
  if (!name.by.empty() && (!name.key.empty() || name.frames.empty()))
    label += fmt::format(" [{}: {}]", name.by, name.key);
  return label;
}

std::string change_text(const Change& change) {
  if (!change.is_change()) return {};
  if (change.presence != Presence::both) return presence_text(change);
  std::string text;
  for (const Figure figure :
       {Figure::typical, Figure::mean, Figure::tail, Figure::sum, Figure::calls})
    for (const Finding& finding : change.findings)
      if (finding.figure == figure && finding.is_change)
        text += (text.empty() ? "" : ", ") +
                finding_text(finding, change.name.kind, figure == Figure::typical);
  return text;
}

}  // namespace pinprick::cli
