#include "runtime/image.h"

#include <sys/auxv.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <map>

#include "arch/system_calls.h"
#include "layout/runtime_data.h"
#include "layout/session_file.h"

extern "C" {
extern const uint8_t pp_image[], pp_image_end[];
extern const uint8_t pp_enter[], pp_enter_locked[], pp_enter_any[], pp_enter_any_locked[];
extern const uint8_t pp_leave[], pp_leave_locked[];
extern const uint8_t pp_add[], pp_add_locked[];
extern const uint8_t pp_add_by_key[], pp_add_by_key_locked[];
extern const uint8_t pp_count_key[], pp_count_key_locked[];
extern const uint8_t pp_sum_key[], pp_sum_key_locked[];
extern const uint8_t pp_extremes_key[], pp_extremes_key_locked[];
extern const uint8_t pp_load[], pp_text[], pp_compare[];
extern const uint8_t pp_event[], pp_event_locked[];
extern const uint8_t pp_event_newest[], pp_event_newest_locked[];
extern const uint8_t pp_every[], pp_every_locked[];
extern const uint8_t pp_pair[];
extern const uint8_t pp_thread[];
extern const uint8_t pp_accounted[], pp_self_time[];
extern const uint8_t pp_stack[];
extern const uint8_t pp_span[], pp_span_locked[];
extern const uint8_t pp_personality[], pp_unwound[], pp_resumed[];
extern const uint32_t pp_fixups[], pp_fixups_end[];
extern const uint8_t pp_thread_in_memory[], pp_thread_in_memory_end[];
extern const uint8_t pp_loader_handshake[], pp_loader_handshake_end[];
extern const uint8_t pp_exec_handshake[], pp_exec_handshake_end[];
extern const uint8_t pp_stop_reads[], pp_stop_reads_end[];
extern const uint8_t pp_before_call[], pp_before_number[], pp_number[],
    pp_before_syscall_function[], pp_before_ending_reads[], pp_unmaps_end[];
extern const uint8_t pp_first_reading[], pp_last_reading[];
struct Frame {
  uint32_t at;
  uint8_t caller;
  int8_t words;
  int8_t argument;
  uint8_t saved;
};
extern const Frame pp_frames[], pp_frames_end[];
}

