#include "engine/stubs/session_unwinding.h"

#include <algorithm>

#include "arch/assembler.h"
#include "arch/stub.h"
#include "engine/memory/area_sizes.h"
#include "engine/stubs/site_jumps.h"
#include "runtime/image.h"

namespace pinprick::engine {
namespace {

// Of each arena, as if it lay at 0.
std::vector<arch::CodeRow> any_routines() {
  arch::Assembler head(0);
  const std::vector<Address> cpus(usable_cpus());
  arch::ArenaSpec spec;
  spec.cpu_areas = cpus;
  return arch::emit_arena_header(head, spec).frames;
}

}  // namespace

arch::UnwindSpec unwind_spec(const ArmingPlan& plan, const layout::Session& journal,
                             const EmittedFrames& frames, const arch::SlotFrames& slots,
                             const arch::StubShapes& shapes) {
  arch::UnwindSpec spec;
  spec.slots = slots;
  spec.shapes = &shapes;
  if (!frames.runtime.empty()) spec.code.push_back(frames.runtime);
  spec.code.insert(spec.code.end(), frames.routines.begin(), frames.routines.end());
  spec.arenas = frames.stubs;
  for (size_t i : plan.with_trampoline) {
    const placement::SitePatch& patch = plan.set.patches[i];
    spec.trampolines.push_back(
        {patch.plan.trampoline->address + patch.object->bias(), patch.site()});
  }
  for (size_t i : plan.puns) {
    const placement::SitePatch& patch = plan.set.patches[i];
    spec.trampolines.push_back({island_of(journal, patch), patch.site()});
  }
  return spec;
}

UnwindRoom room_for_unwind_tables(const ArmingPlan& plan, const ArenaLayout& layout,
                                  const arch::SlotFrames& slots) {
  arch::StubShapes shapes;
  const uint16_t any = shapes.of_end();
  EmittedFrames frames;
  frames.routines.assign(layout.arenas.size(), any_routines());
  frames.stubs.resize(layout.arenas.size());
  uint64_t shape_bytes = 0;
  for (const StubPiece& piece : layout.pieces) {
    auto& of_arena = frames.stubs[piece.arena].shapes;
    of_arena.resize(of_arena.size() + piece.patches.size() + piece.room / kGap + 1, any);
    shape_bytes += (piece.patches.size() + 1) *
                   arch::StubShapes::most_bytes(piece.room / piece.patches.size());
  }
  if (plan.needs_runtime()) frames.runtime = runtime::image_frames(0);
  arch::Assembler tables(0);
  const auto header =
      arch::emit_unwind_tables(tables, unwind_spec(plan, {}, frames, slots, shapes));
  const uint64_t bytes =
      header.size + std::min<uint64_t>(shape_bytes, arch::StubShapes::kMostBytes + UINT16_MAX);
  return {align_up(bytes, kStubAlignment), static_cast<uint32_t>(header.range_count)};
}

}  // namespace pinprick::engine
