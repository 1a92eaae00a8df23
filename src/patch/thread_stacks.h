// What is on the stacks of a stopped thread. A signal handler may run on a stack of its own
// (sigaltstack(2)); the frame that the kernel has left there leads to the interrupted stack, which
// is looked at as well, and so on.
//
// All that a thread will use again lies above its stack pointer less the red zone. That holds for
// signal frames, too: the kernel puts them below the red zone of the interrupted code, and moves
// the stack pointer below them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "image/maps.h"
#include "target/memory.h"
#include "target/stop.h"

namespace pinprick::patch {

// Returns the mapping at an address.
using MappingAt = std::function<std::optional<Range>(Address)>;

// Takes some words of a stack, in ascending order.
using StackPart = std::function<void(std::span<const uint64_t> words)>;

// What was found while all of it was read.
struct ThreadStacks {
  // Of each stack, from the lowest address in use; the one that the thread runs on comes first.
  std::vector<Range> words;
  // Where the handlers of signals will return to: the frames have a saved instruction pointer, then
  // flags, then the segments of user code. A mere address does not count: words that stubs leave
  // below the stack pointer remain, long after, in the gaps of later frames.
  std::vector<Address> returns_to;
  bool is_whole = true;  // false: a stack is longer than what was read of it, or there are more
};

ThreadStacks read_stacks(const MappingAt& mapping_at, const target::Memory& memory,
                         const target::StoppedThread& thread, const StackPart& part = {});
ThreadStacks read_stacks(const std::vector<image::Mapping>& maps, const target::Memory& memory,
                         const target::StoppedThread& thread);
// Of a thread that does not run: one that is stopped, or the caller itself, above its present
// frame.
ThreadStacks read_stacks(const std::vector<image::Mapping>& maps, const target::Memory& memory,
                         Address stack_pointer);

// Will the thread return from a signal handler into one of the ranges?
bool signal_returns_to(const ThreadStacks& stacks, std::span<const Range> ranges);
bool signal_returns_to(const std::vector<image::Mapping>& maps, const target::Memory& memory,
                       const target::StoppedThread& thread, std::span<const Range> ranges);

// Does any of these words of a stack lie in the ranges? A return address does; so may a stale word
// of a call that is over.
bool leads_to(const target::Memory& memory, Range words, std::span<const Range> ranges);

}  // namespace pinprick::patch
