// Points that start and end spans and gaps, in this process's memory, and what was recorded. And a
// handler that interrupts them at each instruction.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "call_with_registers.h"
#include "executable_memory.h"
#include "layout/session_file.h"
#include "own_thread.h"
#include "runtime/image.h"
#include "stats/histogram.h"

extern "C" {
long step_through(long (*f)(long), long x);
extern const uint8_t step_returned[];
}

namespace pinprick::runtime {

inline constexpr unsigned kBits = 3;

// What a point does in a span, or in the gaps of that number.
struct Passes {
  uint64_t span = 0;
  layout::Pass pass = layout::Pass::starts;
};
constexpr Passes start_of(uint64_t span) {
  return {span, layout::Pass::starts};
}
constexpr Passes end_of(uint64_t span) {
  return {span, layout::Pass::ends};
}

// By locked instructions; by restartable sequences; on a thread without an area where others have
// one; or where programs must not use rdfsbase.
enum class SpanPath : uint8_t { locked, rseq, unregistered, without_fsgsbase };

// Points that start and end spans, in functions that do nothing else.
class Points {
 public:
  using Function = void();

  // The last of the spans may be gaps.
  explicit Points(SpanPath path, uint64_t spans = 1)
      : Points(path == SpanPath::locked ? std::nullopt : own_rseq(), spans,
               path == SpanPath::without_fsgsbase ? ThreadPointer::in_memory
                                                  : thread_pointer_here()) {}
  Points(std::optional<arch::RseqArea> rseq, uint64_t spans,
         ThreadPointer thread_pointer = thread_pointer_here())
      : spans_(spans),
        cpus_(std::max(2u, std::thread::hardware_concurrency())),
        areas_(((cpus_ + 1) * kPageSize + PP_POOL_BLOCKS +
                (cpus_ + 1) * spans * layout::histogram_size(kBits)) /
               8),
        spec_(spec(rseq, thread_pointer)),
        extent_(runtime_extent(spec_)),
        runtime_memory_(extent_.size()),
        stubs_(1 << 16) {
    auto& pool = *reinterpret_cast<layout::PoolHeader*>(spec_.blocks.begin);
    pool.limit = pool.own_limit = spec_.blocks.size() - PP_POOL_BLOCKS;
    const auto runtime = build_runtime(runtime_memory_.address(), spec_);
    EXPECT_TRUE(runtime.has_value());
    for (const Piece& piece : runtime->pieces)
      runtime_memory_.write(piece.address - runtime_memory_.address(), piece.bytes);
    runtime_memory_.seal(extent_.data_size);
    code_ = {runtime->code_address, runtime->slot_code.begin};
    span_ = runtime->span;
    const Range table = threads_in(runtime_memory_.address(), spec_);
    const uint64_t size = layout::thread_entry_size(spans_);
    for (uint64_t i = 0; i < layout::kThreadEntries; ++i)
      entries_.push_back(reinterpret_cast<layout::ThreadEntry*>(table.begin + i * size));
  }

  // Makes a function for each list. To be called once.
  std::vector<Function*> functions(const std::vector<std::vector<Passes>>& points) {
    arch::Assembler code(stubs_.address());
    arch::ArenaSpec arena;
    arena.size = stubs_.size();
    arena.routines.pass = span_;
    arena.locked_areas = locked_areas(spec_);
    const auto cpus = cpu_areas(spec_);
    arena.cpu_areas = cpus;
    const auto entries = arch::emit_arena_header(code, arena);
    const std::vector<uint8_t> function = {0xc3};
    const Address begin = stubs_.address() + stubs_.size() / 2;
    std::vector<Function*> all;
    for (const auto& point : points) {
      std::vector<arch::StubAction> actions;
      for (const Passes& one : point)
        actions.push_back({.what = arch::PassSpan{{one.span * sizeof(layout::SpanCounters), kBits},
                                                  layout::span_start_offset(one.span),
                                                  one.pass}});
      const auto stub = arch::emit_stub(code, entries, {.actions = actions}, {begin, function});
      all.push_back(reinterpret_cast<Function*>(stub.begin));
    }
    const auto bytes = code.finish();
    EXPECT_TRUE(bytes.has_value());
    stubs_.write(0, *bytes);
    stubs_.write(begin - stubs_.address(), function);
    stubs_.seal();
    return all;
  }

