// Runs the runtime of return probes in this process: stubs, slots and histograms in the test's
// memory, and functions that check the results of their calls.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <ucontext.h>

#include <atomic>
#include <barrier>
#include <csetjmp>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "call_with_registers.h"
#include "executable_memory.h"
#include "layout/session_file.h"
#include "own_thread.h"
#include "runtime/image.h"
#include "stats/histogram.h"

namespace pinprick::runtime {
namespace {

constexpr unsigned kBits = 3;
constexpr uint64_t kBlock = layout::histogram_size(kBits);
constexpr uint64_t kSlots = 64;

// By locked instructions; by restartable sequences; with sequences for slots and locked counters,
// as there are fewer areas than CPUs; or on a thread without an area where others have one.
enum class Path : uint8_t { locked, rseq, shared, unregistered };

using layout::Gap;

// A probed function with the code `code`, entered through a return probe's stub.
class Probed {
 public:
  Probed(std::vector<uint8_t> code, Path path, uint64_t slots = kSlots, uint64_t capacity = 0,
         std::vector<unsigned> bits = {kBits}, Gap gap = Gap::none)
      : gap_(gap),
        cpus_(std::max(2u, std::thread::hardware_concurrency())),
        bits_(std::move(bits)),
        areas_(((cpus_ + 1) * kAreaSize + PP_POOL_BLOCKS + size_of_blocks()) / 8),
        extent_(runtime_extent(std::max(slots, capacity), cpus_, 0, kSpans)),
        runtime_memory_(extent_.size()),
        stub_memory_(65536) {
    RuntimeSpec& spec = spec_;
    spec.slot_count = slots;
    spec.capacity = std::max(slots, capacity);
    spec.cpu_count = cpus_;
    spec.most_fraction_bits = *std::max_element(bits_.begin(), bits_.end());
    if (path != Path::locked) spec.rseq = own_rseq();
    if (path == Path::shared) spec.area_count = 1;
    spec.ns_multiplier = ns_multiplier();
    spec.spans = kSpans;
    spec.thread_pointer = thread_pointer_here();
    spec.tid_offset = tid_offset();
    spec.areas = reinterpret_cast<Address>(areas_.data());
    spec.area_size = kAreaSize;
    spec.blocks = {spec.areas + (cpus_ + 1) * kAreaSize,
                   spec.areas + areas_.size() * sizeof areas_[0]};
    spec.has_pool = true;
    allow_blocks(cpus_ + 1, cpus_);
    if (bits_.size() > 1) allow_blocks(1000, 1000);
    const auto runtime = build_runtime(runtime_memory_.address(), spec);
    EXPECT_TRUE(runtime.has_value());
    write(runtime->pieces);
    runtime_memory_.seal(extent_.data_size);

    // The function's code lies at the end of the page, and is displaced as a whole.
    arch::Assembler code_at(stub_memory_.address());
    arch::ArenaSpec arena;
    arena.size = stub_memory_.size();
    arena.enter = gap == Gap::none ? runtime->enter : runtime->span;
    arena.locked_areas = locked_areas(spec);
    const auto cpus = cpu_areas(spec);
    arena.cpu_areas = cpus;
    const auto entries = arch::emit_arena_header(code_at, arena);
    std::vector<arch::Metric> metrics;
    for (unsigned one : bits_)
      metrics.push_back({metrics.size() * sizeof(layout::TimeCounters), one});
    std::vector<arch::StubAction> actions = gap_ends(metrics);
    actions.push_back({.what = times(metrics, runtime->enter)});
    copy_address_ = stub_memory_.address() + 32768;
    const auto placed =
        arch::emit_stub(code_at, entries, {.actions = actions}, {copy_address_, code});
    entry_offset_ = placed.begin - stub_memory_.address();
    const auto bytes = code_at.finish();
    EXPECT_TRUE(bytes.has_value());
    stub_memory_.write(0, *bytes);
    stub_memory_.write(32768, code);
    stub_memory_.seal();
  }

  Probed(const Probed&) = delete;
  Probed& operator=(const Probed&) = delete;

  // Adds slots, as the controller does when they run short.
  void add_slots(uint64_t count) {
    const uint64_t first = std::exchange(spec_.slot_count, spec_.slot_count + count);
    write(*build_slots(runtime_memory_.address(), spec_, first));
    auto* context = reinterpret_cast<layout::RuntimeContext*>(
        runtime_memory_.data() + extent_.data_size - sizeof(layout::RuntimeContext));
    std::atomic_ref(context->fresh_limit) = spec_.slot_count;
  }

