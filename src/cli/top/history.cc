#include "cli/top/history.h"

#include <algorithm>
#include <cmath>

namespace pinprick::cli::top {

void History::add(double from_s, double to_s, double calls) {
  const auto last = static_cast<int64_t>(std::floor(to_s));
  const int64_t oldest = last - static_cast<int64_t>(kSeconds);
  for (int64_t second = std::max(newest_ + 1, oldest); second <= last; ++second)
    calls_[static_cast<size_t>(second) % calls_.size()] = 0;
  newest_ = std::max(newest_, last);
  if (calls == 0) return;
  const double length = to_s - from_s;
  const auto begin = std::max(static_cast<int64_t>(std::floor(std::max(from_s, 0.0))), oldest);
  for (int64_t second = std::max<int64_t>(begin, 0); second <= last; ++second) {
    const auto start = static_cast<double>(second);
    const double within = std::min(to_s, start + 1) - std::max(from_s, start);
    const double part = length > 0 ? std::max(within, 0.0) / length : second == last ? 1 : 0;
    calls_[static_cast<size_t>(second) % calls_.size()] += static_cast<float>(calls * part);
  }
}

double History::calls_in(int64_t second) const {
  const bool is_kept =
      second >= 0 && second <= newest_ && second >= newest_ - static_cast<int64_t>(kSeconds);
  return is_kept ? static_cast<double>(calls_[static_cast<size_t>(second) % calls_.size()]) : 0;
}

std::vector<double> History::rates(size_t columns, double now_s) const {
  const auto end = static_cast<int64_t>(std::floor(now_s));
  std::vector<double> rates;
  for (size_t column = 0; column < columns; ++column) {
    const auto first = static_cast<int64_t>(kSeconds * column / columns);
    const auto after = std::max(static_cast<int64_t>(kSeconds * (column + 1) / columns), first + 1);
    double calls = 0;
    for (int64_t second = first; second < after; ++second)
      calls += calls_in(end - static_cast<int64_t>(kSeconds) + second);
    rates.push_back(calls / static_cast<double>(after - first));
  }
  return rates;
}

std::string sparkline(const std::vector<double>& rates, bool unicode) {
  static constexpr std::array<const char*, 9> kBlocks = {" ", "▁", "▂", "▃", "▄",
                                                         "▅", "▆", "▇", "█"};
  static constexpr std::array<const char*, 9> kAscii = {" ", ".", ":", "-", "=",
                                                        "+", "*", "#", "@"};
  const double most = rates.empty() ? 0 : *std::max_element(rates.begin(), rates.end());
  std::string line;
  for (const double rate : rates) {
    const size_t level =
        rate <= 0 ? 0 : std::clamp<size_t>(static_cast<size_t>(std::lround(rate / most * 8)), 1, 8);
    line += (unicode ? kBlocks : kAscii)[level];
  }
  return line;
}

}  // namespace pinprick::cli::top
