#include "library/process/own_stack.h"

#include <unistd.h>

#include <vector>

#include "arch/native.h"
#include "image/maps.h"
#include "patch/thread_stacks.h"

namespace pinprick::library {
namespace {

// Gdb lets a function that it calls return to a breakpoint on the stack: the byte just below an
// address that is aligned as stacks are, and above where its address was pushed.
bool is_called_by_gdb(const target::Memory& memory, Range stack) {
  constexpr uint64_t kAlignment = 16, kNear = 4096;
  std::vector<uint64_t> words(stack.size() / sizeof(uint64_t));
  if (!memory.read(stack.begin,
                   {reinterpret_cast<uint8_t*>(words.data()), words.size() * sizeof words[0]}))
    return true;
  for (size_t i = 0; i < words.size(); ++i) {
    const Address at = stack.begin + i * sizeof words[0], to = words[i];
    if (to % kAlignment != kAlignment - 1 || to < at || to - at > kNear || to >= stack.end)
      continue;
    uint8_t byte = 0;
    if (!memory.read_value(to, byte) || byte == arch::kBreakpoint) return true;
  }
  return false;
}

}  // namespace

bool may_go_on_inside(const target::Memory& memory, std::span<const Range> ranges) {
  const auto maps = image::read_maps(::getpid());
  if (!maps) return true;
  const auto here = reinterpret_cast<Address>(__builtin_frame_address(0));
  const patch::ThreadStacks stacks = patch::read_stacks(*maps, memory, here);
  if (!stacks.is_whole || stacks.words.empty() || patch::signal_returns_to(stacks, ranges))
    return true;
  for (const Range stack : stacks.words)
    if (is_called_by_gdb(memory, stack)) return true;
  return false;
}

}  // namespace pinprick::library