  template <class F>
  F* function() {
    return stub_memory_.function<F>(entry_offset_);
  }
  stats::Histogram histogram(size_t metric = 0) const {
    stats::Histogram sum(bits_[metric]);
    for (uint64_t area = 0; area <= cpus_; ++area) {
      const uint64_t offset = counters_of(area, metric).block;
      if (offset == 0) continue;
      const auto* cells = reinterpret_cast<const stats::Cell*>(spec_.blocks.begin + offset);
      for (uint32_t slot = 0; slot < stats::slot_count(sum.bits()); ++slot)
        sum.add(slot, cells[slot]);
    }
    return sum;
  }
  layout::PoolHeader& pool() { return *reinterpret_cast<layout::PoolHeader*>(spec_.blocks.begin); }
  // As other processes might that can write the counters.
  void put_blocks(uint64_t offset) {
    for (uint64_t area = 0; area <= cpus_; ++area)
      const_cast<layout::TimeCounters&>(counters_of(area)).block = offset;
  }
  uint64_t offset_of(const void* address) const {
    return reinterpret_cast<Address>(address) - spec_.blocks.begin;
  }
  uint64_t end_of_pool() const { return spec_.blocks.size(); }
  // How many of them per-CPU areas may take.
  void allow_blocks(uint64_t limit, uint64_t own_limit) {
    std::atomic_ref(pool().own_limit) = own_limit * kBlock;
    std::atomic_ref(pool().limit) = limit * kBlock;
  }
  uint32_t cpus() const { return cpus_; }
  uint64_t areas_with_a_block() const {
    uint64_t n = 0;
    for (uint64_t area = 0; area <= cpus_; ++area) n += counters_of(area).block != 0;
    return n;
  }
  uint64_t missed(size_t metric = 0) const {
    uint64_t sum = 0;
    for (uint64_t area = 0; area <= cpus_; ++area) sum += counters_of(area, metric).missed;
    return sum;
  }
  uint64_t abandoned(size_t metric = 0) const { return counters_of(0, metric).abandoned; }
  // Of gaps: SpanCounters, in the place of TimeCounters.
  uint64_t unmatched_starts(size_t metric) const {
    static_assert(PP_COUNTERS_UNMATCHED == PP_COUNTERS_ABANDONED);
    uint64_t sum = 0;
    for (uint64_t area = 0; area <= cpus_; ++area) sum += counters_of(area, metric).abandoned;
    return sum;
  }
  // As the kernel does in a child that must not count.
  void empty_tables() {
    uint8_t* context = runtime_memory_.data() + extent_.data_size - sizeof(layout::RuntimeContext);
    std::memset(context + layout::kAreaTablesBegin, 0,
                layout::kAreaTablesEnd - layout::kAreaTablesBegin);
  }
  const layout::RuntimeContext& context() {
    return *reinterpret_cast<const layout::RuntimeContext*>(
        runtime_memory_.data() + extent_.data_size - sizeof(layout::RuntimeContext));
  }
  uint64_t slots_in_use() {
    uint64_t used = 0;
    for (uint64_t i = 0; i < spec_.slot_count; ++i) used += slots()[i].return_address != 0;
    return used;
  }
  // As a reset does: calls in flight are not to be recorded.
  void drop_calls() {
    for (uint64_t i = 0; i < spec_.slot_count; ++i)
      if (slots()[i].return_address != 0)
        std::atomic_ref(slots()[i].tsc) = static_cast<uint64_t>(PP_SLOT_TSC_DROPPED);
  }
  uint64_t* tsc_of_first_slot() { return &slots()[0].tsc; }
  // When the last call ended, for gaps of a CPU, in the areas where one did.
  std::vector<uint64_t> gaps_begun() const {
    std::vector<uint64_t> begun;
    for (uint64_t area = 0; area <= cpus_; ++area) {
      const uint64_t word =
          areas_[(area * kAreaSize + bits_.size() * sizeof(layout::TimeCounters)) / 8];
      if (word != 0) begun.push_back(word);
    }
    return begun;
  }
  // Makes the first slot, which may be in use, the whole global list and its own successor.
  void damage_list() {
    slots()[0].global_next = 1;
    const_cast<layout::RuntimeContext&>(context()).free_list = 1;
  }

 private:
  std::vector<arch::StubAction> gap_ends(const std::vector<arch::Metric>& metrics) const {
    if (gap_ == Gap::none) return {};
    const auto pass = gap_ == Gap::cpu ? layout::Pass::ends_gap_of_cpu : layout::Pass::ends;
    return {{.what = arch::PassSpan{metrics.back(), layout::span_start_offset(0), pass}}};
  }
  arch::TimeCall times(const std::vector<arch::Metric>& metrics, Address enter) const {
    if (gap_ == Gap::none) return {.metrics = metrics};
    const auto pass =
        gap_ == Gap::cpu ? layout::Pass::starts_gap_of_cpu : layout::Pass::starts_gap_of_thread;
    return {.metrics = std::span(metrics).first(metrics.size() - 1),
            .enter = enter,
            .gap = arch::PassSpan{metrics.back(), layout::span_start_offset(0), pass}};
  }
  layout::Slot* slots() { return reinterpret_cast<layout::Slot*>(runtime_memory_.data()); }
  const layout::TimeCounters& counters_of(uint64_t area, size_t metric = 0) const {
    return reinterpret_cast<const layout::TimeCounters*>(&areas_[area * kAreaSize / 8])[metric];
  }
  uint64_t size_of_blocks() const {
    uint64_t size = 0, largest = 0;
    for (unsigned one : bits_) {
      size += (cpus_ + 1) * layout::histogram_size(one);
      largest = std::max(largest, layout::histogram_size(one));
    }
    return size + (bits_.size() > 1 ? largest : 0);
  }
  // Through /proc, as into another process, since some of it is not writable.
  static void write(const std::vector<Piece>& pieces) {
    const auto memory = open_file("/proc/self/mem", O_RDWR);
    for (const Piece& piece : pieces)
      ASSERT_TRUE(write_at(memory->get(), piece.bytes, piece.address));
  }

  static constexpr uint64_t kAreaSize = kPageSize;
  static constexpr uint64_t kSpans = 1;  // for the gaps of threads

