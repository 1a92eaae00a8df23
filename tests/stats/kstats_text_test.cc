#include "stats/kstats_text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>
#include <sstream>

namespace pinprick::stats {
namespace {

__extension__ using Wide = unsigned __int128;

Histogram with(unsigned bits, std::initializer_list<std::pair<uint32_t, Cell>> cells) {
  Histogram histogram(bits);
  for (const auto& [slot, cell] : cells) histogram.add(slot, cell);
  return histogram;
}

std::string text_of(const Histogram& histogram) {
  const CpuHistogram one[] = {{0, histogram}};
  return kstats_text(one, 1);
}

// The formula and the format of the original again, in other steps: fls64 by shifting, the fraction
// digit by digit as on paper, and the C library's format.
namespace again {

unsigned fls64(uint64_t v) {
  unsigned number = 0;
  for (; v != 0; v /= 2) ++number;
  return number;
}

uint32_t slot(uint64_t v, unsigned fb) {
  const uint32_t slots = ((64 - fb + 1) << fb) + 1;
  const unsigned bucket = fls64(v >> fb);
  uint64_t s = v;
  if (bucket != 0) s = (uint64_t{bucket} << fb) | ((v >> (bucket - 1)) % (uint64_t{1} << fb));
  return s > slots - 2 ? slots - 1 : static_cast<uint32_t>(s);
}

unsigned shift(uint32_t s, unsigned fb) {
  unsigned bucket = s;
  for (unsigned i = 0; i < fb; ++i) bucket /= 2;
  return bucket > 20 ? bucket - 20 : 0;
}

std::string fraction(Wide part, Wide whole) {
  std::string digits(1, static_cast<char>('0' + static_cast<int>(part / whole)));
  digits += '.';
  for (int i = 0; i < 6; ++i) {
    part = part % whole * 10;
    digits += static_cast<char>('0' + static_cast<int>(part / whole));
  }
  return digits;
}

std::string line(uint32_t s, unsigned fb, char of_all, int number, uint64_t count, Wide sum,
                 const std::string& p) {
  char text[160];
  std::snprintf(text, sizeof text, "slot %-3d CPU%c %-4d count %8lu avg %8lu p %s\n",
                static_cast<int>(s), of_all, number, count,
                static_cast<uint64_t>(sum / count) << shift(s, fb), p.c_str());
  return text;
}

// By CPU, the values that it recorded.
std::string text(const std::map<int, std::vector<uint64_t>>& values, unsigned fb, int cpus) {
  struct Sum {
    uint64_t count = 0;
    Wide sum = 0;
  };
  std::map<uint32_t, std::map<int, Sum>> cells;
  uint64_t all = 0;
  for (const auto& [cpu, recorded] : values) {
    for (uint64_t v : recorded) {
      Sum& cell = cells[slot(v, fb)][cpu];
      ++cell.count;
      cell.sum += v >> shift(slot(v, fb), fb);
    }
    all += recorded.size();
  }
  std::string result;
  std::map<int, uint64_t> so_far;
  uint64_t all_so_far = 0;
  for (const auto& [s, by_cpu] : cells) {
    Sum total;
    for (const auto& [cpu, cell] : by_cpu) {
      so_far[cpu] += cell.count;
      result +=
          line(s, fb, ' ', cpu, cell.count, cell.sum, fraction(so_far[cpu], values.at(cpu).size()));
      total.count += cell.count;
      total.sum += cell.sum;
    }
    all_so_far += total.count;
    result += line(s, fb, 'S', cpus, total.count, total.sum, fraction(all_so_far, all));
  }
  return result;
}

}  // namespace again

uint64_t of_any_magnitude(std::mt19937_64& random) {
  return random() >> (random() % 64);
}

// The example of the original: CPU 243's only value of slot 12 is 0.000097 of its own, and all
// CPUs' values of slot 12 are 0.006153 of all. A value far above makes up the rest of each.
TEST(KstatsText, IsByteForByteTheOriginalsExample) {
  const CpuHistogram histograms[] = {
      {243, with(3, {{12, {1, 12}}, {400, {10308, 0}}})},
      {244, with(3, {{12, {19976, 239712}}, {400, {3216420, 0}}})},
  };
  std::istringstream text(kstats_text(histograms, 256));
  std::string line;
  ASSERT_TRUE(std::getline(text, line));
  EXPECT_EQ(line, "slot 12  CPU  243  count        1 avg       12 p 0.000097");
  ASSERT_TRUE(std::getline(text, line));
  EXPECT_EQ(line, "slot 12  CPU  244  count    19976 avg       12 p 0.006172");
  ASSERT_TRUE(std::getline(text, line));
  EXPECT_EQ(line, "slot 12  CPUS 256  count    19977 avg       12 p 0.006153");
}

TEST(KstatsText, HasTheOriginalsSlotForEachCheckValue) {
  for (const auto& [value, slot] :
       std::initializer_list<std::pair<uint64_t, const char*>>{{12, "slot 12  "},
                                                               {480, "slot 55  "},
                                                               {20130, "slot 97  "},
                                                               {21360, "slot 98  "},
                                                               {1061896, "slot 144 "},
                                                               {1313664, "slot 146 "},
                                                               {UINT64_MAX, "slot 495 "}}) {
    Histogram histogram(3);
    histogram.record(value);
    EXPECT_EQ(text_of(histogram).substr(0, 9), slot) << value;
  }
}

TEST(KstatsText, IsWhatAnIndependentImplementationPrintsOfRandomValues) {
  std::mt19937_64 random(1);
  for (unsigned bits = kMinFractionBits; bits <= kMaxFractionBits; ++bits) {
    for (int round = 0; round < 20; ++round) {
      std::map<int, std::vector<uint64_t>> values;
      std::vector<CpuHistogram> histograms;
      for (int cpu = -1; cpu < 5; ++cpu) {
        CpuHistogram& one = histograms.emplace_back(CpuHistogram{cpu, Histogram(bits)});
        const uint64_t count = random() % 3 == 0 ? 0 : random() % 3000;
        for (uint64_t i = 0; i < count; ++i) {
          const uint64_t value = of_any_magnitude(random);
          values[cpu].push_back(value);
          one.histogram.record(value);
        }
      }
      std::shuffle(histograms.begin(), histograms.end(), random);
      ASSERT_EQ(kstats_text(histograms, 64), again::text(values, bits, 64)) << "bits " << bits;
    }
  }
}

TEST(KstatsText, IsEmptyWithoutValues) {
  EXPECT_EQ(kstats_text({}, 4), "");
  EXPECT_EQ(text_of(Histogram(3)), "");
  // A reader may see the sum of a value, and not yet its count.
  EXPECT_EQ(text_of(with(3, {{7, {0, 7}}})), "");
}

TEST(KstatsText, LeavesOutCpusAndSlotsWithoutValues) {
  const CpuHistogram histograms[] = {
      {2, with(3, {{5, {2, 10}}})}, {0, Histogram(3)}, {1, with(3, {{9, {2, 18}}})}};
  EXPECT_EQ(kstats_text(histograms, 4),
            "slot 5   CPU  2    count        2 avg        5 p 1.000000\n"
            "slot 5   CPUS 4    count        2 avg        5 p 0.500000\n"
            "slot 9   CPU  1    count        2 avg        9 p 1.000000\n"
            "slot 9   CPUS 4    count        2 avg        9 p 1.000000\n");
}

TEST(KstatsText, SaysOneOnlyWhenAllValuesAreIn) {
  const std::string text = text_of(with(3, {{1, {9'999'999'999, 0}}, {2, {1, 2}}}));
  EXPECT_NE(text.find("slot 1   CPU  0    count 9999999999 avg        0 p 0.999999\n"), text.npos);
  EXPECT_NE(text.find("slot 2   CPUS 1    count        1 avg        2 p 1.000000\n"), text.npos);
}

TEST(KstatsText, ShowsTheOverflowSlotOfEveryNumberOfBits) {
  const std::map<unsigned, const char*> last = {{0, "slot 65 "},  {1, "slot 128 "},
                                                {2, "slot 252 "}, {3, "slot 496 "},
                                                {4, "slot 976 "}, {5, "slot 1920 "}};
  for (const auto& [bits, begin] : last) {
    const std::string text = text_of(with(bits, {{slot_count(bits) - 1, {3, 3}}}));
    EXPECT_EQ(text.find(begin), 0u) << text;
    EXPECT_NE(text.find("count        3 "), text.npos) << text;
  }
}

// A hostile process writes what it likes into its cells.
TEST(KstatsText, DoesNotOverflowWithTheLargestCounts) {
  const Cell full = {UINT64_MAX, UINT64_MAX};
  const CpuHistogram histograms[] = {{0, with(3, {{3, full}, {4, full}})},
                                     {1, with(3, {{4, full}})}};
  EXPECT_EQ(kstats_text(histograms, 2),
            "slot 3   CPU  0    count 18446744073709551615 avg        1 p 0.500000\n"
            "slot 3   CPUS 2    count 18446744073709551615 avg        1 p 0.333333\n"
            "slot 4   CPU  0    count 18446744073709551615 avg        1 p 1.000000\n"
            "slot 4   CPU  1    count 18446744073709551615 avg        1 p 1.000000\n"
            "slot 4   CPUS 2    count 36893488147419103230 avg        1 p 1.000000\n");
}

TEST(KstatsText, PrintsTheLargestNumberForAnAverageThatNoValuesHave) {
  const std::string text = text_of(with(3, {{300, {1, UINT64_MAX}}}));
  EXPECT_NE(text.find(" avg 18446744073709551615 "), text.npos) << text;
}

// Counts below 2^44 times a million still fit into 64 bits, larger ones do not.
TEST(KstatsText, IsExactWhereAMillionTimesACountDoesNotFitIn64Bits) {
  const uint64_t count = uint64_t{1} << 60;
  const std::string text = text_of(with(3, {{1, {count, 0}}, {2, {count * 3, 0}}}));
  EXPECT_NE(text.find("p 0.250000\n"), text.npos) << text;
}

TEST(KstatsFormula, IsWhatAnIndependentImplementationSaysOfTenMillionValues) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 10'000'000; ++i) {
    const uint64_t value = of_any_magnitude(random);
    const unsigned bits = static_cast<unsigned>(i) % (kMaxFractionBits + 1);
    const uint32_t slot = slot_of(value, bits);
    if (slot != again::slot(value, bits) || sum_shift(slot, bits) != again::shift(slot, bits))
      FAIL() << "value " << value << " bits " << bits;
  }
}

}  // namespace
}  // namespace pinprick::stats
