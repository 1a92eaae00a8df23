#include "cli/render/units.h"

#include <fmt/format.h>

#include <cmath>

namespace pinprick::cli {
namespace {

// Three significant digits. 999.6 becomes 1.00 of the next unit, not 1000.
std::string three_digits(double value) {
  if (value >= 99.95) return fmt::format("{:.0f}", value);
  if (value >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

std::string scaled(double value, const char* const* units, size_t count, double step) {
  size_t unit = 0;
  while (unit + 1 < count && value >= step - 0.5) {
    value /= step;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.0f}{}", value, units[0]);
  return three_digits(value) + units[unit];
}

}  // namespace

std::string with_commas(uint64_t value) {
  std::string digits = fmt::format("{}", value);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string plural(size_t n, const std::string& what, const std::string& several) {
  return fmt::format("{} {}", with_commas(n), n == 1 ? what : several);
}

std::string plural(size_t n, const std::string& what) {
  return plural(n, what, what + "s");
}

std::string duration_ns(double ns) {
  static constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  return scaled(ns, kUnits, 4, 1000);
}

std::string rate(double per_second) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G"};
  return scaled(per_second, kUnits, 4, 1000);
}

std::string magnitude(double value) {
  constexpr double kAsItIs = 1e7;
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
  if (value < kAsItIs) return with_commas(static_cast<uint64_t>(std::llround(value)));
  return scaled(value, kUnits, 7, 1000);
}

std::string byte_size(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return bytes < uint64_t{1} << 20 ? fmt::format("{:.0f} KB", value / (1 << 10))
                                   : fmt::format("{:.1f} MB", value / (1 << 20));
}

std::string percentage(double fraction) {
  return fmt::format("{:.1f}%", fraction * 100);
}

}  // namespace pinprick::cli