namespace pinprick::runtime {
namespace {

constexpr uint64_t kCacheLine = 64;
// How many slots are used, or which part of them if there are few, before slots of abandoned calls
// are reused. Reusing costs each call a lookup; but an abandoned slot stays in the process for
// good.
constexpr uint64_t kReusedFrom = 1024;
constexpr uint64_t kReusedAfter = 8;

// As in slots.S.
enum class Fixup : uint32_t { rseq, image, thread, thread_or_none };

template <class T, class F>
void change(std::vector<uint8_t>& bytes, size_t at, F&& f) {
  T value;
  assert(at + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);
  value = static_cast<T>(f(value));
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::vector<uint8_t> fixed_up_image(Address address, const RuntimeSpec& spec) {
  std::vector<uint8_t> image(pp_image, pp_image_end);
  const int32_t rseq = spec.rseq ? spec.rseq->thread_pointer_offset : 0;
  for (const uint32_t* entry = pp_fixups; entry < pp_fixups_end; entry += 2) {
    const size_t at = entry[0];
    switch (static_cast<Fixup>(entry[1])) {
      case Fixup::rseq:
        change<int32_t>(image, at, [&](int32_t field) { return field + rseq; });
        break;
      case Fixup::image:
        change<uint64_t>(image, at, [&](uint64_t offset) { return address + offset; });
        break;
      case Fixup::thread:
        if (spec.thread_pointer == ThreadPointer::in_memory)
          std::copy(pp_thread_in_memory, pp_thread_in_memory_end,
                    image.begin() + static_cast<ptrdiff_t>(at));
        break;
      case Fixup::thread_or_none:
        // xor %eax, %eax; nop
        constexpr std::array<uint8_t, 6> kNone = {0x31, 0xc0, 0x0f, 0x1f, 0x40, 0x00};
        if (spec.thread_pointer == ThreadPointer::in_memory)
          std::copy(kNone.begin(), kNone.end(), image.begin() + static_cast<ptrdiff_t>(at));
        break;
    }
  }
  return image;
}

uint64_t image_size() {
  return align_up(static_cast<uint64_t>(pp_image_end - pp_image), arch::kSlotCodeSize);
}

Address entry(Address image, const uint8_t* symbol) {
  return image + static_cast<uint64_t>(symbol - pp_image);
}

// The per-CPU lists, from the start of the data.
uint64_t heads_offset(uint64_t capacity) {
  return capacity * sizeof(layout::Slot);
}

uint64_t callers_offset(uint64_t capacity, uint32_t cpu_count) {
  return align_up(heads_offset(capacity) + cpu_count * kCacheLine, kPageSize);
}

uint64_t threads_offset(uint64_t capacity, uint32_t cpu_count, uint64_t callers_size) {
  return callers_offset(capacity, cpu_count) + align_up(callers_size, kPageSize);
}

uint64_t open_calls_size(bool times_by_exits) {
  return times_by_exits ? layout::kOpenCallsSize : 0;
}

uint64_t kept_values_size(uint64_t capacity, bool keeps_values) {
  return keeps_values ? align_up(capacity * sizeof(layout::KeptValues), kPageSize) : 0;
}

uint64_t unwind_room(uint64_t unwind_size) {
  return unwind_size == 0 ? 0 : PP_WALK_TABLES_SIZE + align_up(unwind_size, kPageSize);
}

const uint8_t* enter_routine(const RuntimeSpec& spec) {
  if (spec.callers_size == 0) return spec.rseq ? pp_enter_any : pp_enter_any_locked;
  return spec.rseq ? pp_enter : pp_enter_locked;
}

}  // namespace

RuntimeExtent runtime_extent(uint64_t capacity, uint32_t cpu_count, uint64_t callers_size,
                             uint64_t spans, bool times_by_exits, bool keeps_values,
                             uint64_t unwind_size) {
  return {threads_offset(capacity, cpu_count, callers_size) + layout::thread_table_size(spans) +
              open_calls_size(times_by_exits) + kept_values_size(capacity, keeps_values) +
              unwind_room(unwind_size) + sizeof(layout::Regions) + PP_REUSABLE_SIZE +
              sizeof(layout::RuntimeContext),
          align_up(image_size() + capacity * arch::kSlotCodeSize, kPageSize)};
}

Address callers_in(Address address, const RuntimeSpec& spec) {
  return address + callers_offset(spec.capacity, spec.cpu_count);
}

RuntimeExtent runtime_extent(const RuntimeSpec& spec) {
  return runtime_extent(spec.capacity, spec.cpu_count, spec.callers_size, spec.spans,
                        spec.times_by_exits, spec.keeps_values, spec.unwind_size);
}

Range threads_in(Address address, const RuntimeSpec& spec) {
  const Address begin = address + threads_offset(spec.capacity, spec.cpu_count, spec.callers_size);
  return {begin, begin + layout::thread_table_size(spec.spans)};
}

// Area 0 is another one.
uint32_t areas_for_cpus(const RuntimeSpec& spec) {
  return spec.area_count == 0 ? spec.cpu_count : spec.area_count;
}

std::array<Address, layout::kLockedStripes> locked_areas(const RuntimeSpec& spec) {
  std::array<Address, layout::kLockedStripes> addresses{};
  for (uint32_t i = 0; i < addresses.size(); ++i) {
    const uint32_t area = spec.has_area_per_cpu() ? 0 : i % (areas_for_cpus(spec) + 1);
    addresses[i] = spec.areas + area * spec.area_size;
  }
  return addresses;
}

std::vector<Address> cpu_areas(const RuntimeSpec& spec) {
  std::vector<Address> addresses;
  for (uint32_t cpu = 0; spec.has_area_per_cpu() && cpu < spec.cpu_count; ++cpu)
    addresses.push_back(spec.areas + (uint64_t{cpu} + 1) * spec.area_size);
  return addresses;
}

// Only rings that keep the newest events need these.
void set_rings(const RuntimeSpec& spec, layout::RuntimeContext& context) {
  constexpr auto kPartsLog2 = static_cast<uint32_t>(std::countr_zero(uint32_t{PP_RING_PARTS}));
  context.ring_part_log2 = spec.event_log2 - kPartsLog2;
  context.ring_part_mask = -(uint64_t{1} << context.ring_part_log2);
  context.area_count = areas_for_cpus(spec) + 1;
  context.area_size = spec.area_size;
  context.shared_rings = spec.has_area_per_cpu() ? 1 : context.area_count;
  context.trigger_stops = spec.rings == layout::EventRings::newest ? 1 : 0;
}

std::optional<std::vector<Piece>> build_slots(Address address, const RuntimeSpec& spec,
                                              uint64_t first) {
  const Address image = address + runtime_extent(spec).data_size;
  const Address code_address = image + image_size() + first * arch::kSlotCodeSize;
  arch::Assembler code(code_address);
  arch::emit_slot_code(code, address + first * sizeof(layout::Slot), spec.slot_count - first,
                       entry(image, spec.rseq ? pp_leave : pp_leave_locked));
  auto bytes = code.finish();
  if (!bytes) return std::nullopt;
  std::vector<Piece> pieces = {{code_address, *std::move(bytes)}};
  if (first == 0) {
    layout::Slot slot = {};
    slot.code = code_address;
    Piece& data = pieces.emplace_back(Piece{address, {}});
    data.bytes.resize(sizeof slot);
    std::memcpy(data.bytes.data(), &slot, sizeof slot);
  }
  return pieces;
}

std::optional<RuntimeImage> build_runtime(Address address, const RuntimeSpec& spec) {
  assert(spec.slot_count > 0 && spec.slot_count <= spec.capacity &&
         spec.cpu_count <= layout::kMaxCpus);
  assert(spec.spans <= layout::kMostSpans);
  const RuntimeExtent extent = runtime_extent(spec);
  const Address image = address + extent.data_size;
  RuntimeImage out;
  out.data_address = address;
  out.code_address = image;
  out.enter = entry(image, enter_routine(spec));
  out.add = entry(image, spec.rseq ? pp_add : pp_add_locked);
  out.key = entry(image, spec.rseq ? pp_count_key : pp_count_key_locked);
  out.key_sum = entry(image, spec.rseq ? pp_sum_key : pp_sum_key_locked);
  out.key_extremes = entry(image, spec.rseq ? pp_extremes_key : pp_extremes_key_locked);
  out.add_by_key = entry(image, spec.rseq ? pp_add_by_key : pp_add_by_key_locked);
  out.reads = image - sizeof(layout::RuntimeContext) + PP_CONTEXT_READS;
  out.regions = image - sizeof(layout::RuntimeContext) - PP_REUSABLE_SIZE - sizeof(layout::Regions);
  out.first_reading = entry(image, pp_first_reading);
  out.last_reading = entry(image, pp_last_reading);
  out.load = entry(image, pp_load);
  out.text = entry(image, pp_text);
  out.compare = entry(image, pp_compare);
  out.pair = entry(image, pp_pair);
  out.stack = entry(image, pp_stack);
  out.thread = entry(image, pp_thread);
  out.accounted = entry(image, pp_accounted);
  out.self_time = entry(image, pp_self_time);
  out.event = spec.rings == layout::EventRings::oldest
                  ? entry(image, spec.rseq ? pp_event : pp_event_locked)
                  : entry(image, spec.rseq ? pp_event_newest : pp_event_newest_locked);
  out.every = entry(image, spec.rseq ? pp_every : pp_every_locked);
  out.span = entry(image, spec.rseq ? pp_span : pp_span_locked);
  out.slot_code.begin = image + image_size();
  out.slot_code.end = out.slot_code.begin + spec.capacity * arch::kSlotCodeSize;
  const Address after_calls =
      align_up(threads_in(address, spec).end + open_calls_size(spec.times_by_exits), kPageSize);
  if (spec.keeps_values) out.kept_values = after_calls;
  const Address walk_tables = after_calls + kept_values_size(spec.capacity, spec.keeps_values);
  if (spec.unwind_size != 0) {
    out.unwind.begin = walk_tables + PP_WALK_TABLES_SIZE;
    out.unwind.end = out.unwind.begin + spec.unwind_size;
  }
  out.unwind_list = image - sizeof(layout::RuntimeContext) + PP_CONTEXT_UNWIND;
  out.personality = entry(image, pp_personality);
  out.unwound = entry(image, pp_unwound);

  auto slots = build_slots(address, spec, 0);
  if (!slots) return std::nullopt;
  out.pieces = *std::move(slots);
  out.pieces.push_back({image, fixed_up_image(image, spec)});
  layout::RuntimeContext context = {};
  context.magic = layout::kContextMagic;
  context.slots = address;
  context.slot_count = spec.capacity;
  context.fresh_limit = spec.slot_count;
  if (spec.callers_size != 0) context.callers = callers_in(address, spec);
  if (spec.spans != 0) {
    context.threads = threads_in(address, spec).begin;
    context.thread_size = layout::thread_entry_size(spec.spans);
    context.accounted = layout::span_start_offset(spec.spans - 1);
  }
  context.tid_offset = spec.tid_offset;
  if (spec.times_by_exits) context.open_calls = threads_in(address, spec).end;
  context.reuse_from = std::min(kReusedFrom, spec.capacity / kReusedAfter);
  context.ns_multiplier = spec.ns_multiplier;
  context.blocks = spec.blocks.begin;
  if (spec.blocks.size() != 0)
    context.last_block = spec.blocks.size() - layout::histogram_size(spec.most_fraction_bits);
  if (spec.keys != 0) {
    context.keys = spec.keys;
    context.key_mask = (uint64_t{1} << spec.key_log2) - 1;
    context.key_counters = spec.key_counters;
    context.key_sums = spec.key_sums;
    context.key_times = spec.key_times;
    context.extremes = spec.extremes;
    context.extremes_size = spec.extremes_size;
    context.interval = spec.interval;
  }
  if (spec.texts != 0) {
    context.texts = spec.texts;
    context.text_mask = (uint64_t{1} << spec.text_log2) - 1;
    context.text_entries = layout::text_entries_offset(spec.text_log2);
    context.text_count = layout::text_count(spec.text_log2);
  }
  if (spec.event_log2 != 0) {
    context.ring = spec.ring;
    context.ring_capacity = uint64_t{1} << spec.event_log2;
    context.ring_mask = context.ring_capacity - sizeof(uint64_t);
    context.dropped = spec.dropped;
    set_rings(spec, context);
  }
  if (spec.unwind_size != 0) {
    context.rows = walk_tables;
    context.limits = walk_tables + (sizeof(uint64_t) << PP_ROWS_LOG2);
  }
  if (spec.has_pool) {
    context.pool = spec.blocks.begin;
    context.pool_last_taken = context.last_block - PP_POOL_BLOCKS;
  }
  const auto locked = locked_areas(spec);
  std::copy(locked.begin(), locked.end(), context.locked_areas);
  const auto addresses = cpu_areas(spec);
  std::copy(addresses.begin(), addresses.end(), context.cpu_areas);
  for (uint32_t cpu = 0; spec.rseq && cpu < spec.cpu_count; ++cpu)
    context.cpu_free[cpu] = address + heads_offset(spec.capacity) + cpu * kCacheLine;
  Piece& last = out.pieces.emplace_back();
  last.address = image - sizeof context;
  last.bytes.resize(sizeof context);
  std::memcpy(last.bytes.data(), &context, sizeof context);
  return out;
}

ThreadPointer thread_pointer_here() {
  constexpr unsigned long kFsgsbase = 2;  // HWCAP2_FSGSBASE of x86
  return (::getauxval(AT_HWCAP2) & kFsgsbase) != 0 ? ThreadPointer::by_instruction
                                                   : ThreadPointer::in_memory;
}

std::vector<arch::CodeRow> image_frames(Address image) {
  std::vector<arch::CodeRow> rows;
  for (const Frame* one = pp_frames; one < pp_frames_end; ++one)
    rows.push_back({image + one->at, static_cast<arch::CodeRow::Caller>(one->caller), one->words,
                    one->argument, one->saved});
  // The rows of subsections come in the order of the source.
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.from < b.from; });
  // If there are several for one address, the last one counts.
  const auto same = [](const auto& a, const auto& b) { return a.from == b.from; };
  rows.erase(rows.begin(), std::unique(rows.rbegin(), rows.rend(), same).base());
  rows.push_back({image + image_size(), arch::CodeRow::Caller::nowhere});
  return rows;
}

