#include "session/thread_stacks.h"

#include <algorithm>

#include "image/elf/frame_rows.h"

namespace pinprick::session {
namespace {

constexpr uint64_t kStackWord = sizeof(uint64_t);

}  // namespace

uint32_t ThreadStacks::rule_at(Address instruction) {
  image::Object* const object = image_.object_at(instruction);
  if (object == nullptr) return PP_FRAME_UNKNOWN;
  for (const Range code : object->executable_ranges()) {
    if (!code.contains(instruction)) continue;
    const auto [known, is_new] = rules_.try_emplace(code.begin);
    Rules& rules = known->second;
    if (is_new) {
      rules.code = code;
      const uint64_t bias = object->bias();
      if (const auto table = object->elf().eh_frame())
        rules.rows =
            image::frame_rows(table->data, table->address, {code.begin - bias, code.end - bias});
    }
    const auto distance = static_cast<uint32_t>(instruction - code.begin);
    const auto after = std::ranges::upper_bound(rules.rows, distance, {}, &layout::FrameRow::from);
    return after == rules.rows.begin() ? PP_FRAME_UNKNOWN : std::prev(after)->rule;
  }
  return PP_FRAME_UNKNOWN;
}

// What the stack pointer was before the call is above what it is now, or the stack leads nowhere.
bool ThreadStacks::return_from(Frame& frame, Address canonical_frame) {
  if (canonical_frame <= frame.stack || canonical_frame % kStackWord != 0) return false;
  if (!memory_.read_value(canonical_frame - kStackWord, frame.instruction)) return false;
  frame.stack = canonical_frame;
  frame.is_exact = false;
  return frame.instruction != 0;
}

bool ThreadStacks::step_normal(Frame& frame, uint32_t rule) {
  const bool by_base = (rule & PP_FRAME_BY_RBP) != 0;
  if (by_base && !frame.has_base) return false;
  const Address canonical_frame =
      (by_base ? frame.base : frame.stack) + kStackWord * (rule >> PP_FRAME_SIZE_SHIFT);
  const uint32_t saved = rule >> PP_FRAME_SAVED_SHIFT & PP_FRAME_SAVED_MASK;
  if (saved == PP_FRAME_RBP_LOST)
    frame.has_base = false;
  else if (saved != 0)
    frame.has_base = memory_.read_value(canonical_frame - kStackWord * saved, frame.base);
  return return_from(frame, canonical_frame);
}

bool ThreadStacks::step_loaded(Frame& frame, uint32_t rule) {
  const bool by_base = (rule & PP_FRAME_BY_RBP) != 0;
  if (by_base && !frame.has_base) return false;
  const int64_t at =
      int64_t{rule >> PP_FRAME_AT_SHIFT & PP_FRAME_AT_MASK} - int64_t{PP_FRAME_AT_BIAS};
  const Address from =
      (by_base ? frame.base : frame.stack) + static_cast<uint64_t>(at) * kStackWord;
  Address canonical_frame = 0;
  if (!memory_.read_value(from, canonical_frame)) return false;
  canonical_frame += kStackWord * (rule >> PP_FRAME_PLUS_SHIFT & PP_FRAME_PLUS_MASK);
  const uint32_t saved = rule >> PP_FRAME_LOADED_SAVED_SHIFT & PP_FRAME_SAVED_MASK;
  if ((rule & PP_FRAME_RBP_AT_RBP) != 0)
    frame.has_base = frame.has_base && memory_.read_value(frame.base, frame.base);
  else if (saved != 0)
    frame.has_base = memory_.read_value(canonical_frame - kStackWord * saved, frame.base);
  return return_from(frame, canonical_frame);
}

// struct ucontext: the registers of the thread before the signal.
bool ThreadStacks::step_signal(Frame& frame) {
  constexpr uint64_t kBase = 120, kStack = 160, kInstruction = 168;
  const Address context = frame.stack;
  frame.is_exact = true;
  frame.has_base = memory_.read_value(context + kBase, frame.base);
  return memory_.read_value(context + kStack, frame.stack) &&
         memory_.read_value(context + kInstruction, frame.instruction);
}

bool ThreadStacks::step(Frame& frame) {
  const uint32_t rule = rule_at(frame.instruction - (frame.is_exact ? 0 : 1));
  switch (rule & PP_FRAME_KIND) {
    case PP_FRAME_NORMAL:
      return step_normal(frame, rule);
    case PP_FRAME_LOADED:
      return step_loaded(frame, rule);
    case PP_FRAME_SIGNAL:
      return step_signal(frame);
    default:
      return false;  // there is no caller, or it is not known; no thread waits in a linkage table
  }
}

std::vector<Address> ThreadStacks::of(const target::ThreadPosition& position, size_t most) {
  std::vector<Address> stack;
  Frame frame = {position.instruction_pointer, position.stack_pointer};
  do stack.push_back(frame.instruction);
  while (stack.size() < most && step(frame));
  return stack;
}

}  // namespace pinprick::session
