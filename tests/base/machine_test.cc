#include "base/machine.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include "base/address.h"
#include "base/clock.h"

namespace pinprick {
namespace {

TEST(Machine, BootIdIsThirtyTwoHexadecimalDigits) {
  const std::string id = boot_id();
  EXPECT_EQ(id.size(), 32u);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), id.npos) << id;
  EXPECT_EQ(id, boot_id()) << "one boot, one id";
}

TEST(Machine, EveryCpuThatCanRunUsIsPossible) {
  const auto cpus = static_cast<long>(possible_cpus());
  EXPECT_GE(cpus, ::sysconf(_SC_NPROCESSORS_CONF));
  EXPECT_LT(::sched_getcpu(), cpus);
}

TEST(Machine, ReleasesOfKernelsCompareByMajorAndMinorNumber) {
  EXPECT_EQ(parse_kernel_version("6.1.0-13-amd64"), (KernelVersion{6, 1}));
  EXPECT_EQ(parse_kernel_version("5.10"), (KernelVersion{5, 10}));
  EXPECT_EQ(parse_kernel_version("6.14+"), (KernelVersion{6, 14}));
  EXPECT_LT(parse_kernel_version("5.15.1"), (KernelVersion{6, 1}));
  EXPECT_LT(parse_kernel_version("6.8.0"), (KernelVersion{6, 14}));
  for (const char* none : {"", "6", "6.", "linux", "6.x"})
    EXPECT_EQ(parse_kernel_version(none), KernelVersion()) << none;
  EXPECT_GT(kernel_version(), (KernelVersion{5, 0}));
}

TEST(Machine, ChecksRseqAreasIfItIsToldTo) {
  EXPECT_TRUE(checks_rseq("root=/dev/vda rseq_debug=1\n"));
  EXPECT_TRUE(checks_rseq("rseq_debug=on quiet"));
  EXPECT_TRUE(checks_rseq("rseq_debug=0 rseq_debug=y"));
  for (const char* not_told : {"", "quiet", "rseq_debug=off", "rseq_debug=0", "rseq_debug=n",
                               "rseq_debug=on rseq_debug=off", "my_rseq_debug=1"})
    EXPECT_FALSE(checks_rseq(not_told)) << not_told;
}

TEST(Clock, NanosecondsPerTickAreTheInverseOfTheFrequency) {
  const double ns_per_tick = static_cast<double>(ns_multiplier()) / 4294967296.0;
  EXPECT_NEAR(ns_per_tick * tsc_frequency(), 1e9, 1e3);
}

// Both clocks at one moment; reads again if it was interrupted.
struct Moment {
  uint64_t tsc = 0;
  uint64_t ns = 0;
};

Moment now() {
  Moment best;
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t before = read_tsc();
    const uint64_t ns = monotonic_ns();
    const uint64_t width = read_tsc() - before;
    if (width < least) {
      least = width;
      best = {before + width / 2, ns};
    }
  }
  return best;
}

TEST(Clock, TheFrequencyPredictsTheMonotonicClock) {
  if (!tsc_is_invariant()) GTEST_SKIP() << "the TSC of this machine is not invariant";
  const double frequency = tsc_frequency();
  const Moment first = now();
  while (monotonic_ns() - first.ns < 300'000'000) {
  }
  const Moment second = now();
  const double predicted = static_cast<double>(second.tsc - first.tsc) * 1e9 / frequency;
  EXPECT_NEAR(predicted / static_cast<double>(second.ns - first.ns), 1.0, 1e-4);
}

TEST(Clock, TheRoughMultiplierIsNearTheOneThatWasMeasuredForLonger) {
  const auto rough = static_cast<double>(rough_ns_multiplier());
  EXPECT_NEAR(rough / static_cast<double>(ns_multiplier()), 1.0, 0.01);
}

TEST(Address, AlignsToPowersOfTwoInBothDirections) {
  EXPECT_EQ(align_up(0, 8), 0u);
  EXPECT_EQ(align_up(1, 8), 8u);
  EXPECT_EQ(align_up(8, 8), 8u);
  EXPECT_EQ(align_down(15, 8), 8u);
  EXPECT_EQ(align_down(8, 8), 8u);
}

TEST(Range, ContainsItsStartButNotItsEnd) {
  const Range range = {10, 20};
  EXPECT_EQ(range.size(), 10u);
  EXPECT_TRUE(range.contains(Address{10}));
  EXPECT_TRUE(range.contains(Address{19}));
  EXPECT_FALSE(range.contains(Address{20}));
  EXPECT_FALSE(range.contains(Address{9}));
  EXPECT_TRUE(range.contains(Range{10, 20}));
  EXPECT_FALSE(range.contains(Range{10, 21}));
}

TEST(Range, TouchingRangesDoNotOverlap) {
  EXPECT_TRUE((Range{10, 20}.overlaps({19, 30})));
  EXPECT_FALSE((Range{10, 20}.overlaps({20, 30})));
  EXPECT_FALSE((Range{10, 20}.overlaps({0, 10})));
  EXPECT_TRUE((Range{10, 20}.overlaps({12, 13})));
}

TEST(Machine, TheCpuIsNamedByTheFirstModelNameOfCpuinfo) {
  EXPECT_EQ(parse_cpu_name(
                "processor\t: 0\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7763: 64-Core\nflags: a"),
            "AMD EPYC 7763: 64-Core");
  EXPECT_EQ(parse_cpu_name("model name\t: A\nmodel name\t: B\n"), "A");
  for (const char* nothing : {"", "\n", "model name", "model name\t:\n", "processor\t: 0\n"})
    EXPECT_EQ(parse_cpu_name(nothing), "unknown CPU") << nothing;
  EXPECT_FALSE(cpu_name().empty());
}

TEST(Machine, TheSystemIsNamedByThePrettyNameWithoutItsQuotes) {
  EXPECT_EQ(parse_system_name("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\nNAME=x\n"),
            "Debian GNU/Linux 12");
  EXPECT_EQ(parse_system_name("PRETTY_NAME='a b'"), "a b");
  EXPECT_EQ(parse_system_name("PRETTY_NAME=Void"), "Void");
  EXPECT_EQ(parse_system_name("PRETTY_NAME=\""), "\"");
  for (const char* nothing : {"", "NAME=x\n", "PRETTY_NAME=\n", "PRETTY_NAME=\"\"\n"})
    EXPECT_EQ(parse_system_name(nothing), "unknown system") << nothing;
  EXPECT_FALSE(system_name().empty());
}

}  // namespace
}  // namespace pinprick
