#include "engine/calls/open_calls.h"

#include <algorithm>
#include <cstddef>

namespace pinprick::engine {
namespace {

using layout::OpenCall;

// How far above a thread's stack pointer the call may lie that it is entering or taking out.
constexpr uint64_t kOurStack = 512;

bool any_contains(std::span<const Range> ranges, Address address) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](Range range) { return range.contains(address); });
}

std::vector<OpenCall> table_in(const target::Memory& memory, const layout::MappingEntry& data,
                               Address& begin) {
  layout::RuntimeContext context;
  if (data.size < sizeof context ||
      !memory.read_value(data.address + data.size - sizeof context, context) ||
      context.magic != layout::kContextMagic || context.open_calls < data.address ||
      context.open_calls - data.address > data.size ||
      data.size - (context.open_calls - data.address) < layout::kOpenCallsSize)
    return {};
  begin = context.open_calls;
  std::vector<OpenCall> table(layout::kOpenCalls);
  if (!memory.read(begin,
                   {reinterpret_cast<uint8_t*>(table.data()), table.size() * sizeof(OpenCall)}))
    return {};
  return table;
}

}  // namespace

std::vector<OpenCallEntry> open_calls(const target::Memory& memory,
                                      const layout::MappingEntry& data) {
  Address begin = 0;
  std::vector<OpenCallEntry> entries;
  Address at = 0;
  for (OpenCall& call : table_in(memory, data, begin)) {
    if (call.stack > PP_OPEN_CALL_FREE) {
      call.stack &= ~uint64_t{PP_OPEN_CALL_FILLING};
      entries.push_back({begin + at, call});
    }
    at += sizeof(OpenCall);
  }
  return entries;
}

void drop_open_calls(const target::Memory& memory, const layout::MappingEntry& data) {
  for (const OpenCallEntry& entry : open_calls(memory, data))
    static_cast<void>(memory.write_value(entry.address + offsetof(OpenCall, tsc),
                                         entry.call.tsc | layout::kTscDropped));
}

OpenCallCount::OpenCallCount(const layout::Session& journal)
    : first_counters_(layout::time_counters_offset(journal.header, 0)),
      left_(journal.header.histogram_count),
      ended_(journal.header.histogram_count) {}

// After the first look calls return without us, so the word on the stack says no more.
void OpenCallCount::take(const target::Memory& memory,
                         std::span<const target::StoppedThread> threads,
                         std::span<const Range> code, std::span<const Range> of_others,
                         std::span<const OpenCallEntry> entries, const EndedThreads& ended) {
  std::vector<Address> busy;  // stack pointers
  for (const target::StoppedThread& thread : threads)
    if (any_contains(code, thread.instruction_pointer())) busy.push_back(thread.stack_pointer());
  for (const OpenCallEntry& entry : entries) {
    if (std::any_of(busy.begin(), busy.end(),
                    [&](Address top) { return entry.call.stack - top < kOurStack; }))
      continue;
    uint64_t word = 0;
    const bool is_on_stack = memory.read_value(entry.call.stack, word) &&
                             (word == entry.call.return_address || any_contains(of_others, word));
    const bool is_left = is_first_look_ && !is_on_stack;
    constexpr uint64_t kFree = PP_OPEN_CALL_FREE;
    if (!memory.write_value(entry.address + offsetof(OpenCall, stack), kFree)) continue;
    if (ended.have_made({entry.call.stack, entry.call.return_address, entry.call.tsc, is_on_stack}))
      count(entry.call, ended_);
    else if (is_left)
      count(entry.call, left_);
    else
      ++in_flight_;
  }
  is_first_look_ = false;
}

void OpenCallCount::count(const OpenCall& call, std::vector<uint64_t>& calls) const {
  const uint64_t histogram = (call.counters - first_counters_) / sizeof(layout::TimeCounters);
  if (histogram < calls.size()) ++calls[histogram];
}

}  // namespace pinprick::engine
