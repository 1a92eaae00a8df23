// A probed function of unwound.S in this very process: its stub, the code of the runtime, and all
// that they read, each in the state that a test asks for.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/rseq.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <ostream>
#include <span>
#include <vector>

#include "arch/code.h"
#include "arch/jump.h"
#include "arch/unwind_tables.h"
#include "arch/unwinder_hook.h"
#include "arch/vfork_hook.h"
#include "base/fd.h"
#include "executable_memory.h"
#include "layout/frame_rows.h"
#include "layout/session_file.h"
#include "runtime/image.h"
#include "stepping.h"

extern "C" {
void __register_frame(void*);    // NOLINT(bugprone-reserved-identifier)
void __deregister_frame(void*);  // NOLINT(bugprone-reserved-identifier)
}

namespace pinprick::runtime::unwinding {

using arch::StackUse;
using arch::StubAction;
using layout::Pass;

using stepping::address_of;
using stepping::kProgram;

// An rseq area that is not registered: the kernel restarts no sequence of the thread.
inline thread_local struct rseq pretended_rseq;

inline arch::RseqArea pretended_area() {
  return {static_cast<int32_t>(reinterpret_cast<char*>(&pretended_rseq) -
                               static_cast<char*>(__builtin_thread_pointer()))};
}

// The state of the entries in the thread's window: all are free; all belong to threads that ended;
// the first is the thread's own; all belong to threads that live.
enum class Entries { free, ended, own, full };

// What the table of keys has where the hit's own key is looked for; nowhere: there is no table.
enum class Keys { nowhere, free, own, of_others, full };

enum class Kind { count, time, value, key, event, pass, hook, vfork };

struct Shape {
  const char* name;
  long (*function)(long);
  uint8_t site = 0;       // where the jump is written, from the function's entry
  uint8_t displaced = 0;  // bytes
  std::vector<StubAction> counts = {};
};

inline void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.name;
}

struct Spec {
  Kind kind = Kind::count;
  bool has_rseq = false;
  uint64_t free_slots = 1;
  Address trampoline = 0;     // 0 if the site leads to the stub
  arch::UnwinderHook hook{};  // for that kind
  // Blocks for histograms: in all, and for per-CPU areas.
  uint64_t blocks = 2;
  uint64_t own_blocks = 1;
  size_t metrics = 1;
  // For spans and gaps.
  Pass pass = Pass::starts;
  Entries entries = Entries::free;
  bool has_begun = false;  // the span, or the gap of the CPU
  Keys keys = Keys::nowhere;
  bool has_sum = false;
  std::optional<layout::NumberOrder> extremes = {};
  bool by_key = false;  // for values
  // For keys: one that is computed instead, and a condition.
  arch::Expression key = {};
  arch::Expression condition = {};
  bool is_unread = false;  // or its condition rejects the hit
  // For events: what they tell, and whether there is room.
  std::vector<arch::Expression> values = {};
  bool has_room = true;
  // For timed calls: what is started when they have returned; and whether a reset drops them.
  std::optional<Pass> gap = std::nullopt;
  bool is_dropped = false;
  // What is computed at the return, by metric, with arguments that are kept.
  std::vector<arch::AtReturn> at_return = {};
  std::vector<arch::Expression> kept = {arch::Source{1}, arch::Source{6}};
  uint32_t frame_rule = 0;  // of all code, for stacks; 0: no rule is known

  bool has_sequences() const {
    // Floating-point numbers are added by a locked instruction.
    if (extremes == layout::NumberOrder::real) return false;
    if (kind == Kind::key) return keys != Keys::nowhere && !is_unread;
    if (kind != Kind::pass) return true;
    return pass == Pass::ends ? has_begun
                              : pass == Pass::starts_gap_of_cpu || pass == Pass::ends_gap_of_cpu;
  }
};

class Program {
 public:
  static constexpr uint64_t kArenaSize = 1 << 16;

