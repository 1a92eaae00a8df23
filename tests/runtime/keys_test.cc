// Hits that are counted by keys, in this process, against what the threads have counted themselves.
#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "probed_function.h"

namespace pinprick::runtime {
namespace {

using Counts = std::map<std::pair<uint64_t, uint64_t>, uint64_t>;  // by probe and key

using layout::Extremes;
using layout::NumberOrder;

// Two functions that return their first argument, each counted by it. The second argument is added
// up, of the second function alone. With an order, its extremes are kept.
class Keyed {
 public:
  static constexpr uint64_t kProbes = 2;

  Keyed(Path path, uint32_t log2, std::optional<NumberOrder> order = std::nullopt)
      : cpus_(std::max(2u, std::thread::hardware_concurrency())),
        keys_(layout::key_entries(log2)),
        area_size_(2 * align_up((kProbes + keys_.size()) * sizeof(uint64_t), 64)),
        areas_((cpus_ + 1) * area_size_ / sizeof(uint64_t)),
        extremes_(3 * table_size()),
        order_(order),
        extent_(runtime_extent(1, cpus_)),
        runtime_memory_(extent_.size()),
        stub_memory_(65536) {
    RuntimeSpec spec;
    spec.slot_count = spec.capacity = 1;
    spec.cpu_count = cpus_;
    if (path != Path::locked) spec.rseq = own_rseq();
    if (path == Path::shared) spec.area_count = 1;
    spec.ns_multiplier = uint64_t{1} << 32;
    spec.areas = reinterpret_cast<Address>(areas_.data());
    spec.area_size = area_size_;
    spec.keys = reinterpret_cast<Address>(keys_.data());
    spec.key_log2 = log2;
    spec.key_counters = kProbes * sizeof(uint64_t);
    spec.key_sums = area_size_ / 2;
    spec.extremes = reinterpret_cast<Address>(extremes_.data());
    spec.extremes_size = table_size() * sizeof(Extremes);
    spec.interval = reinterpret_cast<Address>(&interval_);
    const auto runtime = build_runtime(runtime_memory_.address(), spec);
    EXPECT_TRUE(runtime.has_value());
    for (const Piece& piece : runtime->pieces)
      runtime_memory_.write(piece.address - runtime_memory_.address(), piece.bytes);
    runtime_memory_.seal(extent_.data_size);
    write_stubs(spec, *runtime);
  }

  uint64_t call(uint64_t probe, uint64_t key, uint64_t number = 0) {
    return stub_memory_.function<uint64_t(uint64_t, uint64_t)>(entries_[probe])(key, number);
  }
  // Passes a floating-point number, too, and returns what its register has afterwards.
  double call_with_real(uint64_t probe, uint64_t key, uint64_t number, double real) {
    return stub_memory_.function<double(uint64_t, uint64_t, double)>(entries_[probe])(key, number,
                                                                                      real);
  }
  // What all areas have, in which a key may have several entries.
  Counts counts() const { return by_key(0); }
  Counts sums() const { return by_key(area_size_ / 2 / sizeof(uint64_t)); }
  // What each area has for each entry of the second function's key.
  std::vector<uint64_t> sums_of(uint64_t key) const {
    std::vector<uint64_t> all;
    for (size_t i = 0; i < keys_.size(); ++i)
      if (keys_[i].owner != 0 && keys_[i].value == key)
        for (uint64_t area = 0; area <= cpus_; ++area)
          all.push_back(areas_[(area * 2 + 1) * area_size_ / 2 / sizeof(uint64_t) + kProbes + i]);
    return all;
  }
  uint64_t sum_without_room(uint64_t probe) const {
    return sum(probe + area_size_ / 2 / sizeof(uint64_t));
  }
  uint64_t without_room(uint64_t probe) const { return sum(probe); }
  // Of the whole time, or of intervals with even or odd numbers.
  enum class Of : uint8_t { whole, even, odd };
  std::map<uint64_t, Extremes> extremes(Of of) const {
    std::map<uint64_t, Extremes> all;
    for (size_t i = 0; i < keys_.size(); ++i)
      if (const Extremes& one = extremes_at(of, kProbes + i); !one.empty())
        all[keys_[i].value].add(one);
    return all;
  }
  const Extremes& extremes_at(Of of, uint64_t counter) const {
    return extremes_[static_cast<size_t>(of) * table_size() + counter];
  }
  void start_interval(uint64_t number) { interval_ = number; }
  std::vector<layout::KeyEntry>& keys() { return keys_; }
  layout::RuntimeContext& context() {
    return *reinterpret_cast<layout::RuntimeContext*>(runtime_memory_.data() + extent_.data_size -
                                                      sizeof(layout::RuntimeContext));
  }

