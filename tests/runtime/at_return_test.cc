// What is decided at the return of a call: by the code of stubs, in the runtime itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "arch/differential.h"
#include "arch/random_expressions.h"
#include "probed_function.h"

namespace pinprick::runtime {
namespace {

using arch::AtReturn;
using arch::Expression;
using arch::Operation;
using arch::Reg;
using arch::Source;

constexpr uint8_t kRdi = 7, kRsi = 6, kR9 = 9;

Source number(uint64_t value) {
  return {.instead = Source::Constant{value}};
}
Source of_call(std::optional<uint8_t> kept = std::nullopt) {
  return {.instead = Source::OfCall{.kept = kept}};
}
Expression compared(Source left, Operation operation, uint64_t right) {
  return Expression({{.source = left},
                     {.source = number(right)},
                     {.operation = operation, .left = 0, .right = 1}});
}
Expression result_is(uint64_t value) {
  return compared(Source{.register_number = 0}, Operation::equal, value);
}

// Two plain metrics, then others.
std::vector<unsigned> metrics(size_t n) {
  return std::vector<unsigned>(n, kBits);
}

class Returns : public OnEachPath {};
INSTANTIATE_TEST_SUITE_P(, Returns, kPaths, name_of_path);

TEST_P(Returns, DecideWhichCallsAreRecordedAndTheOthersLeaveNothing) {
  Probed probed(kIncrement, GetParam(), kSlots, 0, {kBits}, Gap::none, {{{result_is(8), {}}}, {}});
  auto* const increment = probed.function<long(long)>();
  for (long i = 0; i < 100; ++i) ASSERT_EQ(increment(i % 10), i % 10 + 1);
  EXPECT_EQ(probed.histogram().count(), 10u);
  EXPECT_EQ(probed.missed(), 0u);
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Returns, DecideForEachMetricAlone) {
  const Source result = {.register_number = 0};
  Probed probed(kIncrement, GetParam(), kSlots, 0, metrics(4), Gap::none,
                {{{},
                  {compared(result, Operation::less, 5), {}},
                  {compared(result, Operation::less, 3), result},
                  {{}, result}},
                 {}});
  auto* const increment = probed.function<long(long)>();
  for (long i = 0; i < 10; ++i) ASSERT_EQ(increment(i), i + 1);
  EXPECT_EQ(probed.histogram(0).count(), 10u);
  EXPECT_EQ(probed.histogram(1).count(), 4u);
  EXPECT_EQ(probed.histogram(2).count(), 2u);
  EXPECT_EQ(probed.histogram(2).sum(), 3);
  EXPECT_EQ(probed.histogram(3).count(), 10u);
  EXPECT_EQ(probed.histogram(3).sum(), 55);
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Returns, KnowTheTimeThatIsRecorded) {
  constexpr uint64_t kLimit = 1 << 20;
  const Source time = of_call();
  Probed probed(kCallBack, GetParam(), kSlots, 0, metrics(4), Gap::none,
                {{{},
                  {{}, time},
                  {compared(time, Operation::less, kLimit), {}},
                  {Expression({{.source = time},
                               {.source = number(kLimit)},
                               {.operation = Operation::less_or_equal, .left = 1, .right = 0}}),
                   time}},
                 {}});
  auto* const call = probed.function<long(long (*)(long), long)>();
  const auto take_time = [](long ns) {
    for (const uint64_t begin = monotonic_ns(); monotonic_ns() - begin < static_cast<uint64_t>(ns);)
      continue;
    return ns;
  };
  for (int i = 0; i < 20; ++i)
    for (const long ns : {1L, 1L << 21}) ASSERT_EQ(call(take_time, ns), ns);
  const auto all = probed.histogram(0);
  EXPECT_EQ(all.count(), 40u);
  const auto cells_of = [](const stats::Histogram& histogram) {
    std::vector<uint64_t> counts;
    for (const stats::Cell& cell : histogram.cells()) counts.push_back(cell.count);
    return counts;
  };
  EXPECT_EQ(cells_of(probed.histogram(1)), cells_of(all));
  EXPECT_EQ(probed.histogram(1).sum(), all.sum());
  const auto fast = probed.histogram(2), slow = probed.histogram(3);
  EXPECT_EQ(fast.count() + slow.count(), 40u);
  EXPECT_GE(slow.count(), 20u);
  EXPECT_GE(fast.count(), 1u);
  EXPECT_LT(fast.maximum(), kLimit);
  EXPECT_GE(slow.quantile(0), kLimit);
}

TEST_P(Returns, KnowWhatEachCallOfARecursionHadAtItsEntry) {
  static Probed* probed;
  // What rsi was at the entry, and the product of both: at the return it has another value.
  const Source second = of_call(1);
  Probed own(kCallBack, GetParam(), kSlots, 0, metrics(2), Gap::none,
             {{{{}, second}, {compared(second, Operation::less, 10), second}}, {kRdi, kRsi}});
  probed = &own;
  static long (*const descend)(long) = [](long depth) {
    if (depth == 0) return 0L;
    return depth + probed->function<long(long (*)(long), long)>()(descend, depth - 1);
  };
  EXPECT_EQ(descend(30), 30 * 31 / 2);
  EXPECT_EQ(own.histogram(0).count(), 30u);
  EXPECT_EQ(own.histogram(0).sum(), 29 * 30 / 2);
  EXPECT_EQ(own.histogram(1).count(), 10u);
  EXPECT_EQ(own.histogram(1).sum(), 45);
  EXPECT_EQ(own.slots_in_use(), 0u);
}

TEST_P(Returns, OfCallsWithoutASlotAreMissedAndKeepNothing) {
  static Probed* probed;
  Probed own(kCallBack, GetParam(), 1, 0, metrics(1), Gap::none,
             {{{{}, of_call(1)}}, {kRdi, kRsi}});
  probed = &own;
  const auto again = [](long value) {
    const auto increment = [](long of) { return of + 1; };
    return probed->function<long(long (*)(long), long)>()(increment, 1000 + value);
  };
  auto* const call = own.function<long(long (*)(long), long)>();
  for (long i = 0; i < 10; ++i) ASSERT_EQ(call(again, i), 1001 + i);
  EXPECT_EQ(own.missed(), 10u);
  EXPECT_EQ(own.histogram().count(), 10u);
  EXPECT_EQ(own.histogram().sum(), 45);
}

TEST_P(Returns, OfCallsThatAreLeftAreNone) {
  Probed own(kCallBack, GetParam(), kSlots, 0, metrics(1), Gap::none,
             {{{{}, of_call(1)}}, {kRdi, kRsi}});
  auto* const call = own.function<long(long (*)(long), long)>();
  for (uint64_t i = 0; i < 10 * kSlots; ++i) {
    leave_by_longjmp(own);
    ASSERT_EQ(call([](long value) { return value; }, 3), 3);
  }
  EXPECT_EQ(own.missed(), 0u);
  EXPECT_EQ(own.histogram().count(), 10 * kSlots);
  EXPECT_EQ(own.histogram().sum(), static_cast<double>(3 * 10 * kSlots));
}

TEST_P(Returns, OfSeveralThreadsLoseNothing) {
  Probed probed(kIncrement, GetParam(), kSlots, 0, metrics(2), Gap::none,
                {{{{}, of_call(0)},
                  {Expression({{.source = {.register_number = 0}},
                               {.source = of_call(0)},
                               {.source = number(1)},
                               {.operation = Operation::add, .left = 1, .right = 2},
                               {.operation = Operation::equal, .left = 0, .right = 3}}),
                   {}}},
                 {kRdi}});
  auto* const increment = probed.function<long(long)>();
  constexpr long kThreads = 4, kCalls = 50'000;
  std::vector<std::thread> threads;
  for (long t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (long i = 0; i < kCalls; ++i)
        if (increment(t) != t + 1) std::abort();
    });
  for (std::thread& one : threads) one.join();
  EXPECT_EQ(probed.histogram(0).count(), static_cast<uint64_t>(kThreads * kCalls));
  EXPECT_EQ(probed.histogram(0).sum(), kCalls * (0 + 1 + 2 + 3));
  EXPECT_EQ(probed.histogram(1).count(), static_cast<uint64_t>(kThreads * kCalls));
}

// Four threads call a function that returns its argument plus 1, by keys that are the argument's
// last digits. What is counted, added up and recorded by these keys is exact, in a table with room
// and in one without.
TEST_P(Returns, ByKeysOfSeveralThreadsLoseNothing) {
  constexpr uint64_t kThreads = 4, kCalls = 20'000, kEach = 100;
  const Source argument = of_call(0);
  const Expression key(
      {{.source = argument},
       {.source = number(kEach)},
       {.operation = Operation::remainder, .is_signed = false, .left = 0, .right = 1}});
  for (const uint32_t log2 : {10, 4}) {
    const AtReturn counts = {.key = key, .rest = Probed::rest(0)};
    const AtReturn adds = {.value = argument, .key = key, .rest = Probed::rest(1)};
    const AtReturn records = {.value = argument, .key = key};
    const AtReturn times = {.key = key};
    Probed probed(kIncrement, GetParam(), kSlots, 0, metrics(5), Gap::none,
                  {{counts, adds, records, times, {}}, {kRdi}, log2});
    auto* const increment = probed.function<uint64_t(uint64_t)>();
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (uint64_t i = 0; i < kCalls; ++i)
          if (increment(i) != i + 1) std::abort();
      });
    for (std::thread& one : threads) one.join();
    const uint64_t hits = kThreads * kCalls / kEach;
    const auto sum_of = [&](uint64_t of) {
      return kThreads * (kEach * (kCalls / kEach) * (kCalls / kEach - 1) / 2 + kCalls / kEach * of);
    };
    const auto counted = probed.counted(), added = probed.added_up();
    const auto recorded = probed.histograms();
    const bool has_room = log2 == 10;
    uint64_t hits_without_room = 0;
    for (const size_t metric : {0, 1}) {
      uint64_t rest = 0, sum_of_rest = 0;
      for (uint64_t digits = 0; digits < kEach; ++digits) {
        const std::pair of(Probed::rest(metric), digits);
        const uint64_t counts_of_key = counted.contains(of) ? counted.at(of) : 0;
        ASSERT_LE(counts_of_key, hits);
        if (has_room) {
          ASSERT_EQ(counts_of_key, hits);
        }
        rest += hits - counts_of_key;
        if (metric == 0) continue;
        const uint64_t sum_of_key = added.contains(of) ? added.at(of) : 0;
        if (has_room) {
          ASSERT_EQ(sum_of_key, sum_of(digits));
        }
        sum_of_rest += sum_of(digits) - sum_of_key;
      }
      EXPECT_EQ(probed.word(Probed::rest(metric)), rest);
      if (metric == 1) {
        EXPECT_EQ(probed.sum_of_rest(metric), sum_of_rest);
      }
      hits_without_room += rest;
    }
    for (const size_t metric : {2, 3}) {
      const uint64_t owner = metric * sizeof(layout::TimeCounters);
      uint64_t count = probed.histogram(metric).count();
      hits_without_room += count;
      for (uint64_t digits = 0; digits < kEach; ++digits) {
        const auto one = recorded.find({owner, digits});
        if (one == recorded.end()) continue;
        count += one->second.count();
        if (!has_room) continue;
        ASSERT_EQ(one->second.count(), hits);
        if (metric == 2) {
          ASSERT_EQ(one->second.sum(), static_cast<double>(sum_of(digits)));
        }
      }
      EXPECT_EQ(count, kThreads * kCalls);
      EXPECT_EQ(probed.missed(metric), 0u);
    }
    EXPECT_EQ(hits_without_room != 0, !has_room);
    EXPECT_EQ(probed.histogram(4).count(), kThreads * kCalls) << "the call without a key";
    EXPECT_EQ(probed.slots_in_use(), 0u);
  }
}

