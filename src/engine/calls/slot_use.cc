#include "engine/calls/slot_use.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <unordered_map>

#include "arch/registers.h"
#include "arch/stub.h"
#include "image/maps.h"
#include "patch/thread_stacks.h"
#include "target/procfs.h"

namespace pinprick::engine {
namespace {

// Replaces Slot::copy in released slots.
constexpr uint64_t kReleased = 1;

// The slot that a return address belongs to.
std::optional<size_t> slot_returned_to(const SlotUse& use, Address return_address) {
  const uint64_t distance = return_address - arch::kSlotReturn - use.first_code();
  const uint64_t index = distance / arch::kSlotCodeSize;
  if (index >= use.slots.size() || distance % arch::kSlotCodeSize != 0) return std::nullopt;
  return index;
}

// Reads words of stacks, each page once: the slots of thousands of abandoned calls lie close
// together there, and the target is stopped meanwhile.
class StackWords {
 public:
  explicit StackWords(const target::Memory& memory) : memory_(memory) {}
  std::optional<uint64_t> at(Address address) {
    uint64_t word = 0;
    const Address page = align_down(address, kPageSize);
    if (address - page > kPageSize - sizeof word)
      return memory_.read_value(address, word) ? std::optional(word) : std::nullopt;
    const auto [entry, is_new] = pages_.try_emplace(page);
    std::vector<uint8_t>& bytes = entry->second;
    if (is_new) {
      bytes.resize(kPageSize);
      if (!memory_.read(page, bytes)) bytes.clear();
    }
    if (bytes.empty()) return std::nullopt;
    std::memcpy(&word, bytes.data() + (address - page), sizeof word);
    return word;
  }

 private:
  const target::Memory& memory_;
  std::unordered_map<Address, std::vector<uint8_t>> pages_;
};

std::optional<layout::RuntimeContext> context_in(const target::Memory& memory,
                                                 const layout::MappingEntry& data) {
  layout::RuntimeContext context;
  if (data.size < sizeof context ||
      !memory.read_value(data.address + data.size - sizeof context, context) ||
      context.magic != layout::kContextMagic)
    return std::nullopt;
  return context;
}

// The slots of all sessions in the process, and those of the program itself.
class AllSlots {
 public:
  AllSlots(const SlotUse& own, const target::Memory& memory,
           const std::vector<layout::MappingEntry>& mappings,
           const std::vector<layout::OwnSlots>& program) {
    areas_.push_back({own.address, own.first_code(), own.slots.size()});
    for (const layout::OwnSlots& slots : program)
      areas_.push_back({slots.address, slots.code, slots.count});
    for (const layout::MappingEntry& data : mappings) {
      const auto context = context_in(memory, data);
      layout::Slot first;
      if (context && context->slot_count <= data.size / sizeof first &&
          memory.read_value(data.address, first))
        areas_.push_back({data.address, first.code, context->slot_count});
    }
  }
  // Where the slot that this return address belongs to keeps its own; nullopt if it is none of
  // them.
  std::optional<Address> returned_from(uint64_t return_address) const {
    for (const Area& area : areas_) {
      const uint64_t distance = return_address - arch::kSlotReturn - area.first_code;
      if (distance / arch::kSlotCodeSize < area.count && distance % arch::kSlotCodeSize == 0)
        return area.address + distance / arch::kSlotCodeSize * sizeof(layout::Slot) +
               offsetof(layout::Slot, return_address);
    }
    return std::nullopt;
  }
  size_t size() const { return areas_.size(); }