  RuntimeSpec spec_;
  Gap gap_;
  uint32_t cpus_;
  std::vector<unsigned> bits_;  // of each metric; the last is that of the gaps, if there are any
  std::vector<uint64_t> areas_;
  RuntimeExtent extent_;
  ExecutableMemory runtime_memory_;
  ExecutableMemory stub_memory_;
  Address copy_address_ = 0;
  uint64_t entry_offset_ = 0;
};

// lea 1(%rdi), %rax; ret
const std::vector<uint8_t> kIncrement = {0x48, 0x8d, 0x47, 0x01, 0xc3};

// long callback(long (*)(long), long): calls its first argument with its second, then returns.
//   sub $8,%rsp; mov %rdi,%rax; mov %rsi,%rdi; call *%rax; add $8,%rsp; ret
const std::vector<uint8_t> kCallBack = {0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0xf8, 0x48, 0x89,
                                        0xf7, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3};

class Slots : public testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    if (GetParam() != Path::locked && !own_rseq())
      GTEST_SKIP() << "this libc does not register rseq";
    if (GetParam() == Path::unregistered) unregistered_.emplace();
  }

 private:
  std::optional<Unregistered> unregistered_;
};
INSTANTIATE_TEST_SUITE_P(Paths, Slots,
                         testing::Values(Path::locked, Path::rseq, Path::shared,
                                         Path::unregistered),
                         [](const auto& path) {
                           return path.param == Path::locked   ? "locked"
                                  : path.param == Path::rseq   ? "rseq"
                                  : path.param == Path::shared ? "shared"
                                                               : "unregistered";
                         });

TEST_P(Slots, RecordEveryCallOnceAndAreAllGivenBack) {
  Probed probed(kIncrement, GetParam());
  auto* increment = probed.function<long(long)>();
  for (long i = 0; i < 10000; ++i) ASSERT_EQ(increment(i), i + 1);
  EXPECT_EQ(probed.histogram().count(), 10000u);
  EXPECT_EQ(probed.missed(), 0u);
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, RecordNothingWithEmptyTablesAndAreAllGivenBack) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam());
  probed = &own;
  struct Recurse {
    static long down(long depth) {
      if (depth == 0) return 0;
      return probed->function<long(long (*)(long), long)>()(&Recurse::down, depth - 1) + 1;
    }
  };
  own.empty_tables();
  EXPECT_EQ(Recurse::down(2 * kSlots), 2 * kSlots) << "some of them without a slot";
  EXPECT_EQ(own.histogram().count(), 0u);
  EXPECT_EQ(own.missed(), 0u);
  EXPECT_EQ(own.slots_in_use(), 0u);
}

TEST_P(Slots, LoseNothingWithSeveralThreads) {
  Probed probed(kIncrement, GetParam());
  auto* increment = probed.function<long(long)>();
  constexpr int kThreads = 8;
  constexpr long kCalls = 200000;
  std::atomic<long> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (long i = 0; i < kCalls; ++i)
        if (increment(i) != i + 1) ++wrong;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(probed.histogram().count() + probed.missed(), uint64_t{kThreads} * kCalls);
  EXPECT_EQ(probed.missed(), 0u);
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

// Several owners time one function: each has its own counters, and its own resolution of
// histograms.
const std::vector<unsigned> kSeveral = {3, 0, 5};

TEST_P(Slots, RecordACallInEachOfItsMetricsAndTimeItOnce) {
  Probed probed(kIncrement, GetParam(), kSlots, 0, kSeveral);
  auto* increment = probed.function<long(long)>();
  for (long i = 0; i < 10000; ++i) ASSERT_EQ(increment(i), i + 1);
  const stats::Histogram finest = probed.histogram(2);
  for (size_t metric = 0; metric < kSeveral.size(); ++metric) {
    EXPECT_EQ(probed.histogram(metric).count(), 10000u) << metric;
    EXPECT_EQ(probed.missed(metric), 0u) << metric;
    // The times are the same, so each cell of the finest lies within one of the coarser.
    stats::Histogram coarser(kSeveral[metric]);
    for (uint32_t slot = 0; slot < finest.cells().size(); ++slot)
      coarser.add(stats::slot_of(stats::slot_floor(slot, 5), kSeveral[metric]),
                  finest.cells()[slot]);
    for (uint32_t slot = 0; slot < coarser.cells().size(); ++slot)
      EXPECT_EQ(probed.histogram(metric).cells()[slot].count, coarser.cells()[slot].count)
          << metric << " " << slot;
  }
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, LoseNothingOfAnyMetricWithSeveralThreads) {
  Probed probed(kIncrement, GetParam(), kSlots, 0, kSeveral);
  auto* increment = probed.function<long(long)>();
  constexpr int kThreads = 8;
  constexpr long kCalls = 50000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (long i = 0; i < kCalls; ++i) increment(i);
    });
  for (auto& thread : threads) thread.join();
  for (size_t metric = 0; metric < kSeveral.size(); ++metric) {
    EXPECT_EQ(probed.histogram(metric).count(), uint64_t{kThreads} * kCalls) << metric;
    EXPECT_EQ(probed.missed(metric), 0u) << metric;
  }
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, CountAnUnrecordedCallAsMissedInEachOfItsMetrics) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam(), kSlots, 0, kSeveral);
  probed = &own;
  struct Recurse {
    static long down(long depth) {
      if (depth == 0) return 0;
      return probed->function<long(long (*)(long), long)>()(&Recurse::down, depth - 1) + 1;
    }
  };
  constexpr uint64_t kDepth = kSlots + 10;
  EXPECT_EQ(Recurse::down(kDepth), static_cast<long>(kDepth));
  for (size_t metric = 0; metric < kSeveral.size(); ++metric) {
    EXPECT_EQ(own.histogram(metric).count(), kSlots) << metric;
    EXPECT_EQ(own.missed(metric), 10u) << metric;
  }
  EXPECT_EQ(own.slots_in_use(), 0u);
}