  stats::Histogram histogram(uint64_t span = 0) const {
    stats::Histogram sum(kBits);
    for (uint64_t area = 0; area <= cpus_; ++area) {
      const uint64_t offset = counters_of(area, span).block;
      if (offset == 0) continue;
      const auto* cells = reinterpret_cast<const stats::Cell*>(spec_.blocks.begin + offset);
      for (uint32_t slot = 0; slot < stats::slot_count(kBits); ++slot) sum.add(slot, cells[slot]);
    }
    return sum;
  }
  uint64_t recorded(uint64_t span = 0) const { return histogram(span).count(); }
  uint64_t missed(uint64_t span = 0) const { return sum(&layout::SpanCounters::missed, span); }
  uint64_t repeated(uint64_t span = 0) const { return sum(&layout::SpanCounters::repeated, span); }
  uint64_t unmatched(uint64_t span = 0) const {
    return sum(&layout::SpanCounters::unmatched, span);
  }

  const std::vector<layout::ThreadEntry*>& entries() const { return entries_; }
  // From then on entries() has only the window of this entry.
  void narrow_to_window_of(layout::ThreadEntry* home) {
    const auto first = std::find(entries_.begin(), entries_.end(), home);
    entries_ = {first, first + PP_THREAD_WINDOW};
  }
  uint64_t* starts(layout::ThreadEntry* entry) { return reinterpret_cast<uint64_t*>(entry + 1); }
  // How many of the owner's, or of all threads' spans are started, as the threads will find them:
  // a thread only finds its first entry.
  uint64_t pending(uint64_t owner = 0, uint64_t span = 0) {
    uint64_t n = 0;
    std::set<uint64_t> seen = {0};
    for (auto* entry : entries())
      if ((owner == 0 || entry->owner == owner) && seen.insert(entry->owner).second)
        n += starts(entry)[span] != 0;
    return n;
  }
  // The entry of the only thread that has one.
  layout::ThreadEntry* only_entry() {
    layout::ThreadEntry* found = nullptr;
    for (auto* entry : entries())
      if (entry->owner != 0) {
        EXPECT_EQ(found, nullptr);
        found = entry;
      }
    return found;
  }
  void forget_all() {
    for (auto* entry : entries())
      if (entry->owner != 0) std::memset(entry, 0, layout::thread_entry_size(spans_));
    for (uint64_t area = 0; area <= cpus_; ++area)
      std::memset(reinterpret_cast<void*>(spec_.areas + area * kPageSize), 0, kPageSize);
    // Blocks are given out anew, and keep their contents.
    std::memset(reinterpret_cast<void*>(spec_.blocks.begin + PP_POOL_BLOCKS), 0,
                spec_.blocks.size() - PP_POOL_BLOCKS);
    reinterpret_cast<layout::PoolHeader*>(spec_.blocks.begin)->taken = 0;
  }
  // Where the areas keep the end of the last call or span, for gaps of a CPU.
  std::vector<uint64_t*> gap_words() {
    std::vector<uint64_t*> words;
    for (uint64_t area = 0; area <= cpus_; ++area)
      words.push_back(&areas_[(area * kPageSize + spans_ * sizeof(layout::SpanCounters)) / 8]);
    return words;
  }
  // As the kernel does in a child that must not count.
  void empty_tables() {
    std::memset(runtime_memory_.data() + extent_.data_size - sizeof(layout::RuntimeContext) +
                    layout::kAreaTablesBegin,
                0, layout::kAreaTablesEnd - layout::kAreaTablesBegin);
  }
  Range code() const { return code_; }
  bool is_stub(Address at) const {
    return Range{stubs_.address(), stubs_.address() + stubs_.size() / 2}.contains(at);
  }

