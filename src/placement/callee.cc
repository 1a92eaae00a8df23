#include "placement/callee.h"

#include <algorithm>

#include "arch/code.h"
#include "arch/red_zone.h"

namespace pinprick::placement {
namespace {

// Does all of its code stay above the stack pointer, and jump only to functions that are called
// elsewhere? Then it cannot be a part of a function with data in the red zone.
bool leaves_red_zone_alone(image::Object& object, const image::Function& function) {
  const auto all = object.code(function);
  const auto code = all.first(std::min<uint64_t>(all.size(), function.range.size()));
  for (size_t at = 0; at < code.size();) {
    const auto instruction = arch::decode(code.subspan(at), function.range.begin + at);
    if (!instruction || instruction->flow == arch::Flow::jump_indirect) return false;
    const bool leaves = instruction->has_target() && instruction->flow != arch::Flow::call &&
                        !function.range.contains(instruction->target);
    if (leaves && !object.targets().is_callee(instruction->target)) return false;
    at += instruction->length;
  }
  return !arch::addresses_below_stack(code);
}

}  // namespace

bool is_called(image::Object& object, const image::Function& function) {
  if (!function.entered_by_call) return false;
  if (object.targets().is_callee(function.range.begin)) return true;
  const auto names = object.functions().names(function);
  if (!names.empty()) return std::none_of(names.begin(), names.end(), image::names_part);
  return leaves_red_zone_alone(object, function);
}

}  // namespace pinprick::placement
