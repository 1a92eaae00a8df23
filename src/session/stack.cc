#include "session/stack.h"

namespace pinprick::session {

std::string frame_names(const Stack& stack, const NameOfCode& name_of_code) {
  std::string names;
  for (const Address frame : stack.frames) names += name_of_code(frame) + '\n';
  if (stack.end == Stack::End::cut && stack.frames.size() == select::kMostFrames) names += "...\n";
  if (stack.end == Stack::End::unknown) names += "[unknown]\n";
  return names;
}

}  // namespace pinprick::session