TEST_P(Slots, CountACallWithoutABlockAsMissedInEachOfItsMetrics) {
  Probed probed(kIncrement, GetParam(), kSlots, 0, kSeveral);
  probed.allow_blocks(0, 0);
  auto* increment = probed.function<long(long)>();
  for (long i = 0; i < 100; ++i) ASSERT_EQ(increment(i), i + 1);
  for (size_t metric = 0; metric < kSeveral.size(); ++metric) {
    EXPECT_EQ(probed.histogram(metric).count(), 0u) << metric;
    EXPECT_EQ(probed.missed(metric), 100u) << metric;
  }
  EXPECT_EQ(probed.pool().refused, 100 * kSeveral.size());
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, TakeMemoryForAHistogramOnlyOnceSomethingIsRecorded) {
  Probed probed(kIncrement, GetParam());
  EXPECT_EQ(probed.pool().taken, 0u);
  for (long i = 0; i < 1000; ++i) probed.function<long(long)>()(i);
  EXPECT_GE(probed.areas_with_a_block(), 1u);
  EXPECT_LE(probed.areas_with_a_block(), probed.cpus());
  EXPECT_EQ(probed.pool().taken, probed.areas_with_a_block() * kBlock);
  EXPECT_EQ(probed.pool().refused, 0u);
}

TEST_P(Slots, ShareABlockIfCpusHaveNoneAndLoseNothing) {
  Probed probed(kIncrement, GetParam());
  probed.allow_blocks(1, 0);
  auto* increment = probed.function<long(long)>();
  constexpr int kThreads = 8;
  constexpr long kCalls = 20000;
  increment(0);  // the block is there from now on: while a thread takes it, others miss
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (long i = 0; i < kCalls; ++i) increment(i);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(probed.histogram().count(), uint64_t{kThreads} * kCalls + 1);
  EXPECT_EQ(probed.pool().taken, kBlock);
  EXPECT_EQ(probed.missed(), 0u);
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, CountOrMissEachCallWhileTheLastBlockIsTaken) {
  constexpr int kThreads = 8;
  constexpr long kCalls = 100;
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    Probed probed(kIncrement, GetParam());
    probed.allow_blocks(1, 0);
    auto* increment = probed.function<long(long)>();
    std::barrier start(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        start.arrive_and_wait();
        for (long i = 0; i < kCalls; ++i) increment(i);
      });
    for (auto& thread : threads) thread.join();
    ASSERT_EQ(probed.histogram().count() + probed.missed(), uint64_t{kThreads} * kCalls) << round;
    ASSERT_EQ(probed.pool().taken, kBlock) << round;
  }
}

TEST_P(Slots, CountCallsAsMissedUntilThereIsABlock) {
  Probed probed(kIncrement, GetParam());
  probed.allow_blocks(0, 0);
  auto* increment = probed.function<long(long)>();
  for (long i = 0; i < 100; ++i) ASSERT_EQ(increment(i), i + 1);
  EXPECT_EQ(probed.histogram().count(), 0u);
  EXPECT_EQ(probed.missed(), 100u);
  EXPECT_EQ(probed.pool().refused, 100u);
  EXPECT_EQ(probed.pool().taken, 0u);
  EXPECT_EQ(probed.slots_in_use(), 0u);
  probed.allow_blocks(probed.cpus() + 1, probed.cpus());
  for (long i = 0; i < 100; ++i) ASSERT_EQ(increment(i), i + 1);
  EXPECT_EQ(probed.histogram().count(), 100u);
  EXPECT_EQ(probed.missed(), 100u);
}

TEST_P(Slots, DoNotFollowABlockOffsetOutsideThePool) {
  Probed probed(kIncrement, GetParam());
  auto* increment = probed.function<long(long)>();
  std::vector<uint64_t> canary(1 << 13);
  const uint64_t size = layout::histogram_size(kBits);
  uint64_t missed = 0;
  for (uint64_t offset : {probed.offset_of(canary.data()), probed.end_of_pool() - size + 8,
                          probed.end_of_pool(), UINT64_MAX, uint64_t{1} << 63}) {
    probed.put_blocks(offset);
    for (long i = 0; i < 10; ++i) ASSERT_EQ(increment(i), i + 1);
    missed += 10;
    EXPECT_EQ(probed.missed(), missed) << std::hex << offset;
  }
  EXPECT_EQ(std::count(canary.begin(), canary.end(), 0u), static_cast<long>(canary.size()));
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

TEST_P(Slots, TakeNoBlockFromAPoolThatClaimsMoreThanItHas) {
  Probed probed(kIncrement, GetParam());
  auto* increment = probed.function<long(long)>();
  uint64_t missed = 0;
  for (uint64_t taken :
       {(uint64_t{probed.cpus()} + 1) * kBlock, uint64_t{1} << 40, UINT64_MAX - kBlock}) {
    probed.pool().taken = taken;
    probed.allow_blocks(UINT64_MAX, UINT64_MAX);
    for (long i = 0; i < 10; ++i) ASSERT_EQ(increment(i), i + 1);
    missed += 10;
    EXPECT_EQ(probed.missed(), missed) << taken;
    EXPECT_EQ(probed.areas_with_a_block(), 0u);
  }
}

// The controller adds blocks while threads run short of them.
TEST_P(Slots, RecordOrMissEachCallWhileBlocksAreAdded) {
  Probed probed(kIncrement, GetParam());
  probed.allow_blocks(0, 0);
  auto* increment = probed.function<long(long)>();
  constexpr int kThreads = 4;
  std::atomic<bool> enough = false;
  std::atomic<uint64_t> calls = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (; !enough; ++calls) increment(1);
    });
  const auto wait_for_calls = [&](uint64_t more) {
    for (const uint64_t begin = calls; calls < begin + more;) std::this_thread::yield();
  };
  for (uint32_t blocks = 0; blocks <= probed.cpus(); ++blocks) {
    wait_for_calls(1000);
    probed.allow_blocks(blocks + 1, blocks);
  }
  wait_for_calls(1000);
  enough = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(probed.histogram().count() + probed.missed(), calls);
  EXPECT_EQ(probed.missed(), probed.pool().refused);
  EXPECT_GT(probed.missed(), 0u);
  EXPECT_GT(probed.histogram().count(), 0u);
}

