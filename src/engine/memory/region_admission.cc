#include "engine/memory/region_admission.h"

#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "arch/syscall.h"
#include "arch/system_calls.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/machine.h"
#include "base/process_folder.h"
#include "engine/calls/thread_ids.h"
#include "engine/memory/kept_memory.h"
#include "engine/memory/rseq_areas.h"
#include "engine/owners/shared_sites.h"
#include "engine/text/read_permission.h"
#include "image/maps.h"
#include "layout/runtime_data.h"
#include "ledger/discovery.h"
#include "patch/thread_stacks.h"

namespace pinprick::engine {
namespace {

bool has_membarrier() {
  const long commands = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  return commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
}

// PAGEMAP_SCAN of <linux/fs.h>, since Linux 6.7.
struct PageRegion {
  uint64_t begin, end, categories;
};
struct PagemapScan {
  uint64_t size = sizeof(PagemapScan);
  uint64_t flags = 0;
  uint64_t begin = 0, end = 0, walk_end = 0;
  uint64_t regions = 0, region_count = 0, most_pages = 0;
  uint64_t inverted = 0, all_of = 0, any_of = 0, returned = 0;
};
static_assert(sizeof(PagemapScan) == 96);
constexpr unsigned long kPagemapScan = _IOWR('f', 16, PagemapScan);
constexpr uint64_t kGuardPage = 1 << 8;

// Finds guard pages (MADV_GUARD_INSTALL), which maps do not show.
class GuardPages {
 public:
  explicit GuardPages(pid_t pid) {
    if (auto file = open_file(process_folder(pid) + "/pagemap", O_RDONLY))
      pagemap_ = *std::move(file);
  }
  // May there be any? Linux has them since 6.13, and tells where since 6.16.
  bool may_be_in(Range range) const {
    PagemapScan scan;
    std::array<PageRegion, 1> found;
    scan.begin = range.begin;
    scan.end = range.end;
    scan.regions = reinterpret_cast<uint64_t>(found.data());
    scan.region_count = found.size();
    scan.most_pages = 1;
    scan.all_of = scan.returned = kGuardPage;
    const int count = ::ioctl(pagemap_.get(), kPagemapScan, &scan);
    return count != 0 && (count > 0 || kernel_version() >= KernelVersion{6, 13});
  }

 private:
  Fd pagemap_;
};

bool overlaps_any(Range range, std::span<const Range> others) {
  return std::any_of(others.begin(), others.end(),
                     [&](Range other) { return range.overlaps(other); });
}

// All memory that sessions have in the process, also those that it has by a fork.
std::vector<Range> memory_of_sessions(pid_t pid, const std::vector<image::Mapping>& maps) {
  std::vector<Range> all;
  const auto note = [&](const layout::Session& session) {
    for (const layout::MappingEntry& entry : session.mappings)
      if (entry.size != 0) all.push_back({entry.address, entry.address + entry.size});
  };
  for (const layout::Session& one : ledger::find_journals(pid).journals) note(one);
  for (const ledger::FoundSession& one : ledger::find_inherited(pid, maps)) note(one.journal);
  return all;
}

// The programs and libraries that the loader has mapped, and how long their files are.
class LoadedFiles {
 public:
  LoadedFiles(pid_t pid, const std::vector<image::DetailedMapping>& maps) {
    for (const auto& [mapping, is_ordinary] : maps) {
      if (!mapping.executable || mapping.inode == 0 || mapping.deleted) continue;
      const auto [one, is_new] = sizes_.try_emplace({mapping.device, mapping.inode}, 0);
      if (!is_new) continue;
      struct stat file = {};
      const std::string path = process_folder(pid) + "/root" + mapping.path;
      if (::stat(path.c_str(), &file) == 0 && file.st_dev == mapping.device &&
          file.st_ino == mapping.inode)
        one->second = align_up(static_cast<uint64_t>(file.st_size), kPageSize);
    }
  }
  // Is all of the mapping of such a file, as it is, and before its end?
  bool have(const image::Mapping& mapping) const {
    const auto found = sizes_.find({mapping.device, mapping.inode});
    return found != sizes_.end() && !mapping.shared && !mapping.deleted &&
           mapping.offset + mapping.range.size() <= found->second;
  }

