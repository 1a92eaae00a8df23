#include "session/stack.h"

namespace pinprick::session {

std::string frame_names(const Stack& stack, const NameOfCode& name_of_code) {
  std::string names;
  constexpr Address kIsNext = Address{1} << PP_FRAME_IS_NEXT_BIT;
  for (const Address frame : stack.frames)
    names += name_of_code(frame & ~kIsNext, (frame & kIsNext) != 0 ? 0 : 1) + '\n';
  if (stack.end == Stack::End::cut && stack.frames.size() == select::kMostFrames) names += "...\n";
  if (stack.end == Stack::End::unknown) names += "[unknown]\n";
  return names;
}

}  // namespace pinprick::session
