// The text exposition format of Prometheus (version 0.0.4). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stats/histogram.h"

namespace pinprick::exports {

using Labels = std::vector<std::pair<std::string, std::string>>;

// Returns a label's name made of any text, such as `arg1` of `$arg1`. It is none of the labels that
// pinprick sets itself.
std::string label_name(std::string_view text);

// All samples of a family come one after the other: begin() starts the next one.
class PrometheusText {
 public:
  enum class Type : uint8_t { counter, gauge, histogram };
  void begin(std::string_view name, Type type, std::string_view help);
  void add(const Labels& labels, uint64_t value);
  void add(const Labels& labels, int64_t value);
  // A bucket ends at the last value of each slot that is not empty, so histograms of one number of
  // fraction bits can be added up. `per_unit`: what values are divided by. `negative`: the number
  // of values below 0, whose sum is not known.
  void add(const Labels& labels, const stats::Histogram& values, double per_unit,
           uint64_t negative);
  const std::string& text() const { return text_; }

 private:
  void line(std::string_view suffix, const Labels& labels, std::string_view le,
            std::string_view value);

  std::string text_;
  std::string name_;
};

}  // namespace pinprick::exports