  Program(const Shape& shape, const Spec& with)
      : arena_(kArenaSize, near()),
        extent_(runtime_extent(kSlots, 1, 0, 1, false, true, kPageSize)),
        runtime_(extent_.size(), near() + (1 << 20)),
        areas_(kPool + PP_POOL_BLOCKS + 2 * kBlock),
        site_(address_of(shape.function) + shape.site),
        original_(reinterpret_cast<const uint8_t*>(site_),
                  reinterpret_cast<const uint8_t*>(site_) + shape.displaced) {
    EXPECT_NE(arena_.data(), nullptr);
    RuntimeSpec spec;
    spec.capacity = kSlots;
    spec.slot_count = std::max<uint64_t>(1, with.free_slots);
    spec.cpu_count = 1;
    spec.most_fraction_bits = kBits;
    if (with.has_rseq) spec.rseq = pretended_area();
    spec.ns_multiplier = 1ull << 32;
    spec.areas = address_of(areas_.data());
    spec.area_size = kPool / 2;
    spec.blocks = {spec.areas + kPool, spec.areas + areas_.size()};
    spec.has_pool = true;
    auto& pool = *reinterpret_cast<layout::PoolHeader*>(spec.blocks.begin);
    pool.limit = with.blocks * kBlock;
    pool.own_limit = with.own_blocks * kBlock;
    if (with.keys != Keys::nowhere) spec.keys = address_of(keys_.data());
    spec.key_counters = kPool / 8;
    spec.key_sums = kPool / 4;
    spec.key_times = spec.key_counters + keys_.size() * sizeof(uint64_t);
    add_keys(with.keys);
    spec.extremes = address_of(extremes_.data());
    spec.extremes_size = kPool;
    spec.interval = address_of(&interval_);
    spec.texts = address_of(texts_.data());
    spec.text_log2 = kTextLog2;
    spec.event_log2 = kRingLog2;
    spec.ring = kPool / 4;
    spec.dropped = kPool / 8;
    spec.spans = 1;
    spec.keeps_values = true;
    spec.unwind_size = kPageSize;
    spec.tid_offset = kTidOffset;
    const auto runtime = build_runtime(runtime_.address(), spec);
    EXPECT_TRUE(runtime.has_value());
    if (!runtime) return;
    for (const Piece& piece : runtime->pieces)
      runtime_.write(piece.address - runtime_.address(), piece.bytes);
    if (with.free_slots == 0) context().fresh = context().fresh_limit;
    for (const uint64_t area : {0, 1})
      reinterpret_cast<layout::EventRing*>(areas_.data() + area * (kPool / 2) + spec.ring)->head =
          with.has_room ? 0 : uint64_t{1} << kRingLog2;
    context().reads = 1;
    frame_rule_.row.rule = with.frame_rule;
    frame_rule_.object.rows = address_of(&frame_rule_.row);
    if (with.frame_rule != 0) context().unwind = address_of(&frame_rule_);
    context().unwind_generation = uint64_t{1} << PP_GENERATION_SHIFT;
    add_entries(threads_in(runtime_.address(), spec), with);
    if (with.has_begun)
      for (const uint64_t area : {0, 1}) gap_word(area, with) = 1;
    runtime_.seal(extent_.data_size);

    arch::Assembler code(arena_.address());
    const auto cpus = cpu_areas(spec);
    arch::ArenaSpec arena;
    arena.size = kArenaSize;
    arena.routines = {runtime->enter,   runtime->add,        runtime->span,        runtime->key,
                      runtime->key_sum, runtime->add_by_key, runtime->load,        runtime->text,
                      runtime->compare, runtime->event,      runtime->pair,        runtime->stack,
                      runtime->thread,  runtime->every,      runtime->key_extremes};
    arena.routines.accounted = runtime->accounted;
    arena.routines.self_time = runtime->self_time;
    arena.locked_areas = locked_areas(spec);
    arena.cpu_areas = cpus;
    const auto entries = arch::emit_arena_header(code, arena);
    arch::StubShapes shapes;
    arch::UnwindSpec tables;
    code.align(8, 0xcc);
    tables.arenas.push_back({code.here(), 0, {}});
    const auto add = [&](auto&& emit) {
      const Address begin = code.here();
      arch::Stub stub = emit();
      code.align(8, 0xcc);
      tables.arenas[0].shapes.push_back(
          shapes.add(arch::StubShapes::shape_of(stub.frames, begin, code.here() - begin),
                     code.here() - begin));
      return stub;
    };
    const arch::Displaced displaced = {site_, original_};
    arch::TimeCall call = {.metrics = metrics(with), .at_return = with.at_return};
    if (!with.at_return.empty())
      call.kept = {.values = with.kept,
                   .slot = runtime->data_address,
                   .code = runtime->slot_code.begin,
                   .entries = runtime->kept_values};
    if (with.gap) call.gap = {{gap_counters(with), kBits}, layout::span_start_offset(0), *with.gap};
    const StubAction times = {.what = call};
    const StubAction records = {
        .stack = shape.site == 0 ? StackUse::at_entry : StackUse::keep_red_zone,
        .what = arch::RecordValue{metrics(with)[0], arch::Source{4, 2},
                                  with.by_key ? of_key() : arch::Expression()}};
    const StubAction keyed = {
        .stack = records.stack,
        .condition = with.condition,
        .unread = kUnread,
        .what =
            arch::CountByKey{0, with.key.empty() ? of_key() : with.key,
                             with.has_sum ? arch::Source{3} : arch::Expression(), with.extremes}};
    const StubAction tells = {
        .stack = records.stack, .unread = kUnread, .what = arch::RecordEvent{1, with.values}};
    const StubAction passes = {
        .stack = records.stack,
        .what = arch::PassSpan{metrics(with)[0], layout::span_start_offset(0), with.pass}};
    const auto emit = [&] {
      return add([&] {
        switch (with.kind) {
          case Kind::count:
            return arch::emit_stub(code, entries, {.rseq = spec.rseq, .actions = shape.counts},
                                   displaced);
          case Kind::time:
            return arch::emit_stub(code, entries, {.actions = {&times, 1}}, displaced);
          case Kind::value:
            return arch::emit_stub(code, entries, {.actions = {&records, 1}}, displaced);
          case Kind::key:
            return arch::emit_stub(code, entries, {.actions = {&keyed, 1}}, displaced);
          case Kind::event:
            return arch::emit_stub(code, entries, {.actions = {&tells, 1}}, displaced);
          case Kind::pass:
            return arch::emit_stub(code, entries, {.actions = {&passes, 1}}, displaced);
          case Kind::vfork:
            return arch::emit_vfork_hook(code, pretended_area(), displaced);
          default:
            return arch::emit_unwinder_hook(code, with.hook, displaced);
        }
      });
    };
    // The arena has other stubs, too.
    for (int i = 0; i < kOthers; ++i) emit();
    stub_ = emit();
    for (int i = 0; i < kOthers; ++i) emit();
    tables.arenas[0].size = code.here() - tables.arenas[0].begin;
    tables.slots = {runtime->slot_code, runtime->data_address, PP_RECORD_SITE};
    tables.code = {entries.frames, image_frames(runtime->code_address)};
    tables.shapes = &shapes;
    trampoline_ = with.trampoline;
    if (trampoline_ != 0) tables.trampolines.push_back({trampoline_, site_});
    code.align(16, 0);
    const auto header = arch::emit_unwind_tables(code, tables);
    const auto bytes = code.finish();
    EXPECT_TRUE(bytes && bytes->size() < kArenaSize);
    if (!bytes) return;
    arena_.write(0, *bytes);
    arena_.seal();
    frames_ = reinterpret_cast<void*>(header.frames);
    __register_frame(frames_);
    const Address to = trampoline_ == 0 ? site_ : trampoline_;
    const auto jump = arch::encode_jump(to, stub_.begin);
    const auto short_jump = arch::encode_short_jump(site_, to);
    EXPECT_TRUE(jump.has_value() && short_jump.has_value());
    if (!jump || !short_jump) return;
    patch(to, *jump);
    if (trampoline_ != 0) patch(site_, *short_jump);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    patch(site_, original_);
    if (frames_ != nullptr) __deregister_frame(frames_);
  }

