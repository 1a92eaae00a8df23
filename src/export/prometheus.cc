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

}  // namespace

std::string label_name(std::string_view text) {
  constexpr std::array<std::string_view, 9> kOwn = {
      "pid", "comm", "function", "object", "measure", "value", "cause", "le", "quantile"};
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

void PrometheusText::line(std::string_view suffix, const Labels& labels, std::string_view le,
                          std::string_view value) {
  text_ += name_;
  text_ += suffix;
  const char* separator = "{";
  for (const auto& [name, text] : labels) {
    text_ += fmt::format("{}{}=\"{}\"", separator, name, escaped(text));
    separator = ",";
  }
  if (!le.empty()) text_ += fmt::format("{}le=\"{}\"", separator, le);
  if (!labels.empty() || !le.empty()) text_ += '}';
  text_ += fmt::format(" {}\n", value);
}

void PrometheusText::add(const Labels& labels, uint64_t value) {
  line("", labels, "", fmt::format("{}", value));
}

void PrometheusText::add(const Labels& labels, int64_t value) {
  line("", labels, "", fmt::format("{}", value));
}

void PrometheusText::add(const Labels& labels, const stats::Histogram& values, double per_unit,
                         uint64_t negative) {
  uint64_t count = negative;
  if (negative != 0) line("_bucket", labels, "-1", fmt::format("{}", count));
  const unsigned bits = values.bits();
  for (uint32_t slot = 0; slot + 1 < values.cells().size(); ++slot) {
    if (values.cells()[slot].count == 0) continue;
    count += values.cells()[slot].count;
    const auto last = static_cast<double>(stats::slot_floor(slot + 1, bits) - 1);
    line("_bucket", labels, fmt::format("{}", last / per_unit), fmt::format("{}", count));
  }
  const uint64_t all = negative + values.count();
  line("_bucket", labels, "+Inf", fmt::format("{}", all));
  line("_sum", labels, "", negative != 0 ? "NaN" : fmt::format("{}", values.sum() / per_unit));
  line("_count", labels, "", fmt::format("{}", all));
}

}  // namespace pinprick::exports
