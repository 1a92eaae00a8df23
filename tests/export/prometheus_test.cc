#include "export/prometheus.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace pinprick::exports {
namespace {

TEST(Prometheus, LabelNamesAreValidAndNotOurOwn) {
  EXPECT_EQ(label_name("$arg1"), "arg1");
  EXPECT_EQ(label_name("*(int*)p + 3"), "int_p_3");
  EXPECT_EQ(label_name("pid"), "key_pid");
  EXPECT_EQ(label_name("le"), "key_le");
  EXPECT_EQ(label_name("3"), "key_3");
  EXPECT_EQ(label_name("+"), "key");
}

TEST(Prometheus, LabelValuesAreEscaped) {
  PrometheusText text;
  text.begin("a_total", PrometheusText::Type::counter, "A.");
  text.add({{"f", "operator\"\"\\\n"}}, uint64_t{3});
  EXPECT_EQ(
      text.text(),
      "# HELP a_total A.\n# TYPE a_total counter\na_total{f=\"operator\\\"\\\"\\\\\\n\"} 3\n");
}

// With three fraction bits, values up to 15 have a slot each, and 16 and 17 share one.
TEST(Prometheus, BucketsEndAtTheLastValueOfASlot) {
  stats::Histogram values(3);
  for (const uint64_t value : {3, 3, 16, 17}) values.record(value);
  PrometheusText text;
  text.begin("v", PrometheusText::Type::histogram, "V.");
  text.add({}, values, Unit::number, 0);
  EXPECT_EQ(text.text(),
            "# HELP v V.\n# TYPE v histogram\nv_bucket{le=\"3\"} 2\nv_bucket{le=\"17\"} 4\n"
            "v_bucket{le=\"+Inf\"} 4\nv_sum 39\nv_count 4\n");
}

// Readers compare bounds as texts: each has to be the shortest one.
TEST(Prometheus, BoundsInSecondsAreExact) {
  stats::Histogram values(3);
  values.record(21);
  PrometheusText text;
  text.begin("v", PrometheusText::Type::histogram, "V.");
  text.add({}, values, Unit::nanoseconds, 0);
  EXPECT_NE(text.text().find("v_bucket{le=\"2.1e-08\"} 1\n"), std::string::npos) << text.text();
}

TEST(Prometheus, NegativeValuesComeFirstAndHaveNoSum) {
  stats::Histogram values(3);
  values.record(1);
  PrometheusText text;
  text.begin("v", PrometheusText::Type::histogram, "V.");
  text.add({}, values, Unit::number, 2);
  EXPECT_EQ(text.text(),
            "# HELP v V.\n# TYPE v histogram\nv_bucket{le=\"-1\"} 2\nv_bucket{le=\"1\"} 3\n"
            "v_bucket{le=\"+Inf\"} 3\nv_sum NaN\nv_count 3\n");
}

// Returns the lines of a text that are of buckets, as (bound, count).
std::vector<std::pair<std::string, std::string>> buckets_in(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> all;
  const std::string begin = "le=\"";
  for (size_t at = text.find(begin); at != text.npos; at = text.find(begin, at + 1)) {
    const size_t bound = at + begin.size(), end = text.find("\"} ", bound);
    all.emplace_back(text.substr(bound, end - bound),
                     text.substr(end + 3, text.find('\n', end) - end - 3));
  }
  return all;
}

std::vector<std::pair<std::string, std::string>> fixed_buckets(const std::vector<uint64_t>& of,
                                                               unsigned bits, unsigned fixed_bits,
                                                               Unit unit) {
  stats::Histogram values(bits);
  for (const uint64_t value : of) values.record(value);
  PrometheusText text(fixed_bits);
  text.begin("v", PrometheusText::Type::histogram, "V.");
  text.add({}, values, unit, 0);
  return buckets_in(text.text());
}

// Whatever the values and their fraction bits are, so that the bounds of many machines are the
// same.
TEST(Prometheus, FixedBucketsAreThoseOfAllHistograms) {
  const auto none = fixed_buckets({}, 3, 1, Unit::nanoseconds);
  const auto some = fixed_buckets({1, 500, uint64_t{1} << 50}, 5, 1, Unit::nanoseconds);
  ASSERT_EQ(none.size(), some.size());
  for (size_t i = 0; i < none.size(); ++i) EXPECT_EQ(none[i].first, some[i].first);
  // Two for each power of two from 2^6 to 2^36, the first bound, and the last one.
  EXPECT_EQ(none.size(), 30u * 2 + 2);
  EXPECT_EQ(none.front().first, "6.3e-08");
  EXPECT_EQ(none[1].first, "9.5e-08");
  EXPECT_EQ(none[none.size() - 2].first, "68.719476735");
}

// 63 is in the first bucket, 64 is not: each count is that of all values up to the bound.
TEST(Prometheus, FixedBucketsCountExactlyWhatIsUpToTheirBound) {
  const std::vector<uint64_t> values = {0, 63, 64, 95, 96, 127, 128, 1000, uint64_t{1} << 40};
  for (unsigned bits = 0; bits <= stats::kMaxFractionBits; ++bits)
    for (unsigned fixed = 0; fixed <= stats::kMaxFractionBits; ++fixed)
      for (const auto& [bound, count] : fixed_buckets(values, bits, fixed, Unit::number)) {
        if (bound == "+Inf") continue;
        const double most = std::stod(bound);
        const auto expected = std::ranges::count_if(
            values, [&](uint64_t value) { return static_cast<double>(value) <= most; });
        EXPECT_EQ(count, std::to_string(expected)) << bits << ' ' << fixed << ' ' << bound;
      }
  EXPECT_EQ(fixed_buckets(values, 3, 0, Unit::number).back().second, "9");
}

// As `sum by (le)` does it.
TEST(Prometheus, FixedBucketsOfTwoMachinesAddUpToThoseOfBoth) {
  const std::vector<uint64_t> one = {70, 5000, 5000}, other = {90, 4999, uint64_t{1} << 40};
  std::vector<uint64_t> both = one;
  both.insert(both.end(), other.begin(), other.end());
  const auto first = fixed_buckets(one, 3, 2, Unit::nanoseconds);
  const auto second = fixed_buckets(other, 5, 2, Unit::nanoseconds);
  const auto sum = fixed_buckets(both, 3, 2, Unit::nanoseconds);
  ASSERT_EQ(first.size(), sum.size());
  for (size_t i = 0; i < sum.size(); ++i) {
    EXPECT_EQ(second[i].first, sum[i].first);
    EXPECT_EQ(std::stoull(first[i].second) + std::stoull(second[i].second),
              std::stoull(sum[i].second));
  }
}

TEST(Prometheus, AHistogramOfFewerFractionBitsHasAPartOfTheFixedBuckets) {
  const auto all = fixed_buckets({}, 3, 3, Unit::nanoseconds);
  for (const auto& one : fixed_buckets({}, 1, 3, Unit::nanoseconds))
    EXPECT_NE(std::ranges::find(all, one), all.end()) << one.first;
}

TEST(Prometheus, WhatIsTooMuchIsLeftOutAndCounted) {
  PrometheusText text(std::nullopt, 60);
  text.begin("v", PrometheusText::Type::counter, "V.");
  for (uint64_t i = 0; i < 100; ++i) text.add({}, i);
  EXPECT_LE(text.text().size(), 64u);
  const auto lines = std::ranges::count(text.text(), '\n');
  EXPECT_EQ(text.left_out(), 102 - static_cast<uint64_t>(lines));
}

}  // namespace
}  // namespace pinprick::exports
