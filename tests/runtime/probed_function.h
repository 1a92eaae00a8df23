// A function with a return probe's stub, in this process's memory, and what its calls recorded.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "executable_memory.h"
#include "layout/session_file.h"
#include "own_thread.h"
#include "runtime/image.h"
#include "stats/histogram.h"

namespace pinprick::runtime {

inline constexpr unsigned kBits = 3;
inline constexpr uint64_t kBlock = layout::histogram_size(kBits);
inline constexpr uint64_t kSlots = 64;

// By locked instructions; by restartable sequences; with sequences for slots and locked counters,
// as there are fewer areas than CPUs; or on a thread without an area where others have one.
enum class Path : uint8_t { locked, rseq, shared, unregistered };

using layout::Gap;

// What is computed at the return of calls, by metric, with these registers kept from the entry.
struct ComputedAtReturn {
  std::vector<arch::AtReturn> by_metric = {};
  std::vector<uint8_t> kept = {};
  uint32_t key_log2 = 0;              // 0: there is no table of keys
  bool keeps_accounted_time = false;  // after the registers
  bool keeps_any() const { return !kept.empty() || keeps_accounted_time; }
};

// A probed function with the code `code`, entered through a return probe's stub.
class Probed {
 public:
  Probed(std::vector<uint8_t> code, Path path, uint64_t slots = kSlots, uint64_t capacity = 0,
         std::vector<unsigned> bits = {kBits}, Gap gap = Gap::none,
         const ComputedAtReturn& returns = {})
      : gap_(gap),
        cpus_(std::max(2u, std::thread::hardware_concurrency())),
        bits_(std::move(bits)),
        keys_(returns.key_log2 == 0 ? 0 : layout::key_entries(returns.key_log2)),
        areas_(((cpus_ + 1) * area_size() + PP_POOL_BLOCKS + size_of_blocks()) / 8),
        extent_(runtime_extent(std::max(slots, capacity), cpus_, 0, kSpans, false,
                               returns.keeps_any())),
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
    spec.keeps_values = returns.keeps_any();
    spec.thread_pointer = thread_pointer_here();
    spec.tid_offset = tid_offset();
    spec.areas = reinterpret_cast<Address>(areas_.data());
    spec.area_size = area_size();
    spec.blocks = {spec.areas + (cpus_ + 1) * area_size(),
                   spec.areas + areas_.size() * sizeof areas_[0]};
    spec.has_pool = true;
    allow_blocks(cpus_ + 1, cpus_);
    if (bits_.size() > 1 || !keys_.empty()) allow_blocks(1000, 1000);
    if (!keys_.empty()) {
      spec.keys = reinterpret_cast<Address>(keys_.data());
      spec.key_log2 = returns.key_log2;
      spec.key_counters = kAreaSize;
      spec.key_sums = sums_offset();
      spec.key_times = kAreaSize + 2 * sums_offset();
    }
    const auto runtime = build_runtime(runtime_memory_.address(), spec);
    EXPECT_TRUE(runtime.has_value());
    write(runtime->pieces);
    runtime_memory_.seal(extent_.data_size);