 private:
  RuntimeSpec spec(std::optional<arch::RseqArea> rseq, ThreadPointer thread_pointer) {
    RuntimeSpec spec;
    spec.slot_count = spec.capacity = 1;
    spec.cpu_count = cpus_;
    spec.most_fraction_bits = kBits;
    spec.rseq = rseq;
    spec.ns_multiplier = ns_multiplier();
    spec.areas = reinterpret_cast<Address>(areas_.data());
    spec.area_size = kPageSize;
    spec.blocks = {spec.areas + (cpus_ + 1) * kPageSize,
                   spec.areas + areas_.size() * sizeof areas_[0]};
    spec.has_pool = true;
    spec.spans = spans_;
    spec.thread_pointer = thread_pointer;
    spec.tid_offset = tid_offset();
    return spec;
  }
  const layout::SpanCounters& counters_of(uint64_t area, uint64_t span) const {
    return reinterpret_cast<const layout::SpanCounters*>(&areas_[area * kPageSize / 8])[span];
  }
  uint64_t sum(uint64_t layout::SpanCounters::*field, uint64_t span) const {
    uint64_t sum = 0;
    for (uint64_t area = 0; area <= cpus_; ++area) sum += counters_of(area, span).*field;
    return sum;
  }

  uint64_t spans_;
  uint32_t cpus_;
  std::vector<uint64_t> areas_;
  RuntimeSpec spec_;
  RuntimeExtent extent_;
  ExecutableMemory runtime_memory_;
  ExecutableMemory stubs_;
  Range code_;
  Address span_ = 0;
  std::vector<layout::ThreadEntry*> entries_;
};

inline const Passes kStart = start_of(0), kEnd = end_of(0);

// Runs a test on a path, or skips it where there is none.
class OnSpanPath : public testing::Test {
 protected:
  void take(SpanPath path) {
    if (path != SpanPath::locked && !own_rseq()) GTEST_SKIP() << "this libc does not register rseq";
    if (path == SpanPath::unregistered) unregistered_.emplace();
  }

 private:
  std::optional<Unregistered> unregistered_;
};

inline std::string text_of(SpanPath path) {
  switch (path) {
    case SpanPath::locked:
      return "locked";
    case SpanPath::rseq:
      return "rseq";
    case SpanPath::unregistered:
      return "unregistered";
    case SpanPath::without_fsgsbase:
      return "without_fsgsbase";
  }
  return {};
}

inline void wait_ns(uint64_t ns) {
  const uint64_t until = monotonic_ns() + ns;
  while (monotonic_ns() < until) {
  }
}

// An area that is not registered: the kernel restarts no sequence of the thread, on_step does.
inline thread_local struct rseq pretended_rseq;

struct Stepping {
  std::function<bool(Address)> is_ours;
  std::function<void()> then;
  uint64_t steps = 0;  // until `then`; only the first two rounds of loops count
  std::map<Address, int> visits;
  bool is_done = false;
};
inline Stepping stepping;

// Returns where a thread goes on that is interrupted at `ip`, as the kernel decides it.
inline Address resumes_at(Address ip) {
  // The descriptor is not aligned as its type would be; the kernel does not ask for that.
  Address descriptor = 0;
  std::memcpy(&descriptor, reinterpret_cast<char*>(&pretended_rseq) + PP_RSEQ_CS,
              sizeof descriptor);
  if (descriptor == 0) return ip;
  pretended_rseq.rseq_cs = 0;
  struct rseq_cs sequence;
  std::memcpy(&sequence, reinterpret_cast<const void*>(descriptor), sizeof sequence);
  return ip - sequence.start_ip < sequence.post_commit_offset ? sequence.abort_ip : ip;
}

inline void on_step(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto ip = static_cast<Address>(registers[REG_RIP]);
  constexpr greg_t kTrapFlag = 0x100;
  const bool returned = ip == reinterpret_cast<Address>(step_returned);
  constexpr int kRounds = 2;
  if (stepping.is_ours(ip) && stepping.visits[ip]++ < kRounds && stepping.steps-- == 0) {
    registers[REG_RIP] = static_cast<greg_t>(resumes_at(ip));
    stepping.then();
    stepping.is_done = true;
  }
  if (returned || stepping.is_done) registers[REG_EFL] &= ~kTrapFlag;
}

}  // namespace pinprick::runtime