 private:
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> sizes_;  // by device and inode
};

bool is_plain_memory(const image::Mapping& mapping) {
  return mapping.inode == 0 && !mapping.shared && !mapping.executable &&
         (mapping.path.empty() || mapping.path == "[heap]" || mapping.path == "[stack]" ||
          mapping.path.starts_with("[anon:"));
}

struct Candidates {
  std::vector<image::Mapping> maps;  // by address
  bool generates_code = false;
  bool has_other_code = false;  // of files that were not searched for system calls
};

// Returns the mappings that may be admitted; nullopt if they cannot be read, or are too many.
std::optional<Candidates> candidates_of(pid_t pid, const target::Memory& memory,
                                        const std::set<image::FileNumber>& watched) {
  // To look at more would take too long while the process stands still.
  constexpr size_t kMost = 16384;
  const auto maps = image::read_maps(pid);
  if (!maps || maps->size() > kMost) return std::nullopt;
  const auto all = image::read_detailed_maps(pid);
  if (!all) return std::nullopt;
  const LoadedFiles files(pid, *all);
  const std::vector<Range> ours = memory_of_sessions(pid, *maps);
  const GuardPages guards(pid);
  Candidates found;
  found.generates_code = has_generated_code(memory, *maps, ours);
  for (const image::DetailedMapping& one : *all) {
    const image::Mapping& mapping = one.mapping;
    if (overlaps_any(mapping.range, ours)) continue;
    if (mapping.executable && mapping.inode != 0 &&
        !watched.contains({mapping.device, mapping.inode}))
      found.has_other_code = true;
    if (mapping.readable && one.is_ordinary && (is_plain_memory(mapping) || files.have(mapping)) &&
        !guards.may_be_in(mapping.range))
      found.maps.push_back(mapping);
  }
  return found;
}

// Those that are still the same.
std::vector<image::Mapping> unchanged(const std::vector<image::Mapping>& before,
                                      const std::vector<image::Mapping>& now) {
  std::vector<image::Mapping> same;
  for (const image::Mapping& mapping : now) {
    const auto was =
        std::lower_bound(before.begin(), before.end(), mapping.range.begin,
                         [](const auto& one, Address at) { return one.range.begin < at; });
    if (was != before.end() && was->range == mapping.range && same_file(*was, mapping) &&
        was->readable == mapping.readable && was->writable == mapping.writable &&
        was->executable == mapping.executable && was->shared == mapping.shared)
      same.push_back(mapping);
  }
  return same;
}

// The code in which no thread may be at an admission. Neither may one be in a system call that may
// unmap memory.
struct UnmapPaths {
  const DirectReads& to;
  std::vector<Range> ranges;  // all