    // The function's code lies at the end of the page, and is displaced as a whole.
    arch::Assembler code_at(stub_memory_.address());
    arch::ArenaSpec arena;
    arena.size = stub_memory_.size();
    arena.routines = {runtime->enter, runtime->add,     runtime->span,
                      runtime->key,   runtime->key_sum, runtime->add_by_key};
    arena.routines.accounted = runtime->accounted;
    arena.routines.self_time = runtime->self_time;
    arena.locked_areas = locked_areas(spec);
    const auto cpus = cpu_areas(spec);
    arena.cpu_areas = cpus;
    const auto entries = arch::emit_arena_header(code_at, arena);
    std::vector<arch::Metric> metrics;
    for (unsigned one : bits_)
      metrics.push_back({metrics.size() * sizeof(layout::TimeCounters), one});
    std::vector<arch::StubAction> actions = gap_ends(metrics);
    arch::TimeCall call = times(metrics, runtime->enter);
    call.at_return = returns.by_metric;
    call.kept.slot = runtime->data_address;
    call.kept.code = runtime->slot_code.begin;
    call.kept.entries = runtime->kept_values;
    for (const uint8_t reg : returns.kept)
      call.kept.values.emplace_back(arch::Source{.register_number = reg});
    if (returns.keeps_accounted_time)
      call.kept.values.emplace_back(arch::Source{.instead = arch::Source::AccountedTime{}});
    actions.push_back({.what = call});
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
  // The function itself, without a probe.
  template <class F>
  F* original() {
    return stub_memory_.function<F>(copy_address_ - stub_memory_.address());
  }
  stats::Histogram histogram(size_t metric = 0) const {
    return histogram_at(metric * sizeof(layout::TimeCounters), bits_[metric]);
  }
  // By owner and key: the numbers that were counted, or added up, and the histograms.
  using ByKey = std::map<std::pair<uint64_t, uint64_t>, uint64_t>;
  ByKey counted() const { return by_key(0); }
  ByKey added_up() const { return by_key(sums_offset()); }
  std::map<std::pair<uint64_t, uint64_t>, stats::Histogram> histograms() const {
    std::map<std::pair<uint64_t, uint64_t>, stats::Histogram> all;
    for (size_t i = 0; i < keys_.size(); ++i) {
      auto one = histogram_at(spec_.key_times + i * sizeof(layout::TimeCounters), kBits);
      if (one.count() == 0) continue;
      all.try_emplace({keys_[i].owner - 1, keys_[i].value}, kBits).first->second.merge(one);
    }
    return all;
  }
  // Adds up the words at this offset of all areas.
  uint64_t word(uint64_t offset) const {
    uint64_t sum = 0;
    for (uint64_t area = 0; area <= cpus_; ++area) sum += areas_[(area * area_size() + offset) / 8];
    return sum;
  }
  // Where a metric may count calls whose key has no room, and the sum of what these add up.
  static uint64_t rest(size_t metric) { return kAreaSize / 2 + metric * sizeof(uint64_t); }
  uint64_t sum_of_rest(size_t metric) const { return word(rest(metric) + sums_offset()); }
  stats::Histogram histogram_at(uint64_t counters, unsigned bits) const {
    stats::Histogram sum(bits);
    for (uint64_t area = 0; area <= cpus_; ++area) {
      const uint64_t offset =
          areas_[(area * area_size() + counters + PP_COUNTERS_BLOCK) / sizeof areas_[0]];
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
      if (slots()[i].return_address != 0) std::atomic_ref(slots()[i].tsc) |= layout::kTscDropped;
  }
  uint64_t* tsc_of_first_slot() { return &slots()[0].tsc; }
  // When the last call ended, for gaps of a CPU, in the areas where one did.
  std::vector<uint64_t> gaps_begun() const {
    std::vector<uint64_t> begun;
    for (uint64_t area = 0; area <= cpus_; ++area) {
      const uint64_t word =
          areas_[(area * area_size() + bits_.size() * sizeof(layout::TimeCounters)) / 8];
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
  ByKey by_key(uint64_t from) const {
    ByKey all;
    for (size_t i = 0; i < keys_.size(); ++i)
      if (const uint64_t n = word(spec_.key_counters + from + i * sizeof(uint64_t)); n != 0)
        all[{keys_[i].owner - 1, keys_[i].value}] += n;
    return all;
  }
  // Without keys, an area is one page. With them, it has their counters, the same for sums, and
  // their TimeCounters after it.
  uint64_t sums_offset() const { return kAreaSize + keys_.size() * sizeof(uint64_t); }
  uint64_t area_size() const {
    return keys_.empty() ? kAreaSize
                         : align_up(kAreaSize + 2 * sums_offset() +
                                        keys_.size() * sizeof(layout::TimeCounters),
                                    kPageSize);
  }
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
    return reinterpret_cast<const layout::TimeCounters*>(&areas_[area * area_size() / 8])[metric];
  }
  uint64_t size_of_blocks() const {
    uint64_t size = 0, largest = 0;
    for (unsigned one : bits_) {
      size += (cpus_ + 1) * layout::histogram_size(one);
      largest = std::max(largest, layout::histogram_size(one));
    }
    return size + (bits_.size() > 1 ? largest : 0) + keys_.size() * (cpus_ + 1) * kBlock;
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
  std::vector<layout::KeyEntry> keys_;
  std::vector<uint64_t> areas_;
  RuntimeExtent extent_;
  ExecutableMemory runtime_memory_;
  ExecutableMemory stub_memory_;
  Address copy_address_ = 0;
  uint64_t entry_offset_ = 0;
};

// lea 1(%rdi), %rax; ret
inline const std::vector<uint8_t> kIncrement = {0x48, 0x8d, 0x47, 0x01, 0xc3};

// long callback(long (*)(long), long): calls its first argument with its second, then returns.
//   sub $8,%rsp; mov %rdi,%rax; mov %rsi,%rdi; call *%rax; add $8,%rsp; ret
inline const std::vector<uint8_t> kCallBack = {0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0xf8, 0x48, 0x89,
                                               0xf7, 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3};

// On each path.
class OnEachPath : public testing::TestWithParam<Path> {
 protected:
  void SetUp() override {
    if (GetParam() != Path::locked && !own_rseq())
      GTEST_SKIP() << "this libc does not register rseq";
    if (GetParam() == Path::unregistered) unregistered_.emplace();
  }

 private:
  std::optional<Unregistered> unregistered_;
};
inline const auto kPaths =
    testing::Values(Path::locked, Path::rseq, Path::shared, Path::unregistered);
inline std::string name_of_path(const testing::TestParamInfo<Path>& path) {
  return path.param == Path::locked   ? "locked"
         : path.param == Path::rseq   ? "rseq"
         : path.param == Path::shared ? "shared"
                                      : "unregistered";
}

// Makes a call of a timed function, always from the same call site, and abandons it by longjmp.
inline std::jmp_buf leave_to;
[[noreturn]] inline long leap(long value) {
  std::longjmp(leave_to, static_cast<int>(value));
}
__attribute__((noinline)) inline void leave_by_longjmp(Probed& probed) {
  auto* call = probed.function<long(long (*)(long), long)>();
  if (setjmp(leave_to) == 0) call(leap, 1);
}

}  // namespace pinprick::runtime