  bool is_ours(Address at) const {
    return at == trampoline_ ||
           Range{arena_.address(), runtime_.address() + extent_.size()}.contains(at);
  }
  const arch::Stub& stub() const { return stub_; }
  layout::RuntimeContext& context() {
    return *reinterpret_cast<layout::RuntimeContext*>(runtime_.data() + extent_.data_size -
                                                      sizeof(layout::RuntimeContext));
  }
  uint64_t abandoned() const { return areas_[kAbandonedOffset]; }
  // As a reset does.
  void drop_calls() {
    auto* const slots = reinterpret_cast<layout::Slot*>(runtime_.data());
    for (uint64_t i = 0; i < kSlots; ++i)
      if (slots[i].return_address != 0) slots[i].tsc |= layout::kTscDropped;
  }
  bool has_recorded() const {
    return reinterpret_cast<const layout::PoolHeader*>(areas_.data() + kPool)->taken != 0;
  }
  // Has the gap of any area begun?
  bool has_gap(const Spec& with) { return gap_word(0, with) != 0 || gap_word(1, with) != 0; }
  // As if the last call had not returned: its slot is in no list, and in the table.
  void leave_slot() {
    auto& slot = *reinterpret_cast<layout::Slot*>(runtime_.data());
    slot.return_address = address_of(step_returned);
    slot.claimed = 1;
    context().free_list = 0;
    if (auto* const list = reinterpret_cast<uint64_t*>(context().cpu_free[0])) *list = 0;
    auto* const reusable = reinterpret_cast<uint32_t*>(address_of(&context()) - PP_REUSABLE_SIZE);
    std::fill_n(reusable, PP_REUSABLE_SIZE / sizeof *reusable, 1);
  }
  Range runtime_code() const {
    return {runtime_.address() + extent_.data_size, runtime_.address() + extent_.size()};
  }

