#include "export/prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "export/format.h"

namespace pinprick::exports {
namespace {

std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : as_utf8(value))
    if (c == '\n')
      text += "\\n";
    else if (c == '\\' || c == '"')
      text += {'\\', c};
    else
      text += c;
  return text;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

double divisor_of(Unit unit) {
  constexpr double kNanoseconds = 1e9;
  return unit == Unit::number ? 1 : kNanoseconds;
}

// Readers compare bounds as texts: this is the shortest one.
std::string bound_text(uint64_t last, Unit unit) {
  return fmt::format("{}", static_cast<double>(last) / divisor_of(unit));
}

std::string text_of(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, escaped(value));
  return text;
}

}  // namespace

std::string label_name(std::string_view text) {
  constexpr std::array<std::string_view, 11> kOwn = {"pid",     "comm",     "function", "object",
                                                     "measure", "value",    "cause",    "owner",
                                                     "le",      "quantile", "statistic"};
  std::string name;
  for (const char c : text) {
    const bool is_kept = is_letter(c) || (c >= '0' && c <= '9');
    if (is_kept)
      name += c;
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (name.ends_with('_')) name.pop_back();
  const bool is_taken = std::ranges::find(kOwn, name) != kOwn.end();
  if (name.empty()) return "key";
  return is_taken || !is_letter(name.front()) ? "key_" + name : name;
}

void PrometheusText::begin(std::string_view name, Type type, std::string_view help) {
  constexpr std::array<std::string_view, 3> kTypes = {"counter", "gauge", "histogram"};
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name,
                       kTypes[static_cast<size_t>(type)]);
}

void PrometheusText::line(std::string_view suffix, std::string_view labels,
                          std::string_view value) {
  text_ += name_;
  text_ += suffix;
  if (!labels.empty()) {
    text_ += '{';
    text_ += labels;
    text_ += '}';
  }
  text_ += ' ';
  text_ += value;
  text_ += '\n';
}

bool PrometheusText::is_full() {
  const bool full = text_.size() >= most_bytes_;
  if (full) ++left_out_;
  return full;
}

void PrometheusText::add_line(const Labels& labels, std::string_view value) {
  if (!is_full()) line("", text_of(labels), value);
}

void PrometheusText::add(const Labels& labels, uint64_t value) {
  add_line(labels, fmt::format_int(value).c_str());
}

void PrometheusText::add(const Labels& labels, int64_t value) {
  add_line(labels, fmt::format_int(value).c_str());
}

void PrometheusText::add(const Labels& labels, double value) {
  add_line(labels, fmt::format("{}", value));
}

// From 63 ns to 68.7 s, or from 0 on: the same for each number of fraction bits.
const std::vector<PrometheusText::Bound>& PrometheusText::bounds(unsigned bits, Unit unit) {
  std::vector<Bound>& all = bounds_[{bits, unit}];
  if (!all.empty()) return all;
  constexpr uint64_t kLeast = uint64_t{1} << 6, kMost = uint64_t{1} << 36;
  const unsigned coarse = std::min(bits, *fixed_bits_);
  const uint32_t first = unit == Unit::nanoseconds ? stats::slot_of(kLeast, coarse) : 1;
  for (uint32_t slot = first; slot <= stats::slot_of(kMost, coarse); ++slot) {
    const uint64_t after = stats::slot_floor(slot, coarse);
    all.push_back({stats::slot_of(after, bits), bound_text(after - 1, unit)});
  }
  return all;
}

void PrometheusText::add(const Labels& labels, const stats::Histogram& values, Unit unit,
                         uint64_t negative) {
  if (is_full()) return;
  const std::string own = text_of(labels);
  const std::string prefix = own.empty() ? "le=\"" : own + ",le=\"";
  // A histogram has a hundred of these lines.
  const auto bucket = [&](std::string_view le, uint64_t count) {
    text_ += name_;
    text_ += "_bucket{";
    text_ += prefix;
    text_ += le;
    text_ += "\"} ";
    const fmt::format_int digits(count);
    text_.append(digits.data(), digits.size());
    text_ += '\n';
  };
  const auto& cells = values.cells();
  uint64_t count = negative;
  if (negative != 0) bucket("-1", count);
  if (fixed_bits_) {
    uint32_t slot = 0;
    for (const Bound& bound : bounds(values.bits(), unit)) {
      for (; slot < bound.slot && slot < cells.size(); ++slot) count += cells[slot].count;
      bucket(bound.le, count);
    }
  } else {
    for (uint32_t slot = 0; slot + 1 < cells.size(); ++slot) {
      if (cells[slot].count == 0) continue;
      count += cells[slot].count;
      bucket(bound_text(stats::slot_floor(slot + 1, values.bits()) - 1, unit), count);
    }
  }
  const uint64_t all = negative + values.count();
  bucket("+Inf", all);
  line("_sum", own, negative != 0 ? "NaN" : fmt::format("{}", values.sum() / divisor_of(unit)));
  line("_count", own, fmt::format_int(all).c_str());
}

}  // namespace pinprick::exports
