#include "cli/measure/leak_log.h"

#include <algorithm>
#include <utility>

#include "cli/measure/leak_patterns.h"
#include "cli/render/renderer.h"

namespace pinprick::cli {
namespace {

using ValueKind = session::EventValue::Kind;
using EventKind = AllocationEvent::Kind;
__extension__ using Wide = unsigned __int128;

}  // namespace

LeakLog::LeakLog(const Options& options)
    : options_(options), ns_multiplier_(ns_multiplier()), blocks_(options.blocks) {}

bool LeakLog::is_wanted(uint64_t pointer, uint64_t size) const {
  return size >= options_.min_size && is_followed(pointer, options_.sample);
}

// A value that could not be read is told as 0: there is no such block.
void LeakLog::event(const session::Event& event) {
  Kept kept;
  kept.process = event.process.pid;
  kept.thread = event.tid;
  kept.tsc = event.tsc;
  kept.start_tsc = event.tsc;
  // This start is a little late, as the event read the clock again after it had walked the stack.
  if (event.latency_ns) kept.start_tsc -= ticks_in(*event.latency_ns, ns_multiplier_);
  const session::EventValue* stack = nullptr;
  bool has_new = false, has_size = false;
  for (const session::EventValue& value : event.values) {
    const uint64_t number = value.kind == ValueKind::unread ? 0 : value.number;
    if (value.name == kNewPointer) {
      kept.allocated = number;
      has_new = true;
    } else if (value.name == kOldPointer) {
      kept.freed = number;
      if (has_new) kept.kind = EventKind::reallocation;
    } else if (value.name == kMovedPointer) {
      kept.freed = number;
      kept.kind = EventKind::reallocation_begins;
    } else if (value.name == kBlockSize) {
      kept.size = number;
      has_size = true;
    } else if (value.name == kBlockStack) {
      stack = &value;
    }
  }
  if (has_new && kept.kind == EventKind::free) kept.kind = EventKind::allocation;
  kept.has_failed = kept.kind == EventKind::reallocation && has_failed(kept.allocated, kept.size);
  if (!is_wanted(kept.allocated, has_size ? kept.size : UINT64_MAX)) kept.allocated = 0;
  if (kept.allocated != 0) kept.origin = origins_.number_of(event.name.function, stack);
  order_.add(kept);
}

// The blocks of the old program are gone, and the new one has not run yet.
void LeakLog::executed(const session::ProcessName& process) {
  Kept kept;
  kept.process = process.pid;
  kept.tsc = read_tsc();
  kept.is_exec = true;
  order_.add(kept);
}

void LeakLog::apply(const Kept& event) {
  if (event.is_exec)
    blocks_.forget(event.process);
  else
    blocks_.apply(event);
}

void LeakLog::go_on() {
  order_.take_due([this](const Kept& event) {
    apply(event);
    return true;
  });
}

void LeakLog::finish() {
  order_.take_all([this](const Kept& event) {
    apply(event);
    return true;
  });
}

std::vector<LeakRow> LeakLog::rows(uint64_t now_tsc, uint64_t least_age_ns,
                                   LeakReport& report) const {
  std::vector<LeakRow> by_origin(origins_.size());
  blocks_.for_each([&](const OutstandingBlocks::Block& block) {
    const uint64_t age = now_tsc - std::min(now_tsc, block.tsc);
    const auto age_ns = static_cast<uint64_t>(Wide{age} * ns_multiplier_ >> 32);
    if (age_ns < least_age_ns) {
      ++report.young_blocks;
      report.young_bytes += block.size;
      return;
    }
    LeakRow& row = by_origin[block.origin];
    ++row.blocks;
    row.bytes += block.size;
    row.oldest_ns = std::max(row.oldest_ns, age_ns);
  });
  for (uint32_t i = 0; i < origins_.size(); ++i) {
    if (by_origin[i].blocks == 0) continue;
    by_origin[i].function = origins_[i].function;
    by_origin[i].stack = origins_[i].stack;
  }
  std::erase_if(by_origin, [](const LeakRow& row) { return row.blocks == 0; });
  std::stable_sort(by_origin.begin(), by_origin.end(), [](const LeakRow& a, const LeakRow& b) {
    return std::pair(a.bytes, a.blocks) > std::pair(b.bytes, b.blocks);
  });
  return by_origin;
}

LeakReport LeakLog::report(uint64_t least_age_ns) const {
  LeakReport report;
  report.least_age_ns = least_age_ns;
  report.rows = rows(read_tsc(), least_age_ns, report);
  for (const LeakRow& row : report.rows) {
    report.bytes += row.bytes;
    report.blocks += row.blocks;
  }
  const OutstandingBlocks::Figures& figures = blocks_.figures();
  report.allocated = figures.allocations;
  report.freed = figures.freed;
  report.unknown_freed = figures.unknown_freed;
  report.tells_unknown = options_.min_size == 0 && figures.no_room == 0;
  report.reused = figures.reused;
  report.no_room = figures.no_room;
  report.sample = options_.sample;
  return report;
}

}  // namespace pinprick::cli