 private:
  static constexpr uint64_t kSlots = 4;
  static constexpr uint64_t kAbandonedOffset = offsetof(layout::TimeCounters, abandoned);
  static constexpr unsigned kBits = 3;
  static constexpr uint64_t kBlock = layout::histogram_size(kBits);
  static constexpr uint64_t kPool = 1 << 13;  // after two areas
  static constexpr uint64_t kUnread = kPool / 2 - 8;
  static constexpr uint32_t kTextLog2 = 2;
  static constexpr uint32_t kRingLog2 = 10;
  static constexpr int kOthers = 20;  // some more than are in a group

  static std::span<const arch::Metric> metrics(const Spec& with) {
    static constexpr arch::Metric kAll[] = {{0, kBits}, {sizeof(layout::TimeCounters), 0}};
    return std::span(kAll).first(with.metrics);
  }
  // Where glibc has a thread's TID; any word that does not change will do.
  static constexpr int64_t kTidOffset = 0x2d0;
  static void add_entries(Range threads, const Spec& with) {
    if (with.entries == Entries::free) return;
    const auto control_block = address_of(static_cast<char*>(__builtin_thread_pointer()));
    uint32_t tid = 0;
    std::memcpy(&tid, reinterpret_cast<char*>(control_block) + kTidOffset, sizeof tid);
    const uint64_t home = control_block * 0x9e3779b97f4a7c15 >> (64 - PP_THREADS_LOG2);
    for (uint64_t i = 0; i < PP_THREAD_WINDOW; ++i) {
      auto* const entry = reinterpret_cast<layout::ThreadEntry*>(
          threads.begin + (home + i) * layout::thread_entry_size(1));
      const bool is_own = i == 0 && with.entries == Entries::own;
      entry->owner = is_own ? (control_block << 16) + tid : uint64_t{1} << 40;
      entry->tid = with.entries == Entries::full ? 77 : 0;
      reinterpret_cast<uint64_t*>(entry + 1)[0] = !is_own || with.has_begun;
    }
  }
  // One number has the first entry of the window, as there is one hash.
  static constexpr uint64_t kKey = 77, kOwner = 1;
  static arch::Expression of_key() { return arch::Source{.instead = arch::Source::Constant{kKey}}; }
  void add_keys(Keys keys) {
    if (keys == Keys::own) keys_[0] = {kKey, kOwner};
    if (keys == Keys::of_others || keys == Keys::full) std::fill_n(keys_.begin(), 3, kOther);
    if (keys == Keys::full) keys_.fill({kKey, kOwner + PP_KEY_FILLING});
  }
  static constexpr layout::KeyEntry kOther = {kKey + 1, kOwner};

  // Where the gap's counters are in an area, after those of the metrics if a call is timed.
  static uint64_t gap_counters(const Spec& with) {
    return with.kind == Kind::time ? with.metrics * sizeof(layout::TimeCounters) : 0;
  }
  uint64_t& gap_word(uint64_t area, const Spec& with) {
    return *reinterpret_cast<uint64_t*>(areas_.data() + area * (kPool / 2) + gap_counters(with) +
                                        PP_GAP_BEGAN);
  }
  static Address near() { return align_up(kProgram.begin, 1 << 21) - (64 << 20); }
  static void patch(Address at, std::span<const uint8_t> bytes) {
    const auto memory = open_file("/proc/self/mem", O_RDWR);
    EXPECT_TRUE(write_at(memory->get(), bytes, at));
  }

  ExecutableMemory arena_;
  RuntimeExtent extent_;
  ExecutableMemory runtime_;
  std::vector<uint8_t> areas_;
  std::vector<uint8_t> extremes_ = std::vector<uint8_t>(3 * kPool);
  uint64_t interval_ = 1;
  std::vector<uint64_t> texts_ = std::vector<uint64_t>(layout::texts_size(kTextLog2) / 8 + 1);
  std::array<layout::KeyEntry, layout::key_entries(0)> keys_ = {};
  // All code has this rule.
  struct {
    layout::UnwindList list = {1};
    layout::UnwindObject object = {.begin = 0, .size = UINT64_MAX, .rows = 0, .row_count = 1};
    layout::FrameRow row;
  } frame_rule_;
  Address site_;
  Address trampoline_ = 0;
  std::vector<uint8_t> original_;
  arch::Stub stub_;
  void* frames_ = nullptr;
};

}  // namespace pinprick::runtime::unwinding