// Until it registers, a new thread in the memory of one that ended has an rseq area that names a
// CPU, but no registration with the kernel. So its sequences are not restarted, and several such
// threads use the lists of one CPU at once.
TEST(SlotsUnregistered, NeverHaveTwoOwnersWhateverTheRseqAreaSays) {
  if (!own_rseq()) GTEST_SKIP() << "this libc does not register rseq";
  Probed probed(kCallBack, Path::rseq);
  const auto step = [](long i) { return i + 1; };
  constexpr int kThreads = 8;
  std::atomic<long> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      auto* area = own_area();
      call_rseq(RSEQ_FLAG_UNREGISTER);
      __atomic_store_n(&area->cpu_id, 0, __ATOMIC_RELAXED);
      auto* call = probed.function<long(long (*)(long), long)>();
      for (long i = 0; i < 400000; ++i)
        if (call(step, i) != i + 1) ++wrong;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(probed.slots_in_use(), 0u);
}

// As such threads may leave it: a list that leads to a slot in use, and from there to itself.
TEST_P(Slots, MeasureAllCallsWithADamagedList) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam());
  probed = &own;
  struct Recurse {
    static long down(long depth) {
      if (depth == 0) return 0;
      probed->damage_list();
      return probed->function<long(long (*)(long), long)>()(&Recurse::down, depth - 1) + 1;
    }
  };
  constexpr long kDepth = 5;
  EXPECT_EQ(Recurse::down(kDepth), kDepth);
  EXPECT_EQ(own.histogram().count(), static_cast<uint64_t>(kDepth));
  EXPECT_EQ(own.missed(), 0u);
  EXPECT_EQ(own.slots_in_use(), 0u);
}

// The kernel also follows the area's pointer when a thread registers: a thread that gets the memory
// of one that ended would be killed once our code is gone.
TEST(SlotsRegistered, ThreadsDoNotKeepAPointerToASequenceThatTheyLeft) {
  if (!own_rseq()) GTEST_SKIP() << "this libc does not register rseq";
  Probed probed(kIncrement, Path::rseq);
  auto* increment = probed.function<long(long)>();
  for (long i = 0; i < 1000; ++i) {
    ASSERT_EQ(increment(i), i + 1);
    ASSERT_EQ(__atomic_load_n(&own_area()->rseq_cs, __ATOMIC_RELAXED), 0u);
  }
}

TEST_P(Slots, CountCallsBeyondTheLastSlotAsMissed) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam());
  probed = &own;
  struct Recurse {
    static long down(long depth) {
      if (depth == 0) return 0;
      return probed->function<long(long (*)(long), long)>()(&Recurse::down, depth - 1) + 1;
    }
  };
  constexpr long kDepth = 100;
  EXPECT_EQ(Recurse::down(kDepth), kDepth);
  EXPECT_EQ(own.histogram().count(), kSlots);
  EXPECT_EQ(own.missed(), kDepth - kSlots);
  EXPECT_EQ(own.slots_in_use(), 0u);
  EXPECT_EQ(Recurse::down(10), 10);  // they can be used again
  EXPECT_EQ(own.histogram().count(), kSlots + 10);
}

// The recursion takes more slots than there are, while slots are added.
TEST_P(Slots, ThatAreAddedAreUsedWithoutLosingACall) {
  static Probed* probed = nullptr;
  constexpr uint64_t kCapacity = 4096;
  Probed own(kCallBack, GetParam(), 1, kCapacity);
  probed = &own;
  struct Recurse {
    static long down(long depth) {
      if (depth == 0) return 0;
      return probed->function<long(long (*)(long), long)>()(&Recurse::down, depth - 1) + 1;
    }
  };
  constexpr long kThreads = 4, kRounds = 200, kDepth = 300;
  std::atomic<long> wrong = 0;
  std::vector<std::thread> threads;
  for (long t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (long i = 0; i < kRounds; ++i)
        if (Recurse::down(kDepth) != kDepth) ++wrong;
    });
  for (uint64_t there = 1; there < kCapacity; there += 7)
    own.add_slots(std::min<uint64_t>(7, kCapacity - there));
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(own.histogram().count() + own.missed(), uint64_t{kThreads * kRounds * kDepth});
  const uint64_t missed = own.missed();
  EXPECT_EQ(Recurse::down(kDepth), kDepth);
  EXPECT_EQ(own.missed(), missed) << "there are enough now";
}

// Makes a call of a timed function, always from the same call site, and abandons it by longjmp.
std::jmp_buf leave_to;
[[noreturn]] long leap(long value) {
  std::longjmp(leave_to, static_cast<int>(value));
}
__attribute__((noinline)) void leave_by_longjmp(Probed& probed) {
  auto* call = probed.function<long(long (*)(long), long)>();
  if (setjmp(leave_to) == 0) call(leap, 1);
}

