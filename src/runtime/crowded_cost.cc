// crowded_probe_costs(): functions that are called in turn, without and with probes.
//
//     callers:    call f_7; call f_0; call f_11; ...; ret        all functions, in a mixed order
//     f_i:        nopl; ret           64 bytes apart             without probes
//     g_i:        jmp stub_i; ret     as pinprick would leave them
//     stub_i:     its actions; nopl; jmp g_i + 5
#include <sys/rseq.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "arch/jump.h"
#include "arch/stub.h"
#include "base/clock.h"
#include "base/machine.h"
#include "layout/session_file.h"
#include "runtime/cost_pages.h"
#include "runtime/image.h"
#include "runtime/probe_cost.h"

namespace pinprick::runtime {
namespace {

constexpr uint32_t kCrowdBits = 3;
constexpr uint64_t kStride = 64;
constexpr uint64_t kCrowdSlots = 64;
constexpr int kCrowdRounds = 9;

// nopl 0(%rax,%rax,1); ret
constexpr std::array<uint8_t, 5> kNop = {0x0f, 0x1f, 0x44, 0x00, 0x00};
constexpr uint8_t kReturn = 0xc3;
constexpr uint8_t kCall = 0xe8;
constexpr uint64_t kCallLength = 5;

enum class What : uint8_t { counts, counts_locked, times };

std::optional<arch::RseqArea> own_rseq() {
  // A CPU with a higher number has no place in the tables.
  if (__rseq_size == 0 || possible_cpus() > layout::kMaxCpus) return std::nullopt;
  return arch::RseqArea{static_cast<int32_t>(__rseq_offset)};
}

class Crowd {
 public:
  Crowd(What what, size_t functions)
      : what_(what),
        functions_(functions),
        cpus_(std::min(possible_cpus(), layout::kMaxCpus)),
        area_size_(align_up(counters_size() + blocks_size(), kPageSize)),
        areas_((cpus_ + 1) * area_size_),
        code_(text_size() + stubs_size()) {}

  std::optional<double> cost() {
    if (!areas_.ok() || !code_.ok() || !prepare_runtime() || !emit()) return std::nullopt;
    if (!code_.make_executable(0)) return std::nullopt;
    const double bare = pass_ns(caller(false)), probed = pass_ns(caller(true));
    forget_sequence();
    return std::max(0.0, probed - bare) / static_cast<double>(functions_);
  }

 private:
  bool times() const { return what_ == What::times; }
  uint64_t counters_size() const {
    return align_up(functions_ * (times() ? sizeof(layout::TimeCounters) : sizeof(uint64_t)),
                    kStride);
  }
  uint64_t blocks_size() const {
    return times() ? functions_ * layout::histogram_size(kCrowdBits) : 0;
  }
  uint64_t caller_size() const { return align_up(functions_ * kCallLength + 1, kPageSize); }
  uint64_t text_size() const {
    return align_up(2 * functions_ * kStride, kPageSize) + 2 * caller_size();
  }
  uint64_t stubs_size() const {
    return align_up(64 * kPageSize + functions_ * arch::most_stub_bytes(1, kNop.size()), kPageSize);
  }
  Address function(size_t number, bool probed) const {
    return code_.address() + (number + (probed ? functions_ : 0)) * kStride;
  }
  Address caller(bool probed) const {
    return code_.address() + text_size() - (probed ? 1 : 2) * caller_size();
  }
  Address arena() const { return code_.address() + text_size(); }
  void put(Address at, const void* bytes, size_t size) const {
    std::memcpy(code_.bytes() + (at - code_.address()), bytes, size);
  }

  bool prepare_runtime();
  bool emit();
  void emit_callers() const;
  double pass_ns(Address caller) const;

