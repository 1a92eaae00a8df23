#include "engine/stubs/arena_layout.h"

#include <algorithm>

#include "arch/stub.h"
#include "base/task.h"
#include "engine/memory/area_sizes.h"

namespace pinprick::engine {
namespace {

using placement::SitePatch;

constexpr size_t kPiece = 512;  // patches

// Magic, tables and the shared routine.
uint64_t size_of_head(Children children) {
  const uint64_t apart =
      children == Children::forget ? arch::tables_in_arena(usable_cpus()).end + kPageSize : 0;
  return 640 + 8 * uint64_t{usable_cpus()} + apart;
}

}  // namespace

ArenaLayout lay_out_arenas(const ArmingPlan& plan, const StubAssembler& stubs, Children children) {
  ArenaLayout layout;
  layout.islands = pages_of_islands(plan);
  for (size_t i = 0; i < plan.set.patches.size(); ++i) {
    check_cancelled();
    const SitePatch& patch = plan.set.patches[i];
    if (layout.arenas.empty() || layout.arenas.back().object != patch.object)
      layout.arenas.push_back(
          {patch.object, patch.object->extent(), {i, 0}, 0, size_of_head(children)});
    Arena& arena = layout.arenas.back();
    if (patch.plan.trampoline && patch.plan.is_pun()) {
      const Address kept = patch.plan.trampoline->address + patch.object->bias();
      arena.reach = {std::min(arena.reach.begin, kept), std::max(arena.reach.end, kept + 1)};
    }
    if (arena.patches.size() % kPiece == 0)
      layout.pieces.push_back({layout.arenas.size() - 1, {i, 0}, 0});
    const uint64_t room = stubs.most_room(i);
    layout.pieces.back().patches.count += 1;
    layout.pieces.back().room += room;
    arena.patches.count += 1;
    arena.size += room;
  }
  return layout;
}

std::vector<Range> pages_of_islands(const ArmingPlan& plan) {
  std::vector<Address> pages;
  pages.reserve(plan.puns.size());
  for (size_t i : plan.puns) {
    const SitePatch& patch = plan.set.patches[i];
    pages.push_back(align_down(*patch.plan.island + patch.object->bias(), kPageSize));
  }
  std::sort(pages.begin(), pages.end());
  std::vector<Range> ranges;
  for (Address page : pages) {
    if (ranges.empty() || ranges.back().end < page) ranges.push_back({page, 0});
    ranges.back().end = page + kPageSize;
  }
  return ranges;
}

}  // namespace pinprick::engine
