#include "patch/thread_stacks.h"

#include <algorithm>

#include "arch/code.h"
#include "arch/registers.h"

namespace pinprick::patch {
namespace {

// How much of a stack is looked at: a stack other than the main one may be a slice of a huge heap.
constexpr uint64_t kLongestStack = 8 << 20;

// A program has one or two for each thread. More than these are words that look like frames.
constexpr size_t kMostStacks = 8;

Address lowest_used(Address stack_pointer) {
  return align_down(stack_pointer - arch::kRedZone, sizeof(uint64_t));
}

void read_words(const target::Memory& memory, Range words, const StackPart& part) {
  std::vector<uint64_t> chunk;
  for (Address at = words.begin; at + sizeof(uint64_t) <= words.end;) {
    const Address next = std::min(words.end, align_down(at, kPageSize) + 16 * kPageSize);
    chunk.resize((next - at) / sizeof(uint64_t));
    if (!memory.read(at,
                     {reinterpret_cast<uint8_t*>(chunk.data()), chunk.size() * sizeof chunk[0]}))
      return;
    part(chunk);
    at = next;
  }
}

bool contains(std::span<const Range> ranges, Address address) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](Range range) { return range.contains(address); });
}

ThreadStacks read_from(const MappingAt& mapping_at, const target::Memory& memory,
                       Address stack_pointer, const StackPart& part) {
  ThreadStacks stacks;
  std::vector<Address> tops = {lowest_used(stack_pointer)};
  size_t next = 0;
  for (; next < tops.size() && stacks.words.size() < kMostStacks; ++next) {
    const Address top = tops[next];
    const auto mapping = contains(stacks.words, top) ? std::nullopt : mapping_at(top);
    if (!mapping) continue;
    const Range words = {top, std::min(mapping->end, top + kLongestStack)};
    stacks.is_whole = stacks.is_whole && words.end == mapping->end;
    stacks.words.push_back(words);
    arch::SignalFrameFinder frames;
    read_words(memory, words, [&](std::span<const uint64_t> some) {
      if (part) part(some);
      for (const uint64_t word : some) {
        const auto frame = frames.next(word);
        if (!frame) continue;
        stacks.returns_to.push_back(frame->instruction_pointer);
        if (frame->is_certain && !words.contains(lowest_used(frame->stack_pointer)))
          tops.push_back(lowest_used(frame->stack_pointer));
      }
    });
  }
  stacks.is_whole = stacks.is_whole && next == tops.size();
  return stacks;
}

}  // namespace

ThreadStacks read_stacks(const MappingAt& mapping_at, const target::Memory& memory,
                         const target::StoppedThread& thread, const StackPart& part) {
  return read_from(mapping_at, memory, thread.stack_pointer(), part);
}

ThreadStacks read_stacks(const std::vector<image::Mapping>& maps, const target::Memory& memory,
                         const target::StoppedThread& thread) {
  return read_stacks(maps, memory, thread.stack_pointer());
}

ThreadStacks read_stacks(const std::vector<image::Mapping>& maps, const target::Memory& memory,
                         Address stack_pointer) {
  const auto mapping_at = [&](Address address) -> std::optional<Range> {
    const auto found = std::find_if(maps.begin(), maps.end(), [&](const image::Mapping& mapping) {
      return mapping.range.contains(address);
    });
    return found == maps.end() ? std::nullopt : std::optional(found->range);
  };
  return read_from(mapping_at, memory, stack_pointer, {});
}

bool signal_returns_to(const ThreadStacks& stacks, std::span<const Range> ranges) {
  return std::any_of(stacks.returns_to.begin(), stacks.returns_to.end(),
                     [&](Address address) { return contains(ranges, address); });
}

bool signal_returns_to(const std::vector<image::Mapping>& maps, const target::Memory& memory,
                       const target::StoppedThread& thread, std::span<const Range> ranges) {
  return signal_returns_to(read_stacks(maps, memory, thread), ranges);
}

bool leads_to(const target::Memory& memory, Range words, std::span<const Range> ranges) {
  bool found = false;
  read_words(memory, words, [&](std::span<const uint64_t> some) {
    found = found || std::any_of(some.begin(), some.end(),
                                 [&](uint64_t word) { return contains(ranges, word); });
  });
  return found;
}

}  // namespace pinprick::patch