 private:
  static constexpr uint64_t kCode = 32768;
  // mov %rdi, %rax; ret; nop
  static constexpr uint8_t kReturnsArgument[] = {0x48, 0x89, 0xf8, 0xc3, 0x90};

  void write_stubs(const RuntimeSpec& spec, const RuntimeImage& runtime) {
    arch::Assembler code(stub_memory_.address());
    arch::ArenaSpec arena;
    arena.size = stub_memory_.size();
    arena.routines.key = runtime.key;
    arena.routines.sum = runtime.key_sum;
    arena.routines.extremes = runtime.key_extremes;
    arena.locked_areas = locked_areas(spec);
    const auto cpus = cpu_areas(spec);
    arena.cpu_areas = cpus;
    const auto entries = arch::emit_arena_header(code, arena);
    for (uint32_t probe = 0; probe < kProbes; ++probe) {
      constexpr uint8_t kRsi = 6, kRdi = 7;
      arch::CountByKey count = {static_cast<uint32_t>(layout::counter_offset(probe)),
                                arch::Source{kRdi}};
      if (probe == 1) count.sum = arch::Source{kRsi};
      if (probe == 1) count.extremes = order_;
      const arch::StubAction counts = {.what = count};
      const Address function = stub_memory_.address() + kCode + probe * 64;
      code.align(8, 0xcc);
      const auto stub =
          arch::emit_stub(code, entries, {.actions = {&counts, 1}}, {function, kReturnsArgument});
      entries_[probe] = stub.begin - stub_memory_.address();
      stub_memory_.write(kCode + probe * 64, kReturnsArgument);
    }
    const auto bytes = code.finish();
    EXPECT_TRUE(bytes.has_value());
    stub_memory_.write(0, *bytes);
    stub_memory_.seal();
  }
  Counts by_key(uint64_t from) const {
    Counts all;
    for (size_t i = 0; i < keys_.size(); ++i)
      if (const uint64_t figure = sum(from + kProbes + i); figure != 0)
        all[{(keys_[i].owner - 1) / sizeof(uint64_t), keys_[i].value}] += figure;
    return all;
  }
  uint64_t sum(uint64_t counter) const {
    uint64_t sum = 0;
    for (uint64_t area = 0; area <= cpus_; ++area)
      sum += areas_[area * area_size_ / sizeof(uint64_t) + counter];
    return sum;
  }

  size_t table_size() const { return area_size_ / 2 / sizeof(uint64_t); }

