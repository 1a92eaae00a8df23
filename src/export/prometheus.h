// The text exposition format of Prometheus (version 0.0.4). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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

// The unit of the values of a histogram.
enum class Unit : uint8_t {
  nanoseconds,  // shown in seconds
  recorded,     // the same, or other numbers that a program took for such: small ones matter
  number,
};

// All samples of a family come one after the other: begin() starts the next one.
class PrometheusText {
 public:
  enum class Type : uint8_t { counter, gauge, histogram };
  // Without `fixed_bits`, a histogram has a bucket for each slot that is not empty. With them, all
  // histograms of a unit have the same buckets, 2^fixed_bits for each power of two: those of many
  // machines can then be added up bound by bound. A histogram of fewer fraction bits has a part of
  // them. What is added after `most_bytes` is left out.
  explicit PrometheusText(std::optional<unsigned> fixed_bits = std::nullopt,
                          size_t most_bytes = SIZE_MAX)
      : fixed_bits_(fixed_bits), most_bytes_(most_bytes) {}

  void begin(std::string_view name, Type type, std::string_view help);
  void add(const Labels& labels, uint64_t value);
  void add(const Labels& labels, int64_t value);
  void add(const Labels& labels, double value);
  // A bucket ends at the last value of a slot. `negative`: the number of values below 0, whose sum
  // is not known.
  void add(const Labels& labels, const stats::Histogram& values, Unit unit, uint64_t negative);
  const std::string& text() const { return text_; }
  // Leaves an empty text.
  std::string take() { return std::exchange(text_, {}); }
  // How many samples and histograms were left out.
  uint64_t left_out() const { return left_out_; }

 private:
  struct Bound {
    uint32_t slot = 0;  // the first one after the bucket
    std::string le;
  };
  const std::vector<Bound>& bounds(unsigned bits, Unit unit);
  void line(std::string_view suffix, std::string_view labels, std::string_view value);
  void add_line(const Labels& labels, std::string_view value);
  bool is_full();

  std::optional<unsigned> fixed_bits_;
  size_t most_bytes_;
  uint64_t left_out_ = 0;
  std::string text_;
  std::string name_;
  // By the fraction bits of the histogram, and the unit.
  std::map<std::pair<unsigned, Unit>, std::vector<Bound>> bounds_;
};

}  // namespace pinprick::exports