TEST_P(Returns, ByAKeyAreThoseThatTheirConditionAccepts) {
  const AtReturn counts = {.condition = result_is(8), .key = number(3), .rest = Probed::rest(0)};
  Probed probed(kIncrement, GetParam(), kSlots, 0, {kBits}, Gap::none, {{counts}, {}, 4});
  auto* const increment = probed.function<long(long)>();
  for (long i = 0; i < 100; ++i) ASSERT_EQ(increment(i % 10), i % 10 + 1);
  EXPECT_EQ(probed.counted(), (Probed::ByKey{{{Probed::rest(0), 3}, 10}}));
  probed.empty_tables();
  EXPECT_EQ(increment(7), 8);
  EXPECT_EQ(probed.counted(), (Probed::ByKey{{{Probed::rest(0), 3}, 10}})) << "in a child";
}

// not %rdi; not %r9; ret: at the return, both are others than at the entry.
const std::vector<uint8_t> kInverts = {0x48, 0xf7, 0xd7, 0x49, 0xf7, 0xd1, 0xc3};
constexpr uint8_t kRcx = 1;

// A call is recorded if the expression has exactly the value that the interpreter computes, and the
// result is recorded as such. Nothing that the program could see is different.
TEST_P(Returns, ComputeAsAnInterpreterDoesAndChangeNothingElse) {
  const char* const wanted = std::getenv("PINPRICK_EXPRESSIONS");
  const size_t tries = wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 500;
  std::mt19937_64 random{271828};  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same each time
  arch::Sandbox sandbox;
  arch::Generator generator(random, sandbox);
  for (size_t i = 0; i < tries; ++i) {
    arch::MachineState start = generator.state();
    arch::fill_randomly(sandbox.memory(), random);
    sandbox.set_word(start[Reg::rsp], sandbox.home());
    // The result, as the call has left it in its register.
    arch::MachineState after = start;
    after[Reg::rsp] += 8;
    for (const Reg reg : {Reg::rdi, Reg::r9}) after[reg] = ~start[reg];
    // rcx is in use where registers are kept.
    const uint8_t other = i % 2 == 0 ? kR9 : kRcx;
    const arch::Program program = {after, sandbox, {start[Reg::rdi], start.general[other]}};
    const Expression value = generator.expression(after, arch::StackUse::at_entry, 24, true);
    const uint64_t expected = arch::result_of(value, value.steps.back(), program);
    const auto equals = [&](uint64_t what) {
      Expression condition = value;
      condition.steps.push_back({.source = number(what)});
      const auto last = static_cast<uint16_t>(condition.steps.size() - 1);
      condition.steps.push_back(
          {.operation = Operation::equal, .left = static_cast<uint16_t>(last - 1), .right = last});
      return condition;
    };
    Probed probed(kInverts, GetParam(), 4, 0, metrics(4), Gap::none,
                  {{{equals(expected), {}}, {equals(expected + 1), {}}, {{}, value}, {value, {}}},
                   {kRdi, other}});
    const Bytes memory(sandbox.memory().begin(), sandbox.memory().end());
    start.rip = reinterpret_cast<Address>(probed.original<void()>());
    sandbox.place_home({});
    const arch::Outcome plain = sandbox.run(start);
    const Bytes memory_plain(sandbox.memory().begin(), sandbox.memory().end());
    std::copy(memory.begin(), memory.end(), sandbox.memory().begin());
    start.rip = reinterpret_cast<Address>(probed.function<void()>());
    const arch::Outcome through_probe = sandbox.run(start);
    ASSERT_EQ(plain.signal, 0);
    ASSERT_EQ(arch::difference_of(plain, through_probe), "") << "expression " << i;
    const auto above = static_cast<long>(start[Reg::rsp] + 8 - sandbox.data());
    ASSERT_TRUE(std::equal(memory_plain.begin() + above, memory_plain.end(),
                           sandbox.memory().begin() + above));
    const auto shown = [&] { return arch::shown(value, program); };
    ASSERT_EQ(probed.histogram(0).count(), 1u) << shown();
    ASSERT_EQ(probed.histogram(1).count(), 0u) << shown();
    stats::Histogram recorded(kBits);
    recorded.record(expected);
    ASSERT_EQ(probed.histogram(2).maximum(), recorded.maximum()) << shown();
    ASSERT_EQ(probed.histogram(3).count(), expected != 0 ? 1u : 0u) << shown();
  }
}

}  // namespace
}  // namespace pinprick::runtime