  UnmapPaths(const DirectReads& reads, const OtherSites& others) : to(reads) {
    for (const UnmapHook& hook : to.hooks)
      for (const Range range : {hook.code, hook.original})
        if (!range.empty()) ranges.push_back(range);
    // Of other sessions, all code counts: which of it are hooks is not known.
    for (const Range code : others.code())
      if (!overlaps_any(code, to.own_code)) ranges.push_back(code);
  }
  // A hook makes system calls, too, and waits in them. But a thread may wait in another call that
  // it makes where it might unmap something.
  bool contain(const target::StoppedThread& thread, bool in_call) const {
    const Address at = thread.instruction_pointer();
    if (in_call)
      for (const UnmapHook& hook : to.hooks)
        if (at == hook.after_call || hook.original.contains(at)) return false;
    return std::any_of(ranges.begin(), ranges.end(), [&](Range one) { return one.contains(at); });
  }
};

bool is_on_its_way(const target::StoppedThread& thread, const std::vector<image::Mapping>& maps,
                   const target::Memory& memory, const UnmapPaths& paths) {
  if (thread.is_worker()) return false;
  const bool in_call = arch::in_system_call(thread.registers);
  if (in_call && arch::may_unmap(std::vector{arch::syscall_number(thread.registers)})) return true;
  return paths.contain(thread, in_call) ||
         patch::signal_returns_to(maps, memory, thread, paths.ranges);
}

// A table of regions, those next to each other as one. If there are too many, the largest ones.
std::unique_ptr<layout::Regions> table_of(const std::vector<image::Mapping>& maps,
                                          const DirectReads& to) {
  auto table = std::make_unique<layout::Regions>();
  std::vector<Range> ranges;
  bool after_heap = true;  // the heap is a region of its own, so that it can get shorter
  for (const image::Mapping& mapping : maps) {
    const bool is_heap = mapping.path == "[heap]";
    if (is_heap) {
      if (table->heap_begin == 0) table->heap_begin = mapping.range.begin;
      table->heap_end = mapping.range.end;
    }
    if (!ranges.empty() && ranges.back().end == mapping.range.begin && !is_heap && !after_heap)
      ranges.back().end = mapping.range.end;
    else
      ranges.push_back(mapping.range);
    after_heap = is_heap;
  }
  constexpr size_t kMost = PP_MOST_REGIONS - 1;
  if (ranges.size() > kMost) {
    std::nth_element(ranges.begin(), ranges.begin() + kMost, ranges.end(),
                     [](Range a, Range b) { return a.size() > b.size(); });
    ranges.resize(kMost);
    std::sort(ranges.begin(), ranges.end(), [](Range a, Range b) { return a.begin < b.begin; });
  }
  const size_t used = std::bit_ceil(ranges.size() + 1);
  for (size_t i = 0; i < ranges.size(); ++i) {
    table->list[i + 1] = {ranges[i].begin, ranges[i].size()};
    table->admitted[i + 1] = ranges[i].size();
  }
  for (size_t i = ranges.size() + 1; i < used; ++i) table->list[i] = {UINT64_MAX, 0};
  table->bytes = used * sizeof(layout::Region);
  table->first_cs = to.first_reading;
  table->last_cs = to.last_reading;
  table->rseq = to.rseq.thread_pointer_offset;
  return table;
}

template <class T>
std::optional<T> value_at(const target::Memory& memory, Address address) {
  T value = {};
  if (!memory.read_value(address, value)) return std::nullopt;
  return value;
}

// The length is 0 until the rest is written. If we die before that, the threads go on with a table
// by which nothing may be read.
bool write_table(const target::Memory& memory, Address at, layout::Regions& table) {
  static_assert(offsetof(layout::Regions, bytes) == 0);
  const uint64_t searched = std::exchange(table.bytes, 0);
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(&table), sizeof table);
  return memory.write_value(at, uint64_t{0}) && memory.write(at, bytes) &&
         memory.write_value(at, searched);
}

Admission admit_now(const target::RemoteTarget& target, const DirectReads& to,
                    const UnmapPaths& paths, uint64_t& stopped_ns) {
  const target::Memory& memory = target.memory();
  const Address changes_at = to.regions + offsetof(layout::Regions, changes);
  const auto changes = value_at<uint64_t>(memory, changes_at);
  const auto before = candidates_of(target.pid(), memory, to.watched);
  if (!changes || !before || before->has_other_code) return Admission::later;
  if (before->generates_code) return Admission::code_generated;
  auto stopped = target::Stop::all_threads(target.pid());
  if (!stopped) return Admission::later;
  target::Stop stop = *std::move(stopped);
  const auto decide = [&] {
    if (!target.same_image()) return Admission::reads_forbidden;
    const auto maps = image::read_maps(target.pid());
    const auto may_read = value_at<uint64_t>(memory, to.reads);
    if (!maps || !may_read || value_at<uint64_t>(memory, changes_at) != changes)
      return Admission::later;
    if (*may_read == 0) return Admission::reads_forbidden;
    // Hits find their thread by its control block.
    if (!all_have_rseq(stop, to.rseq) || !all_have_control_blocks(stop, target))
      return Admission::no_rseq;
    if (!filters_allow_waits_for_readers(stop, to.calls)) return Admission::calls_refused;
    if (std::any_of(stop.threads().begin(), stop.threads().end(),
                    [&](const auto& one) { return is_on_its_way(one, *maps, memory, paths); }))
      return Admission::later;
    const auto table = table_of(unchanged(before->maps, *maps), to);
    table->changes = *changes;
    return write_table(memory, to.regions, *table) ? Admission::done : Admission::later;
  };
  const Admission decided = decide();
  stopped_ns += std::move(stop).resume();
  return decided;
}

}  // namespace

Admission admit_regions(const target::RemoteTarget& target, const DirectReads& to,
                        uint64_t& stopped_ns) {
  constexpr int kAttempts = 3;
  constexpr uint64_t kPauseNs = 500'000;
  if (!has_membarrier()) return Admission::calls_refused;
  const UnmapPaths paths(to, OtherSites::find(target.pid(), target.memory()));
  Admission decided = Admission::later;
  for (int attempt = 1; attempt <= kAttempts && decided == Admission::later; ++attempt) {
    if (attempt != 1) sleep_ns(kPauseNs);
    decided = admit_now(target, to, paths, stopped_ns);
  }
  return decided;
}

Address regions_in(const layout::MappingEntry& runtime_data) {
  return runtime_data.address + runtime_data.size - sizeof(layout::RuntimeContext) -
         PP_REUSABLE_SIZE - sizeof(layout::Regions);
}

void forbid_regions(const target::Memory& memory, Address regions) {
  static_cast<void>(memory.write_value(regions + offsetof(layout::Regions, bytes), uint64_t{0}));
}

}  // namespace pinprick::engine
