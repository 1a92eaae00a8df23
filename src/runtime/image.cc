#include "runtime/image.h"

#include <cassert>
#include <cstring>

#include "layout/runtime_data.h"

extern "C" {
extern const uint8_t pp_image[], pp_image_end[];
extern const uint8_t pp_enter[], pp_enter_locked[], pp_leave[], pp_leave_locked[];
extern const uint8_t pp_personality[], pp_unwound[];
extern const uint32_t pp_fixups[], pp_fixups_end[];
extern const uint8_t pp_rendezvous[], pp_rendezvous_end[];
}

namespace pinprick::runtime {
namespace {

constexpr uint64_t kCacheLine = 64;

// As in slots.S.
enum class Fixup : uint32_t { rseq, image, bits, unit };

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
      case Fixup::bits:
        change<uint8_t>(image, at, [&](uint8_t) { return spec.fraction_bits; });
        break;
      case Fixup::unit:
        change<uint8_t>(image, at, [&](uint8_t) { return 1u << spec.fraction_bits; });
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

// Parts of the data, as offsets from its begin.
uint64_t heads_offset(uint64_t slot_count) {
  return slot_count * sizeof(layout::Slot);
}

}  // namespace

RuntimeExtent runtime_extent(uint64_t slot_count, uint32_t cpu_count) {
  const uint64_t lists = heads_offset(slot_count) + cpu_count * kCacheLine;
  return {align_up(lists, kPageSize) + sizeof(layout::RuntimeContext),
          align_up(image_size() + slot_count * arch::kSlotCodeSize, kPageSize)};
}

std::array<Address, layout::kLockedStripes> locked_cells(const RuntimeSpec& spec) {
  std::array<Address, layout::kLockedStripes> cells{};
  for (uint32_t i = 0; i < cells.size(); ++i) {
    const uint32_t region = spec.rseq ? 0 : i % (spec.cpu_count + 1);
    cells[i] = spec.cells + region * spec.region_size;
  }
  return cells;
}

std::vector<Address> cpu_cells(const RuntimeSpec& spec) {
  std::vector<Address> cells;
  for (uint32_t cpu = 0; spec.rseq && cpu < spec.cpu_count; ++cpu)
    cells.push_back(spec.cells + (uint64_t{cpu} + 1) * spec.region_size);
  return cells;
}

std::optional<RuntimeImage> build_runtime(Address address, const RuntimeSpec& spec) {
  assert(spec.slot_count > 0 && spec.cpu_count <= layout::kMaxCpus);
  const RuntimeExtent extent = runtime_extent(spec.slot_count, spec.cpu_count);
  RuntimeImage out;
  out.data_address = address;
  out.code_address = address + extent.data_size;
  out.enter = entry(out.code_address, spec.rseq ? pp_enter : pp_enter_locked);

  out.code = fixed_up_image(out.code_address, spec);
  out.code.resize(image_size(), 0xcc);
  arch::Assembler slots_code(out.code_address + out.code.size());
  arch::emit_slot_code(slots_code, out.data_address, spec.slot_count,
                       entry(out.code_address, spec.rseq ? pp_leave : pp_leave_locked));
  const Address first_slot_code = out.code_address + out.code.size();
  auto code = slots_code.finish();
  if (!code) return std::nullopt;
  out.code.insert(out.code.end(), code->begin(), code->end());
  out.slot_code = {first_slot_code, out.code_address + out.code.size()};
  out.personality = entry(out.code_address, pp_personality);
  out.unwound = entry(out.code_address, pp_unwound);

  out.data.resize(extent.data_size);
  for (uint64_t i = 0; i < spec.slot_count; ++i) {
    layout::Slot slot = {};
    slot.code = first_slot_code + i * arch::kSlotCodeSize;
    slot.global_next = i + 1 < spec.slot_count ? static_cast<uint32_t>(i + 2) : 0;
    std::memcpy(out.data.data() + i * sizeof slot, &slot, sizeof slot);
  }
  layout::RuntimeContext context = {};
  context.magic = layout::kContextMagic;
  context.free_list = 1;
  context.slots = out.data_address;
  context.slot_count = spec.slot_count;
  context.ns_multiplier = spec.ns_multiplier;
  const auto locked = locked_cells(spec);
  std::copy(locked.begin(), locked.end(), context.locked_cells);
  const auto cells = cpu_cells(spec);
  std::copy(cells.begin(), cells.end(), context.cpu_cells);
  for (uint32_t cpu = 0; spec.rseq && cpu < spec.cpu_count; ++cpu)
    context.cpu_free[cpu] = out.data_address + heads_offset(spec.slot_count) + cpu * kCacheLine;
  std::memcpy(out.data.data() + extent.data_size - sizeof context, &context, sizeof context);
  return out;
}

std::span<const uint8_t> rendezvous_code() {
  return {pp_rendezvous, pp_rendezvous_end};
}

}  // namespace pinprick::runtime