TEST_P(Slots, OfAbandonedCallsAreReusedByCallsFromTheSamePlace) {
  Probed probed(kCallBack, GetParam());
  auto* call = probed.function<long(long (*)(long), long)>();
  const auto step = [](long i) { return i + 1; };
  constexpr uint64_t kRounds = 100 * kSlots;
  for (uint64_t i = 0; i < kRounds; ++i) {
    leave_by_longjmp(probed);
    ASSERT_EQ(call(step, 7), 8);
  }
  EXPECT_EQ(probed.missed(), 0u);
  EXPECT_EQ(probed.histogram().count(), kRounds);
  EXPECT_LT(probed.slots_in_use(), kSlots / 2);
  // The last abandoned call was not followed by another one, which would reuse its slot.
  EXPECT_EQ(probed.abandoned() + probed.slots_in_use(), kRounds);
}

TEST_P(Slots, OfAbandonedCallsAreCountedByEachMetric) {
  Probed probed(kCallBack, GetParam(), kSlots, 0, kSeveral);
  constexpr uint64_t kRounds = 10 * kSlots;
  const auto step = [](long i) { return i + 1; };
  auto* call = probed.function<long(long (*)(long), long)>();
  for (uint64_t i = 0; i < kRounds; ++i) {
    leave_by_longjmp(probed);
    ASSERT_EQ(call(step, 7), 8);
  }
  for (size_t metric = 0; metric < kSeveral.size(); ++metric) {
    EXPECT_EQ(probed.histogram(metric).count(), kRounds) << metric;
    EXPECT_EQ(probed.abandoned(metric) + probed.slots_in_use(), kRounds) << metric;
  }
}

TEST_P(Slots, OfAbandonedCallsAreReusedByCallsThatReturn) {
  Probed probed(kCallBack, GetParam());
  auto* call = probed.function<long(long (*)(long), long)>();
  uint64_t returned = 0;
  const auto step = [](long i) { return i % 3 == 0 ? leap(i + 1) : i; };
  for (long i = 1; i < 10000; ++i)
    if (setjmp(leave_to) == 0) {
      ASSERT_EQ(call(step, i), i);
      ++returned;
    }
  EXPECT_EQ(probed.missed(), 0u);
  EXPECT_EQ(probed.histogram().count(), returned);
  EXPECT_LT(probed.slots_in_use(), kSlots / 2);
}

// Two contexts take turns on the same stack, and their parts of it are copied away and back, as
// greenlet does. Both are in a call from the same call site, so that the second gets the slot of
// the first when slots are scarce.
TEST_P(Slots, ThatAreReusedReturnEachCallToItsCaller) {
  static Probed* probed = nullptr;
  static ucontext_t home, contexts[2];
  static int turn;
  static long results[2];
  Probed own(kCallBack, GetParam());
  probed = &own;
  for (uint64_t i = 0; i < kSlots; ++i) leave_by_longjmp(own);  // now they are scarce

  static std::vector<uint8_t> stack;
  struct Coroutine {
    static long pause(long value) {
      const int me = turn;
      swapcontext(&contexts[me], &home);
      return value * 10;
    }
    static void run() {
      const int me = turn;
      const long value = probed->function<long(long (*)(long), long)>()(&pause, me + 1);
      results[me] = value;
    }
  };
  struct Recurse {
    static long down(long depth) {
      if (depth == 0) return 0;
      return probed->function<long(long (*)(long), long)>()(&down, depth - 1) + 1;
    }
  };
  std::vector<uint8_t> aside[2];
  const auto resume = [&](int number) {
    turn = number;
    std::copy(aside[number].begin(), aside[number].end(), stack.begin());
    swapcontext(&home, &contexts[number]);
    aside[number] = stack;
  };
  // More than once, as another slot may have the same hash and be found instead.
  std::vector<std::vector<uint8_t>> stacks;
  uint64_t shared = 0;
  while (stacks.size() < 5) {
    stacks.push_back(std::exchange(stack, std::vector<uint8_t>(65536)));  // at another address
    for (turn = 0; turn < 2; ++turn) {
      getcontext(&contexts[turn]);
      contexts[turn].uc_stack.ss_sp = stack.data();
      contexts[turn].uc_stack.ss_size = stack.size();
      contexts[turn].uc_link = &home;
      makecontext(&contexts[turn], &Coroutine::run, 0);
      aside[turn] = stack;
      results[turn] = 0;
    }
    resume(0);
    Recurse::down(2 * kSlots);  // no slot is free, so all are noted
    const uint64_t left = own.abandoned();
    resume(1);
    shared += own.abandoned() - left;
    resume(0);
    for (uint64_t i = 0; i < 2 * kSlots; ++i)  // these would take a slot that was given back
      ASSERT_EQ(own.function<long(long (*)(long), long)>()([](long value) { return value; }, 3), 3);
    resume(1);
    ASSERT_EQ(results[0], 10);
    ASSERT_EQ(results[1], 20);
  }
  EXPECT_GT(shared, 0u);
}

TEST_P(Slots, MeasureTheTimeInNanoseconds) {
  Probed probed(kCallBack, GetParam());
  auto* call = probed.function<long(long (*)(long), long)>();
  const auto busy = [](long ns) {
    const uint64_t until = monotonic_ns() + static_cast<uint64_t>(ns);
    while (monotonic_ns() < until) {
    }
    return 0L;
  };
  const uint64_t before = monotonic_ns();
  call(busy, 3'000'000);
  const uint64_t elapsed = monotonic_ns() - before;
  const auto histogram = probed.histogram();
  EXPECT_EQ(histogram.count(), 1u);
  EXPECT_GE(histogram.sum(), 2.99e6);
  EXPECT_LE(histogram.sum(), static_cast<double>(elapsed) * 1.001 + 1000);
}