  const What what_;
  const size_t functions_;
  const uint32_t cpus_;
  const uint64_t area_size_;
  const Pages areas_;
  const Pages code_;
  std::optional<Pages> runtime_;
  RuntimeSpec spec_;
  Address enter_ = 0;
};

bool Crowd::prepare_runtime() {
  // Calls from anywhere are timed.
  spec_.slot_count = spec_.capacity = kCrowdSlots;
  spec_.cpu_count = cpus_;
  spec_.most_fraction_bits = kCrowdBits;
  if (what_ != What::counts_locked) spec_.rseq = own_rseq();
  spec_.ns_multiplier = ns_multiplier();
  spec_.areas = areas_.address();
  spec_.area_size = area_size_;
  spec_.blocks = {areas_.address(), areas_.address() + (cpus_ + 1) * area_size_};
  if (!times()) return true;
  for (uint64_t i = 0; i <= cpus_; ++i)
    for (uint64_t f = 0; f < functions_; ++f) {
      const uint64_t block =
          i * area_size_ + counters_size() + f * layout::histogram_size(kCrowdBits);
      std::memcpy(areas_.bytes() + i * area_size_ + f * sizeof(layout::TimeCounters) +
                      offsetof(layout::TimeCounters, block),
                  &block, sizeof block);
    }
  const RuntimeExtent extent = runtime_extent(spec_);
  runtime_.emplace(extent.size());
  if (!runtime_->ok()) return false;
  const auto image = build_runtime(runtime_->address(), spec_);
  if (!image) return false;
  for (const Piece& piece : image->pieces)
    std::memcpy(runtime_->bytes() + (piece.address - runtime_->address()), piece.bytes.data(),
                piece.bytes.size());
  enter_ = image->enter;
  return runtime_->make_executable(extent.data_size);
}

bool Crowd::emit() {
  const auto cpu_table = cpu_areas(spec_);
  arch::ArenaSpec header;
  header.size = stubs_size();
  header.routines.time = enter_;
  header.locked_areas = locked_areas(spec_);
  header.cpu_areas = cpu_table;
  header.has_switches = true;
  arch::Assembler code(arena());
  const auto entries = arch::emit_arena_header(code, header);
  for (size_t i = 0; i < functions_; ++i) {
    const arch::Metric metric = {i * sizeof(layout::TimeCounters), kCrowdBits};
    arch::StubAction action;
    if (times())
      action.what = arch::TimeCall{.metrics = {&metric, 1}};
    else
      action.what = arch::CountHit{static_cast<uint32_t>(i * sizeof(uint64_t))};
    const Address site = function(i, true);
    const auto stub = arch::emit_stub(
        code, entries, {.rseq = spec_.rseq, .has_switches = true, .actions = {&action, 1}},
        {site, kNop});
    const auto jump = arch::encode_jump(site, stub.begin);
    if (!jump) return false;
    put(site, jump->data(), jump->size());
    put(site + kNop.size(), &kReturn, 1);
    put(function(i, false), kNop.data(), kNop.size());
    put(function(i, false) + kNop.size(), &kReturn, 1);
  }
  const auto bytes = code.finish();
  if (!bytes || bytes->size() > stubs_size()) return false;
  put(arena(), bytes->data(), bytes->size());
  emit_callers();
  return true;
}

// The order is mixed, so that what is fetched ahead does not help.
void Crowd::emit_callers() const {
  std::vector<size_t> order(functions_);
  for (size_t i = 0; i < functions_; ++i) order[i] = i;
  uint64_t state = 1;
  for (size_t i = functions_; i > 1; --i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    std::swap(order[i - 1], order[(state >> 33) % i]);
  }
  for (const bool probed : {false, true}) {
    Address at = caller(probed);
    for (const size_t i : order) {
      const auto distance = static_cast<int32_t>(function(i, probed) - (at + kCallLength));
      put(at, &kCall, 1);
      put(at + 1, &distance, sizeof distance);
      at += kCallLength;
    }
    put(at, &kReturn, 1);
  }
}

// A fast one of a few rounds: others make a round longer, and in the fastest a cache may have
// helped.
[[gnu::noinline]] double Crowd::pass_ns(Address caller) const {
  constexpr int kPasses = 16;
  const auto pass = reinterpret_cast<void (*)()>(caller);
  std::array<double, kCrowdRounds> rounds{};
  for (double& round : rounds) {
    const uint64_t begin = monotonic_ns();
    for (int i = 0; i < kPasses; ++i) pass();
    round = static_cast<double>(monotonic_ns() - begin) / kPasses;
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds[kCrowdRounds / 4];
}

std::optional<CrowdedCosts> measure_all() {
  // The stubs and counters of these do not fit into a first cache.
  constexpr size_t kCounted = 1024, kTimed = 256;
  const auto count = Crowd(What::counts, kCounted).cost();
  const auto locked = Crowd(What::counts_locked, kCounted).cost();
  const auto call = Crowd(What::times, kTimed).cost();
  if (!count || !locked || !call) return std::nullopt;
  return CrowdedCosts{*count, *locked, *call};
}

}  // namespace

std::optional<CrowdedCosts> crowded_probe_costs() {
  static const std::optional<CrowdedCosts> costs = measure_all();
  return costs;
}

}  // namespace pinprick::runtime
