#include "runtime/probe_cost.h"

#include <sys/rseq.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/machine.h"
#include "layout/session_file.h"
#include "runtime/cost_pages.h"
#include "runtime/image.h"

namespace pinprick::runtime {
namespace {

constexpr uint64_t kSlotCount = 64;
constexpr uint32_t kBits = 3;
constexpr int kRounds = 7;
constexpr int kCalls = 20000;

// lea 1(%rdi), %rax; ret
constexpr std::array<uint8_t, 5> kFunction = {0x48, 0x8d, 0x47, 0x01, 0xc3};

using Function = long (*)(long);

// The fastest of a few rounds, as any disturbance makes a round longer.
[[gnu::noinline]] double nanoseconds_per_call(Function function) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t begin = monotonic_ns();
    long value = 0;
    for (int i = 0; i < kCalls; ++i) value = function(value);
    const auto elapsed = static_cast<double>(monotonic_ns() - begin);
    best = std::min(best, elapsed / kCalls);
  }
  return best;
}

// The pages of that function, from which the calls are made.
Range calling_code() {
  const Address begin = align_down(reinterpret_cast<Address>(&nanoseconds_per_call), kPageSize);
  return {begin, begin + 2 * kPageSize};
}

std::optional<double> measure() {
  const uint32_t cpus = std::min(possible_cpus(), layout::kMaxCpus);
  constexpr uint64_t kHistogram = 64;
  static_assert(sizeof(layout::TimeCounters) <= kHistogram);
  const uint64_t area = align_up(kHistogram + layout::histogram_size(kBits), kPageSize);
  const Range callers = calling_code();
  const uint64_t callers_size = CallerTable::size_for({&callers, 1});
  const RuntimeExtent extent = runtime_extent(kSlotCount, cpus, callers_size);
  constexpr uint64_t kStubs = 32 * kPageSize;
  const Pages areas((cpus + 1) * area), runtime_pages(extent.size()), stub_pages(kStubs);
  if (!areas.ok() || !runtime_pages.ok() || !stub_pages.ok()) return std::nullopt;

  RuntimeSpec spec;
  spec.slot_count = spec.capacity = kSlotCount;
  spec.cpu_count = cpus;
  spec.callers_size = callers_size;
  spec.most_fraction_bits = kBits;
  // A CPU with a higher number has no place in the tables.
  if (__rseq_size != 0 && possible_cpus() <= layout::kMaxCpus)
    spec.rseq = arch::RseqArea{static_cast<int32_t>(__rseq_offset)};
  spec.ns_multiplier = ns_multiplier();
  spec.areas = areas.address();
  spec.area_size = area;
  spec.blocks = {areas.address(), areas.address() + (cpus + 1) * area};
  for (uint64_t i = 0; i <= cpus; ++i) {
    const uint64_t offset = i * area + kHistogram;
    std::memcpy(areas.bytes() + i * area + offsetof(layout::TimeCounters, block), &offset,
                sizeof offset);
  }
  const auto image = build_runtime(runtime_pages.address(), spec);
  if (!image) return std::nullopt;
  const auto write = [&](const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces)
      std::memcpy(runtime_pages.bytes() + (piece.address - runtime_pages.address()),
                  piece.bytes.data(), piece.bytes.size());
  };
  write(image->pieces);
  write(CallerTable(callers_in(runtime_pages.address(), spec), callers_size).update({&callers, 1}));

  const auto cpu_table = cpu_areas(spec);
  arch::ArenaSpec arena;
  arena.size = kStubs;
  arena.routines.time = image->enter;
  arena.locked_areas = locked_areas(spec);
  arena.cpu_areas = cpu_table;
  arch::Assembler code(stub_pages.address());
  const auto entries = arch::emit_arena_header(code, arena);
  const Address original = stub_pages.address() + kStubs - kPageSize;
  const arch::Metric metric = {0, kBits};
  const arch::StubAction times = {.what = arch::TimeCall{.metrics = {&metric, 1}}};
  const auto stub = arch::emit_stub(code, entries, {.actions = {&times, 1}}, {original, kFunction});
  const auto bytes = code.finish();
  if (!bytes || bytes->size() > kStubs - kPageSize) return std::nullopt;
  std::memcpy(stub_pages.bytes(), bytes->data(), bytes->size());
  std::memcpy(stub_pages.bytes() + kStubs - kPageSize, kFunction.data(), kFunction.size());
  if (!runtime_pages.make_executable(extent.data_size) || !stub_pages.make_executable(0))
    return std::nullopt;

  const double bare = nanoseconds_per_call(reinterpret_cast<Function>(original));
  const double probed = nanoseconds_per_call(reinterpret_cast<Function>(stub.begin));
  forget_sequence();
  return std::max(0.0, probed - bare);
}

}  // namespace

std::optional<double> return_probe_cost() {
  static const std::optional<double> cost = measure();
  return cost;
}

}  // namespace pinprick::runtime
