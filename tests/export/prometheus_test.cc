#include "export/prometheus.h"

#include <gtest/gtest.h>

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
  text.add({}, values, 1, 0);
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
  text.add({}, values, 1e9, 0);
  EXPECT_NE(text.text().find("v_bucket{le=\"2.1e-08\"} 1\n"), std::string::npos) << text.text();
}

TEST(Prometheus, NegativeValuesComeFirstAndHaveNoSum) {
  stats::Histogram values(3);
  values.record(1);
  PrometheusText text;
  text.begin("v", PrometheusText::Type::histogram, "V.");
  text.add({}, values, 1, 2);
  EXPECT_EQ(text.text(),
            "# HELP v V.\n# TYPE v histogram\nv_bucket{le=\"-1\"} 2\nv_bucket{le=\"1\"} 3\n"
            "v_bucket{le=\"+Inf\"} 3\nv_sum NaN\nv_count 3\n");
}

}  // namespace
}  // namespace pinprick::exports
