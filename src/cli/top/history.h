// Calls per second over the last minute, and their drawing as a line of bars. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pinprick::cli::top {

class History {
 public:
  static constexpr size_t kSeconds = 60;

  // Adds calls that were made from one time to another, in seconds since the start. They are spread
  // evenly over that time. Times do not go back.
  void add(double from_s, double to_s, double calls);

  // Returns calls per second in `columns` equal parts of the last minute, the latest one last. The
  // minute ends with the last full second before `now_s`. The time before the start has no calls.
  std::vector<double> rates(size_t columns, double now_s) const;

 private:
  double calls_in(int64_t second) const;

  // One more than the full seconds: the current one.
  std::array<float, kSeconds + 1> calls_{};
  int64_t newest_ = -1;
};

// Returns one character per rate: a bar, as high as the rate is in relation to the largest. A rate
// above 0 always shows.
std::string sparkline(const std::vector<double>& rates, bool unicode);

}  // namespace pinprick::cli::top