  uint32_t cpus_;
  std::vector<layout::KeyEntry> keys_;
  uint64_t area_size_;
  std::vector<uint64_t> areas_;
  std::vector<Extremes> extremes_;
  std::optional<NumberOrder> order_;
  uint64_t interval_ = 0;
  RuntimeExtent extent_;
  ExecutableMemory runtime_memory_;
  ExecutableMemory stub_memory_;
  uint64_t entries_[kProbes] = {};
};

class Keys : public OnEachPath {};

// Calls on four threads, with keys that `choose` makes of a random number. Returns how often each
// was called.
template <class Choose>
Counts call_on_threads(Keyed& program, int calls, Choose choose) {
  std::vector<Counts> called(4);
  std::vector<std::thread> threads;
  std::atomic<int> ready = 0;
  for (size_t t = 0; t < called.size(); ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      ++ready;
      while (ready < static_cast<int>(called.size())) {
      }
      for (int i = 0; i < calls; ++i) {
        const uint64_t probe = random() % Keyed::kProbes, key = choose(random());
        ASSERT_EQ(program.call(probe, key, 3 * key - 7), key);
        ++called[t][{probe, key}];
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 1; t < called.size(); ++t)
    for (const auto& [key, hits] : called[t]) called[0][key] += hits;
  return called[0];
}

TEST_P(Keys, OfTwoProbesOnFourThreadsAreEachCountedExactly) {
  Keyed program(GetParam(), 12);
  constexpr uint64_t kValues[] = {0, UINT64_MAX, uint64_t{1} << 63, 1, 0xdeadbeef00000000};
  const Counts called = call_on_threads(program, 100'000, [&](uint64_t random) {
    return random % 3 == 0 ? kValues[random / 3 % std::size(kValues)] : random / 3 % 700;
  });
  EXPECT_EQ(program.counts(), called);
  for (uint64_t probe = 0; probe < Keyed::kProbes; ++probe)
    EXPECT_EQ(program.without_room(probe), 0u);
}

// Numbers in steps, as pointers and sizes are, must not all want the same few entries.
TEST_P(Keys, InStepsOfAnyPowerOfTwoFindRoomInAHalfFullTable) {
  for (unsigned step = 0; step < 54; ++step) {
    Keyed program(GetParam(), 10);
    Counts called;
    for (uint64_t i = 0; i < 512; ++i) {
      program.call(0, i << step);
      ++called[{0, i << step}];
    }
    EXPECT_EQ(program.counts(), called) << step;
  }
}

TEST_P(Keys, ThatFindNoRoomAreCountedForTheirProbe) {
  Keyed program(GetParam(), 5);
  Counts called = call_on_threads(program, 20'000, [](uint64_t random) { return random % 1000; });
  const Counts counted = program.counts();
  EXPECT_EQ(counted.size(), program.keys().size()) << "the table is full";
  for (uint64_t probe = 0; probe < Keyed::kProbes; ++probe) {
    uint64_t others = 0;
    for (const auto& [key, hits] : called)
      if (key.first == probe) others += hits - (counted.contains(key) ? counted.at(key) : 0);
    EXPECT_NE(others, 0u);
    EXPECT_EQ(program.without_room(probe), others);
  }
}

TEST_P(Keys, HaveTheSumsOfTheirHits) {
  for (const uint32_t log2 : {12, 4}) {
    Keyed program(GetParam(), log2);
    const Counts called =
        call_on_threads(program, 50'000, [](uint64_t random) { return random % 500; });
    // Each call has added 3 times its key, less 7.
    const Counts counts = program.counts(), sums = program.sums();
    uint64_t others = 0;
    for (const auto& [key, hits] : called) {
      const uint64_t counted = counts.contains(key) ? counts.at(key) : 0;
      if (key.first == 0) {
        EXPECT_FALSE(sums.contains(key));
        continue;
      }
      const uint64_t number = 3 * key.second - 7;
      if (counted != 0) {
        EXPECT_EQ(sums.at(key), counted * number) << key.second;
      }
      others += (hits - counted) * number;
    }
    EXPECT_EQ(program.sum_without_room(1), others);
    EXPECT_EQ(program.sum_without_room(0), 0u);
    EXPECT_EQ(others != 0, log2 == 4);
  }
}

bool is_less(uint64_t a, uint64_t b, NumberOrder order) {
  return order == NumberOrder::with_sign ? static_cast<int64_t>(a) < static_cast<int64_t>(b)
                                         : a < b;
}

struct Pair {
  uint64_t least = 0, greatest = 0;
  uint64_t sum = 0;
};

void note(std::map<uint64_t, Pair>& all, uint64_t key, const Pair& one, NumberOrder order) {
  const auto [at, is_new] = all.try_emplace(key, one);
  if (is_new) return;
  if (is_less(one.least, at->second.least, order)) at->second.least = one.least;
  if (is_less(at->second.greatest, one.greatest, order)) at->second.greatest = one.greatest;
  at->second.sum += one.sum;
}

std::map<uint64_t, Pair> add_random_numbers(Keyed& program, NumberOrder order, unsigned seed) {
  std::vector<std::map<uint64_t, Pair>> added(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < added.size(); ++t)
    threads.emplace_back([&, t] {
      constexpr uint64_t kAtEnds[] = {0, UINT64_MAX, uint64_t{1} << 63, (uint64_t{1} << 63) - 1};
      std::mt19937_64 random(seed + t);
      for (int i = 0; i < 20'000; ++i) {
        const uint64_t key = random() % 300;
        const uint64_t number = key == 7 ? kAtEnds[random() % 4] : random() >> random() % 64;
        program.call(1, key, number);
        note(added[t], key, {number, number, number}, order);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 1; t < added.size(); ++t)
    for (const auto& [key, one] : added[t]) note(added[0], key, one, order);
  return added[0];
}

void expect_same(const std::map<uint64_t, Extremes>& kept, const std::map<uint64_t, Pair>& known,
                 NumberOrder order) {
  ASSERT_EQ(kept.size(), known.size());
  for (const auto& [key, one] : known) {
    EXPECT_EQ(kept.at(key).least(order), one.least) << key;
    EXPECT_EQ(kept.at(key).greatest(order), one.greatest) << key;
  }
}

TEST_P(Keys, KeepTheLeastAndTheGreatestNumberOfTheWholeTimeAndOfEachInterval) {
  for (const NumberOrder order : {NumberOrder::with_sign, NumberOrder::without_sign}) {
    Keyed program(GetParam(), 12, order);
    const auto first = add_random_numbers(program, order, 1);
    program.start_interval(1);
    const auto second = add_random_numbers(program, order, 2);
    expect_same(program.extremes(Keyed::Of::even), first, order);
    expect_same(program.extremes(Keyed::Of::odd), second, order);
    auto all = first;
    for (const auto& [key, one] : second) note(all, key, one, order);
    expect_same(program.extremes(Keyed::Of::whole), all, order);
    const Counts sums = program.sums();
    for (const auto& [key, one] : all) {
      EXPECT_EQ(sums.at({1, key}), one.sum);
    }
    EXPECT_TRUE(program.extremes_at(Keyed::Of::whole, 0).empty()) << "of the other function";
  }
}

// What areas have for a key, as the reader adds it up.
double real_sum(const Keyed& program, uint64_t key) {
  double sum = 0;
  for (const uint64_t bits : program.sums_of(key)) sum += std::bit_cast<double>(bits);
  return sum;
}

TEST_P(Keys, AddUpFloatingPointNumbersOfAllThreads) {
  constexpr NumberOrder kOrder = NumberOrder::real;
  Keyed program(GetParam(), 12, kOrder);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      // Quarters, so that no order of the additions rounds.
      for (int i = 0; i < 20'000; ++i)
        program.call(1, static_cast<uint64_t>(i % 3), std::bit_cast<uint64_t>(i * 0.25 - t * 2000));
    });
  for (std::thread& thread : threads) thread.join();
  const auto extremes = program.extremes(Keyed::Of::whole);
  for (int key = 0; key < 3; ++key) {
    double sum = 0;
    uint64_t hits = 0;
    for (int t = 0; t < 4; ++t)
      for (int i = key; i < 20'000; i += 3) {
        sum += i * 0.25 - t * 2000;
        ++hits;
      }
    const auto at = static_cast<uint64_t>(key);
    EXPECT_EQ(real_sum(program, at), sum);
    EXPECT_EQ(program.counts().at({1, at}), hits);
    EXPECT_EQ(std::bit_cast<double>(extremes.at(at).least(kOrder)), key * 0.25 - 6000);
    const int last = 19'999 - (19'999 - key) % 3;
    EXPECT_EQ(std::bit_cast<double>(extremes.at(at).greatest(kOrder)), last * 0.25);
  }
}

TEST_P(Keys, WithoutANumberAreNeitherTheLeastNorTheGreatest) {
  constexpr NumberOrder kOrder = NumberOrder::real;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Keyed program(GetParam(), 12, kOrder);
  for (const double number : {-0.0, 1.5, -kInfinity, std::numeric_limits<double>::quiet_NaN(),
                              -std::numeric_limits<double>::quiet_NaN(), kInfinity})
    program.call(1, 7, std::bit_cast<uint64_t>(number));
  const Extremes extremes = program.extremes(Keyed::Of::whole).at(7);
  EXPECT_EQ(std::bit_cast<double>(extremes.least(kOrder)), -kInfinity);
  EXPECT_EQ(std::bit_cast<double>(extremes.greatest(kOrder)), kInfinity);
  EXPECT_TRUE(std::isnan(real_sum(program, 7)));
  EXPECT_EQ(program.counts().at({1, 7}), 6u);
}

TEST_P(Keys, WhoseFloatingPointNumbersAreAddedLeaveTheProgramsVectorRegistersAndControlWord) {
  Keyed program(GetParam(), 12, NumberOrder::real);
  const unsigned before = _mm_getcsr();
  // Rounds up, raises invalid operations, and takes small numbers for 0.
  constexpr unsigned kStrange = 0x1f80 - 0x80 + 0x4000 + 0x8040;
  _mm_setcsr(kStrange);
  const double kept = program.call_with_real(1, 3, std::bit_cast<uint64_t>(0.1), 42.5);
  const double again = program.call_with_real(
      1, 3, std::bit_cast<uint64_t>(std::numeric_limits<double>::signaling_NaN()), -1.25);
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after, kStrange);
  EXPECT_EQ(kept, 42.5);
  EXPECT_EQ(again, -1.25);
}

TEST_P(Keys, ThatFindNoRoomHaveTheExtremesOfTheirProbe) {
  constexpr NumberOrder kOrder = NumberOrder::with_sign;
  Keyed program(GetParam(), 0, kOrder);
  for (uint64_t key = 0; key < 1000; ++key) program.call(1, key, key - 500);
  const Extremes& others = program.extremes_at(Keyed::Of::whole, 1);
  ASSERT_FALSE(others.empty());
  EXPECT_EQ(others.greatest(kOrder), 499u);
  uint64_t in_table = 0;
  for (const auto& [key, one] : program.extremes(Keyed::Of::whole)) {
    EXPECT_EQ(one.least(kOrder), key - 500);
    EXPECT_EQ(one.greatest(kOrder), key - 500);
    ++in_table;
  }
  EXPECT_EQ(in_table, program.keys().size());
}

// A thread may end, or wait for long, while it fills an entry.
TEST_P(Keys, PassByEntriesThatOthersFill) {
  Keyed program(GetParam(), 0);
  program.keys()[0].owner = 1 + PP_KEY_FILLING;
  program.call(0, 5);
  program.call(0, 5);
  EXPECT_EQ(program.keys()[0].owner, 1u + PP_KEY_FILLING);
  EXPECT_EQ(program.counts(), (Counts{{{0, 5}, 2}}));
}

TEST_P(Keys, AreNotEnteredNorCountedInAChildThatMustNotCount) {
  Keyed program(GetParam(), 4);
  uint8_t* const context = reinterpret_cast<uint8_t*>(&program.context());
  std::fill(context + layout::kAreaTablesBegin, context + layout::kAreaTablesEnd, uint8_t{0});
  EXPECT_EQ(program.call(1, 5), 5u);
  EXPECT_TRUE(program.counts().empty());
  EXPECT_EQ(program.without_room(1), 0u);
  for (const layout::KeyEntry& entry : program.keys()) EXPECT_EQ(entry.owner, 0u);
}

INSTANTIATE_TEST_SUITE_P(Paths, Keys, kPaths, name_of_path);

}  // namespace
}  // namespace pinprick::runtime