TEST_P(Slots, ShiftTheSumsOfLongCallsByTheFormula) {
  Probed probed(kCallBack, GetParam());
  auto* call = probed.function<long(long (*)(long), long)>();
  const auto nap = [](long ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    return 0L;
  };
  call(nap, 40);  // beyond 2^22 ns, where shifting begins
  const auto histogram = probed.histogram();
  EXPECT_EQ(histogram.count(), 1u);
  EXPECT_GE(histogram.sum(), 39.9e6);
  EXPECT_LT(histogram.sum(), 5e9);
}

// --- Calls that a reset drops

TEST_P(Slots, OfCallsThatAreDroppedAreGivenBackWithoutARecord) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam(), kSlots, 0, kSeveral);
  probed = &own;
  auto* call = own.function<long(long (*)(long), long)>();
  const auto drop = [](long value) {
    probed->drop_calls();
    return value;
  };
  const auto step = [](long value) { return value + 1; };
  for (uint64_t i = 0; i < 2 * kSlots; ++i) ASSERT_EQ(call(drop, 7), 7);
  EXPECT_EQ(call(step, 7), 8);
  for (size_t metric = 0; metric < kSeveral.size(); ++metric) {
    EXPECT_EQ(own.histogram(metric).count(), 1u) << "the one that was not dropped";
    EXPECT_EQ(own.missed(metric), 0u) << metric;
  }
  EXPECT_EQ(own.slots_in_use(), 0u);
}

TEST_P(Slots, OfDroppedCallsOnTopOfOthersLoseNoOther) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam());
  probed = &own;
  struct Recurse {
    static long down(long depth) {
      if (depth == 5) probed->drop_calls();
      if (depth == 0) return 0;
      return probed->function<long(long (*)(long), long)>()(&down, depth - 1) + 1;
    }
  };
  EXPECT_EQ(Recurse::down(20), 20);
  EXPECT_EQ(own.histogram().count(), 5u) << "those that began after the others were dropped";
  EXPECT_EQ(own.slots_in_use(), 0u);
}

// The slot of an abandoned call stays in use: it is dropped, too, and reused later.
TEST_P(Slots, OfAbandonedCallsThatAreDroppedAreReused) {
  static Probed* probed = nullptr;
  Probed own(kCallBack, GetParam());
  probed = &own;
  auto* call = own.function<long(long (*)(long), long)>();
  const auto step = [](long value) { return value + 1; };
  const auto drop = [](long value) {
    probed->drop_calls();
    return value;
  };
  constexpr uint64_t kRounds = 10 * kSlots;
  uint64_t recorded = 0;
  for (uint64_t i = 0; i < kRounds; ++i) {
    leave_by_longjmp(own);
    const bool drops = i % 3 == 0;
    ASSERT_EQ(call(drops ? +drop : +step, 7), drops ? 7 : 8);
    recorded += drops ? 0 : 1;
  }
  EXPECT_EQ(own.missed(), 0u);
  EXPECT_EQ(own.histogram().count(), recorded);
  EXPECT_LT(own.slots_in_use(), kSlots / 2);
}

// --- Gaps between calls

// One metric, and the gaps between its calls, with other fraction bits.
const std::vector<unsigned> kWithGaps = {3, 1};

constexpr Gap kKindsOfGaps[] = {Gap::cpu, Gap::thread};

TEST_P(Slots, StartTheGapOfTheirCpuOrThreadWhenTheCallReturns) {
  const OnOneCpu here;
  for (const Gap gap : kKindsOfGaps) {
    Probed probed(kIncrement, GetParam(), kSlots, 0, kWithGaps, gap);
    auto* increment = probed.function<long(long)>();
    constexpr long kCalls = 10000;
    for (long i = 0; i < kCalls; ++i) ASSERT_EQ(increment(i), i + 1);
    EXPECT_EQ(probed.histogram(0).count(), uint64_t{kCalls});
    EXPECT_EQ(probed.histogram(1).count(), uint64_t{kCalls - 1});
    EXPECT_EQ(probed.missed(0) + probed.missed(1), 0u);
    EXPECT_EQ(probed.gaps_begun().size(), gap == Gap::cpu ? 1u : 0u) << "the last call's end";
    EXPECT_EQ(probed.slots_in_use(), 0u);
  }
}

TEST_P(Slots, DoNotCountTheCallItselfAsAGap) {
  const OnOneCpu here;
  static uint64_t ended;
  for (const Gap gap : kKindsOfGaps) {
    Probed probed(kCallBack, GetParam(), kSlots, 0, kWithGaps, gap);
    auto* call = probed.function<long(long (*)(long), long)>();
    const auto busy = [](long ns) {
      const uint64_t until = monotonic_ns() + static_cast<uint64_t>(ns);
      do ended = monotonic_ns();
      while (ended < until);
      return 0L;
    };
    call(busy, 50'000'000);
    const uint64_t before = ended;
    busy(2'000'000);
    call(busy, 0);
    const uint64_t elapsed = monotonic_ns() - before;
    EXPECT_EQ(probed.histogram(1).count(), 1u);
    EXPECT_GE(probed.histogram(1).sum(), 1.99e6);
    EXPECT_LE(probed.histogram(1).sum(), static_cast<double>(elapsed) * 1.001 + 1000);
  }
}

