#include "engine/memory/session_runtime.h"

#include <algorithm>

#include "engine/failures.h"
#include "engine/memory/address_choice.h"
#include "engine/memory/area_sizes.h"
#include "runtime/callers.h"

namespace pinprick::engine {
namespace {

// Slots: the calls that can be in flight at once, over all threads, recursion included. The first
// number is there from the start, and there are addresses for the last one. The first ones take 1.5
// MB, which is their code; pages of slots that were never used take no memory.
constexpr uint64_t kFirstSlots = 49152;
constexpr uint64_t kSlotsPerCpu = PP_CPU_FREE_LIMIT;
constexpr uint64_t kMostSlots = 1 << 18;

}  // namespace

RuntimeSizes runtime_sizes(const ArmingPlan& plan, uint64_t slots, std::span<const Range> callers) {
  RuntimeSizes sizes;
  if (plan.needs_runtime()) sizes.capacity = 1;
  if (plan.times()) {
    sizes.capacity = slots != 0 ? slots : kMostSlots;
    sizes.callers_size = runtime::CallerTable::size_for(callers);
  }
  return sizes;
}

runtime::RuntimeSpec runtime_spec(const ArmingPlan& plan, const layout::Session& journal,
                                  const RuntimeSizes& sizes, std::optional<arch::RseqArea> rseq) {
  const layout::FileHeader& header = journal.header;
  runtime::RuntimeSpec spec;
  spec.capacity = sizes.capacity;
  spec.callers_size = sizes.callers_size;
  spec.spans = plan.thread_words();
  spec.times_by_exits = plan.times_by_exits;
  spec.keeps_values = plan.keeps_values();
  spec.unwind_size = sizes.unwind_size;
  spec.thread_pointer = runtime::thread_pointer_here();
  spec.slot_count = std::min(sizes.capacity, kFirstSlots + kSlotsPerCpu * usable_cpus());
  spec.cpu_count = usable_cpus();
  spec.area_count = header.cpu_count;
  spec.most_fraction_bits = header.fraction_bits;
  spec.rseq = rseq;
  spec.ns_multiplier = header.ns_multiplier;
  spec.areas = journal.mappings[mapping_of(journal, layout::MappingEntry::Kind::areas)].address;
  spec.area_size = header.area_size;
  const auto in_target = [&](uint64_t offset) {
    return spec.areas + (offset - header.areas_offset);
  };
  if (header.keys_offset != 0) {
    spec.keys = in_target(header.keys_offset);
    spec.key_log2 = header.key_log2;
    spec.key_counters = layout::key_counter_offset(header, 0);
    spec.key_sums = layout::sums_offset(header);
    spec.key_times = layout::key_times_offset(header, 0);
    if (header.extremes_offset != 0) {
      spec.extremes = in_target(layout::extremes_offset(header));
      spec.extremes_size = layout::extremes_size(header) / 3;
      spec.interval =
          journal.mappings[mapping_of(journal, layout::MappingEntry::Kind::tables)].address +
          offsetof(layout::FileHeader, interval);
    }
  }
  if (header.texts_offset != 0) {
    spec.texts = in_target(header.texts_offset);
    spec.text_log2 = header.text_log2;
  }
  if (header.event_log2 != 0) {
    spec.event_log2 = static_cast<uint32_t>(header.event_log2);
    spec.rings = header.rings;
    spec.ring = layout::ring_offset(header);
    spec.dropped = layout::dropped_offset(header, 0);
  }
  if (header.pool_offset != 0) {
    spec.blocks = {in_target(header.pool_offset),
                   in_target(layout::end_of_blocks(header, header.pool_size))};
    spec.has_pool = true;
  }
  return spec;
}

Result<runtime::RuntimeImage, ledger::SessionError> write_runtime(
    const target::RemoteTarget& target, Address address, const runtime::RuntimeSpec& spec) {
  auto image = runtime::build_runtime(address, spec);
  if (!image) return attach_failure(target.pid(), target::AttachCause::no_address_space);
  if (auto written = write_pieces(target, image->pieces); !written) return fail(written.error());
  return *std::move(image);
}

Result<void, ledger::SessionError> write_pieces(const target::RemoteTarget& target,
                                                const std::vector<runtime::Piece>& pieces) {
  for (const runtime::Piece& piece : pieces)
    if (auto written = target.memory().write(piece.address, piece.bytes); !written)
      return memory_failure(target.pid(), written.error());
  return {};
}

}  // namespace pinprick::engine