 private:
  struct Area {
    Address address = 0;
    Address first_code = 0;
    uint64_t count = 0;
  };
  std::vector<Area> areas_;
};

}  // namespace

SlotUse look_at_slots(const target::Memory& memory, const layout::MappingEntry& data,
                      const std::vector<layout::MappingEntry>& others,
                      const std::vector<layout::OwnSlots>& program) {
  SlotUse use;
  const auto found = context_in(memory, data);
  if (!found) return use;
  const layout::RuntimeContext& context = *found;
  const uint64_t room =
      std::min(context.slot_count, (data.size - sizeof context) / sizeof(layout::Slot));
  use.address = data.address;
  use.room = room;
  use.slots.resize(std::min(context.fresh, room));  // the others were never used
  if (use.slots.empty() || !memory.read(data.address, {reinterpret_cast<uint8_t*>(use.slots.data()),
                                                       use.slots.size() * sizeof(layout::Slot)})) {
    use.slots.clear();
    return use;
  }
  std::vector<bool> reached(use.slots.size());
  StackWords stacks(memory);
  const AllSlots all_slots(use, memory, others, program);
  const Range own = {use.address, use.address + use.slots.size() * sizeof(layout::Slot)};
  // Where a slot's address lies: on the stack, or in a slot of another session whose address lies
  // there instead, and so on. A call has one slot for each session that times it, and as many for
  // each timed function that it tail calls. So a slot of ours may be in the line before this one:
  // if it leads straight here, it is that one that waits.
  const auto position_of = [&](const layout::Slot& slot) -> std::optional<Address> {
    constexpr size_t kMostInALine = 64;
    Address position = slot.stack;
    for (size_t i = 0; i <= all_slots.size() * kMostInALine; ++i) {
      uint64_t word = 0;
      const auto there = i == 0                              ? stacks.at(position)
                         : memory.read_value(position, word) ? std::optional(word)
                                                             : std::nullopt;
      if (!there) return std::nullopt;
      if (*there == slot.code + arch::kSlotReturn)
        return own.contains(position) ? std::nullopt : std::optional(position);
      const auto next = all_slots.returned_from(*there);
      if (!next) return std::nullopt;
      position = *next;
    }
    return std::nullopt;
  };
  for (size_t i = 0; i < use.slots.size(); ++i) {
    const layout::Slot& slot = use.slots[i];
    const auto position = slot.return_address == 0 ? std::nullopt : position_of(slot);
    if (!position) continue;
    use.waiting.push_back(i);
    use.waiting_at.push_back(*position);
    for (std::optional<size_t> at = i; at && !reached[*at];
         at = slot_returned_to(use, use.slots[*at].return_address))
      reached[*at] = true;
  }
  for (size_t i = 0; i < use.slots.size(); ++i) {
    const layout::Slot& slot = use.slots[i];
    const bool left = slot.return_address != 0 && slot.copy != kReleased && !reached[i];
    if (left && slot.reused != PP_SLOT_REUSED_FREE) use.left.push_back(i);
    if (left || slot.reused != 0) use.kept.push_back(i);
  }
  use.abandoned = use.kept.size();
  return use;
}

std::vector<uint64_t> words_at_hand(const target::StoppedThread& thread,
                                    const target::Memory& memory) {
  // Enough for what code for the return of a call has pushed, at most.
  constexpr size_t kOfStack = 48, kRegisters = sizeof thread.registers / sizeof(uint64_t);
  std::vector<uint64_t> words(kRegisters + kOfStack);
  std::memcpy(words.data(), &thread.registers, sizeof thread.registers);
  static_cast<void>(memory.read(
      thread.stack_pointer(),
      {reinterpret_cast<uint8_t*>(words.data() + kRegisters), kOfStack * sizeof(uint64_t)}));
  return words;
}

bool has_slot_code(const SlotUse& use, std::span<const uint64_t> words) {
  return std::any_of(words.begin(), words.end(), [&](uint64_t word) {
    return !use.slots.empty() && word - use.first_code() < use.room * arch::kSlotCodeSize;
  });
}

void leave_out_slots_at_hand(SlotUse& use, std::span<const uint64_t> words) {
  for (const uint64_t word : words) {
    std::optional<size_t> slot = (word - use.address) / sizeof(layout::Slot);
    if (*slot >= use.slots.size()) slot = (word - use.first_code()) / arch::kSlotCodeSize;
    // A tail call's slot returns to that of its caller, and so on.
    for (size_t i = 0; slot && *slot < use.slots.size() && i <= use.slots.size(); ++i) {
      std::erase(use.left, *slot);
      slot = slot_returned_to(use, use.slots[*slot].return_address);
    }
  }
}

// The code that takes and gives back slots uses little of the stack. The call's return address lies
// above that, or right below the stack pointer when the slot's code is entered.
std::vector<Range> stacks_in_code(pid_t pid, const target::Memory& memory,
                                  std::span<const Range> code) {
  constexpr uint64_t kBelow = 2 * sizeof(uint64_t), kAbove = 512;
  std::vector<Range> found;
  const auto maps = image::read_maps(pid);
  for (const pid_t tid : target::list_threads(pid)) {
    const auto position = target::position_of(pid, tid);
    if (!position || !maps) continue;
    const auto [stack, instruction] = *position;
    if (std::any_of(code.begin(), code.end(),
                    [&, at = instruction](Range range) { return range.contains(at); }))
      found.push_back({stack - kBelow, stack + kAbove});
    target::StoppedThread thread;
    arch::set_stack_pointer(thread.registers, stack);
    const auto stacks = patch::read_stacks(*maps, memory, thread);
    // Nothing tells which instruction the handler has interrupted.
    if (patch::signal_returns_to(stacks, code))
      found.insert(found.end(), stacks.words.begin(), stacks.words.end());
  }
  return found;
}

void leave_out_slots_on(SlotUse& use, std::span<const Range> stacks) {
  const auto is_at_hand = [&](size_t i) {
    return std::any_of(stacks.begin(), stacks.end(),
                       [&](Range stack) { return stack.contains(use.slots[i].stack); });
  };
  std::erase_if(use.left, is_at_hand);
  std::erase_if(use.kept, [&](size_t i) { return use.slots[i].reused == 0 && is_at_hand(i); });
  use.abandoned = use.kept.size();
}

void take_ended(SlotUse& use, const EndedThreads& threads) {
  std::vector<bool> ended(use.slots.size()), is_on_stack(use.slots.size());
  for (const size_t w : use.waiting)
    for (std::optional<size_t> at = w; at && !is_on_stack[*at];
         at = slot_returned_to(use, use.slots[*at].return_address))
      is_on_stack[*at] = true;
  const auto is_ended = [&](size_t i) { return ended[i]; };
  // After a tail call, its slot leads to the one that has the program's return address.
  const auto has_ended = [&](size_t i) {
    size_t passed = 0;
    for (std::optional<size_t> at = i; at && passed++ <= use.slots.size();
         at = slot_returned_to(use, use.slots[*at].return_address)) {
      const layout::Slot& slot = use.slots[*at];
      if (threads.have_made({slot.stack, slot.return_address, slot.tsc, is_on_stack[*at]}))
        return true;
    }
    return false;
  };
  for (const size_t i : use.kept) ended[i] = has_ended(i);
  std::erase_if(use.kept, is_ended);
  std::erase_if(use.left, is_ended);
  use.abandoned = use.kept.size();
  for (size_t w = use.waiting.size(); w-- > 0;) {
    if (!has_ended(use.waiting[w])) continue;
    // With it come those that it would return to in turn, after a tail call.
    for (std::optional<size_t> at = use.waiting[w]; at && !ended[*at];
         at = slot_returned_to(use, use.slots[*at].return_address))
      ended[*at] = true;
    use.waiting.erase(use.waiting.begin() + static_cast<ptrdiff_t>(w));
    use.waiting_at.erase(use.waiting_at.begin() + static_cast<ptrdiff_t>(w));
  }
  for (size_t i = 0; i < ended.size(); ++i)
    if (ended[i]) use.ended.push_back(i);
}

NeverReturned calls_never_returned(const target::Memory& memory, const SlotUse& use,
                                   const ledger::SessionFile& file,
                                   const layout::Session& journal) {
  struct Slots {
    uint64_t left = 0, ended = 0;
    bool reused_and_left = false, reused_and_ended = false;
  };
  std::unordered_map<Address, Slots> of_record;  // the first one of a call
  const auto slots_of = [&](size_t i) -> Slots& { return of_record[use.slots[i].record]; };
  for (const size_t i : use.left) ++slots_of(i).left;
  for (const size_t i : use.kept)
    if (use.slots[i].reused != 0) slots_of(i).reused_and_left = true;
  for (const size_t i : use.ended) {
    if (use.slots[i].reused != PP_SLOT_REUSED_FREE) ++slots_of(i).ended;
    if (use.slots[i].reused != 0) slots_of(i).reused_and_ended = true;
  }
  std::vector<Slots> of_histogram(journal.header.histogram_count);
  for (const auto& [first, slots] : of_record) {
    layout::ProbeRecord record;
    size_t records = 0;
    for (Address at = first; at != 0 && records <= of_histogram.size() &&
                             memory.read_value(at, record) && record.pass == 0;  // a gap is no call
         at = record.next, ++records) {
      const uint64_t histogram =
          (record.counters - layout::time_counters_offset(journal.header, 0)) /
          sizeof(layout::TimeCounters);
      if (histogram >= of_histogram.size()) continue;
      Slots& sum = of_histogram[histogram];
      sum.left += slots.left;
      sum.ended += slots.ended;
      sum.reused_and_left |= slots.reused_and_left;
      sum.reused_and_ended |= slots.reused_and_ended;
    }
  }
  NeverReturned calls;
  const auto counted = file.read_losses(journal);
  for (size_t i = 0; i < std::min(counted.size(), of_histogram.size()); ++i) {
    const Slots& slots = of_histogram[i];
    const bool with_threads = slots.reused_and_ended && !slots.reused_and_left;
    const uint64_t reused = counted[i][layout::Loss::abandoned];
    calls.abandoned.push_back(slots.left + (with_threads ? 0 : reused));
    calls.ended.push_back(slots.ended + (with_threads ? reused : 0));
  }
  return calls;
}

size_t release_calls(const target::Memory& memory, const SlotUse& use) {
  size_t released = 0;
  for (size_t w = 0; w < use.waiting.size(); ++w) {
    const size_t i = use.waiting[w];
    Address returns_to = use.slots[i].return_address;
    std::vector<size_t> chain = {i};
    while (const auto next = slot_returned_to(use, returns_to)) {
      if (chain.size() > use.slots.size()) break;  // a cycle, which only the program can have made
      chain.push_back(*next);
      returns_to = use.slots[*next].return_address;
    }
    const auto set = [&](size_t slot, size_t field, uint64_t value) {
      static_cast<void>(
          memory.write_value(use.address + slot * sizeof(layout::Slot) + field, value));
    };
    for (size_t slot : chain) set(slot, offsetof(layout::Slot, copy), kReleased);
    if (!memory.write_value(use.waiting_at[w], returns_to)) continue;
    for (size_t slot : chain)  // one that was used again keeps it, as its first call may return
      if (use.slots[slot].reused == 0) set(slot, offsetof(layout::Slot, return_address), 0);
    released += chain.size();
  }
  return released;
}

}  // namespace pinprick::engine
