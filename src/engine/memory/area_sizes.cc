#include "engine/memory/area_sizes.h"

#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <bit>

#include "base/machine.h"

namespace pinprick::engine {

uint32_t usable_cpus() {
  return std::min(possible_cpus(), layout::kMaxCpus);
}

SpaceForAreas space_for_areas(const std::string& folder) {
  SpaceForAreas space = {UINT64_MAX, UINT64_MAX};
  struct sysinfo memory = {};
  struct statvfs files = {};
  if (::sysinfo(&memory) == 0) space.memory = uint64_t{memory.totalram} * memory.mem_unit;
  if (::statvfs(folder.c_str(), &files) == 0 && files.f_blocks != 0)
    space.folder = uint64_t{files.f_bavail} * files.f_frsize;
  return space;
}

uint32_t key_log2(uint64_t keys, bool has_histograms) {
  constexpr uint64_t kUsual = 4096, kUsualHistograms = 256, kLeast = 64;
  const uint64_t usual = has_histograms ? kUsualHistograms : kUsual;
  const uint64_t wanted = std::max(keys == 0 ? usual : keys, kLeast);
  const auto log2 = static_cast<uint32_t>(std::bit_width(2 * wanted - 1));
  return std::min(log2, layout::kMostKeyLog2);
}

uint32_t text_log2(uint64_t keys, bool has_histograms, bool has_lists) {
  constexpr uint32_t kOfLists = 2;
  return std::min(key_log2(keys, has_histograms) + (has_lists ? kOfLists : 0),
                  layout::kMostKeyLog2);
}

void choose_ring_size(layout::SessionCounts& counts, uint64_t bytes, uint32_t cpus,
                      const SpaceForAreas& space) {
  constexpr uint32_t kUsual = 22;
  constexpr uint64_t kTogether = 32 << 20;
  counts.event_log2 = kUsual;
  if (bytes != 0) {
    counts.event_log2 = std::clamp(static_cast<uint32_t>(std::bit_width(bytes - 1)),
                                   layout::kLeastEventLog2, layout::kMostEventLog2);
    return;
  }
  const uint64_t most =
      space.folder == UINT64_MAX ? kTogether : std::min(kTogether, space.folder / 4);
  while (counts.event_log2 > layout::kLeastEventLog2 &&
         (uint64_t{cpus} + 1) << counts.event_log2 > most)
    --counts.event_log2;
}

void choose_area_sizes(layout::SessionCounts& counts, uint32_t cpus, const SpaceForAreas& space) {
  constexpr uint64_t kShareOfMemory = 64, kShareOfFolder = 2, kAlways = 64 << 20;
  uint64_t most = UINT64_MAX;
  if (space.memory != UINT64_MAX) most = space.memory / kShareOfMemory;
  most = std::max(most, kAlways);
  if (space.folder != UINT64_MAX) most = std::min(most, space.folder / kShareOfFolder);
  if (counts.event_log2 != 0) most += (uint64_t{cpus} + 1) << counts.event_log2;
  const auto size = [&] { return layout::lay_out(counts).file_size; };
  counts.cpus = cpus;
  if (size() > most) {
    counts.cpus = std::min(counts.cpus - 1, layout::kLockedStripes - 1);
    while (counts.cpus > 1 && size() > most) --counts.cpus;
    counts.cpus = std::max(counts.cpus, 1u);
  }
  const uint64_t block = layout::histogram_size(counts.fraction_bits);
  const uint64_t room = (most - std::min(most, size())) / block;
  const uint64_t each =
      counts.histograms + (counts.has_key_times ? layout::key_entries(counts.key_log2) : 0);
  const uint64_t own = std::max(room - std::min(room, each), room / 2);
  counts.pool_size = (each + std::min(each * counts.cpus, own)) * block;
}

}  // namespace pinprick::engine