Address resumed_at(Address image) {
  return entry(image, pp_resumed);
}

std::span<const uint8_t> loader_handshake_code() {
  return {pp_loader_handshake, pp_loader_handshake_end};
}

std::span<const uint8_t> stop_reads_code() {
  return {pp_stop_reads, pp_stop_reads_end};
}

std::span<const uint8_t> before_call_code() {
  return {pp_before_call, pp_unmaps_end};
}

std::span<const uint8_t> before_call_code(uint32_t number) {
  static const auto kAll = [] {
    std::map<uint32_t, std::vector<uint8_t>> all;
    for (const uint32_t one : arch::unmapping_calls()) {
      std::vector<uint8_t>& code = all[one];
      code.assign(pp_before_call, pp_unmaps_end);
      std::memcpy(code.data() + (pp_number - pp_before_call), &one, sizeof one);
    }
    return all;
  }();
  return kAll.at(number);
}

size_t before_number() {
  return static_cast<size_t>(pp_before_number - pp_before_call);
}

size_t before_syscall_function() {
  return static_cast<size_t>(pp_before_syscall_function - pp_before_call);
}

size_t before_ending_reads() {
  return static_cast<size_t>(pp_before_ending_reads - pp_before_call);
}

std::span<const uint8_t> exec_handshake_code() {
  return {pp_exec_handshake, pp_exec_handshake_end};
}

}  // namespace pinprick::runtime