TEST_P(Slots, OfDroppedCallsStartNoGap) {
  static Probed* probed = nullptr;
  const OnOneCpu here;
  for (const Gap gap : kKindsOfGaps) {
    Probed own(kCallBack, GetParam(), kSlots, 0, kWithGaps, gap);
    probed = &own;
    auto* call = own.function<long(long (*)(long), long)>();
    const auto drop = [](long value) {
      probed->drop_calls();
      return value;
    };
    const auto step = [](long value) { return value + 1; };
    ASSERT_EQ(call(drop, 7), 7);
    EXPECT_TRUE(own.gaps_begun().empty());
    ASSERT_EQ(call(step, 7), 8);
    EXPECT_EQ(own.histogram(0).count(), 1u);
    EXPECT_EQ(own.histogram(1).count(), 0u);
    ASSERT_EQ(call(step, 7), 8);
    EXPECT_EQ(own.histogram(1).count(), 1u);
    EXPECT_EQ(own.slots_in_use(), 0u);
  }
}

TEST_P(Slots, ThatAreMissingOrAbandonedAreNoLossesOfGaps) {
  static Probed* probed = nullptr;
  const OnOneCpu here;
  for (const Gap gap : kKindsOfGaps) {
    Probed own(kCallBack, GetParam(), kSlots, 0, kWithGaps, gap);
    probed = &own;
    const auto step = [](long value) { return value + 1; };
    auto* call = own.function<long(long (*)(long), long)>();
    for (uint64_t i = 0; i < 10 * kSlots; ++i) {
      leave_by_longjmp(own);
      ASSERT_EQ(call(step, 7), 8);
    }
    EXPECT_GT(own.abandoned(0), 0u);
    EXPECT_EQ(own.histogram(1).count() + own.unmatched_starts(1), 20 * kSlots);
    struct Recurse {
      static long down(long depth) {
        return depth == 0 ? 0 : probed->function<long(long (*)(long), long)>()(&down, depth - 1);
      }
    };
    ASSERT_EQ(Recurse::down(2 * kSlots), 0);
    EXPECT_GT(own.missed(0), 0u);
    EXPECT_EQ(own.missed(1), 0u);
  }
}

TEST_P(Slots, LoseNoCallWithGapsAndSeveralThreads) {
  for (const Gap gap : kKindsOfGaps) {
    Probed probed(kIncrement, GetParam(), kSlots, 0, kWithGaps, gap);
    auto* increment = probed.function<long(long)>();
    constexpr int kThreads = 8;
    constexpr long kCalls = 20000;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (long i = 0; i < kCalls; ++i) increment(i);
      });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(probed.histogram(0).count(), uint64_t{kThreads} * kCalls);
    EXPECT_LE(probed.histogram(1).count(), uint64_t{kThreads} * kCalls);
    EXPECT_GT(probed.histogram(1).count(), uint64_t{kThreads} * kCalls / 2);
    EXPECT_EQ(probed.missed(0) + probed.missed(1), 0u);
    EXPECT_EQ(probed.slots_in_use(), 0u);
  }
}

void expect_preserved(Probed& probed, uint64_t flags) {
  CallRegisters registers;
  auto* words = reinterpret_cast<uint64_t*>(&registers);
  for (uint64_t i = 0; i < 15; ++i) words[i] = 0x1111'2222'3333'0000 + i * 0x0101'0101'0101'0101;
  registers.flags = flags | 2;
  const CallRegisters before = registers;
  call_with_registers(reinterpret_cast<void*>(probed.function<void()>()), &registers);
  const auto* old_words = reinterpret_cast<const uint64_t*>(&before);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(words[i], old_words[i]) << "register " << i;
  EXPECT_EQ(registers.flags & kArithmeticFlags, flags);
}

constexpr uint64_t kFlags[] = {0, kArithmeticFlags, 0x801, 0x44, 0x90};

TEST_P(Slots, PreserveAllRegistersAndFlagsInBothDirections) {
  Probed probed({0xc3}, GetParam());  // the function changes nothing at all
  for (const uint64_t flags : kFlags) expect_preserved(probed, flags);
  EXPECT_EQ(probed.histogram().count(), 5u);
}

TEST_P(Slots, PreserveAllRegistersAndFlagsWithGaps) {
  const OnOneCpu here;
  for (const Gap gap : kKindsOfGaps) {
    Probed probed({0xc3}, GetParam(), kSlots, 0, kWithGaps, gap);
    for (const uint64_t flags : kFlags) expect_preserved(probed, flags);
    EXPECT_EQ(probed.histogram(0).count(), 5u);
    EXPECT_EQ(probed.histogram(1).count(), 4u);
  }
}

// The function does what a reset does to the only slot:
//     push %rax; mov $&tsc_of_slot, %rax; mov (%rax), %rax; movq $-1, (%rax); pop %rax; ret
TEST_P(Slots, PreserveAllRegistersAndFlagsOfADroppedCall) {
  static uint64_t* tsc_of_slot;
  std::vector<uint8_t> code = {0x50, 0x48, 0xb8, 0,    0,    0,    0,    0,
                               0,    0,    0,    0x48, 0x8b, 0x00, 0x48, 0xc7,
                               0x00, 0xff, 0xff, 0xff, 0xff, 0x58, 0xc3};
  const auto address = reinterpret_cast<Address>(&tsc_of_slot);
  std::memcpy(code.data() + 3, &address, sizeof address);
  for (const std::vector<unsigned>& bits : {std::vector<unsigned>{kBits}, kSeveral}) {
    Probed probed(code, GetParam(), 1, 0, bits);
    tsc_of_slot = probed.tsc_of_first_slot();
    for (const uint64_t flags : kFlags) expect_preserved(probed, flags);
    EXPECT_EQ(probed.histogram().count(), 0u);
    EXPECT_EQ(probed.missed(), 0u);
    EXPECT_EQ(probed.slots_in_use(), 0u);
  }
}

}  // namespace
}  // namespace pinprick::runtime
