#include "placement/callee.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <span>

#include "arch/code.h"
#include "arch/red_zone.h"

namespace pinprick::placement {
namespace {

std::span<const uint8_t> own_code(image::Object& object, const image::Function& function) {
  const auto all = object.code(function);
  return all.first(std::min<uint64_t>(all.size(), function.range.size()));
}

// Does all of its code stay above the stack pointer, and jump only to functions that are called
// elsewhere? Then it cannot be a part of a function with data in the red zone.
bool leaves_red_zone_alone(image::Object& object, const image::Function& function) {
  const auto code = own_code(object, function);
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

// The opcodes of direct jumps, without the one that has a byte before it.
constexpr auto kIsJump = [] {
  std::array<bool, 256> is_jump = {};
  for (size_t condition = 0; condition < 16; ++condition) is_jump[0x70 + condition] = true;
  for (const size_t opcode : {0xe0u, 0xe1u, 0xe2u, 0xe3u, 0xebu, 0xe9u, 0x0fu})
    is_jump[opcode] = true;
  return is_jump;
}();

// Returns the offset that the bytes from `at` on lead to if they are a direct jump: these bytes may
// be none.
std::optional<int64_t> may_jump_to(std::span<const uint8_t> code, size_t at) {
  const uint8_t byte = code[at];
  const size_t opcode = byte == 0x0f ? 2 : 1;
  if (byte == 0x0f && (at + 1 >= code.size() || (code[at + 1] & 0xf0) != 0x80)) return std::nullopt;
  const bool is_near = byte == 0x0f || byte == 0xe9;
  const size_t end = at + opcode + (is_near ? 4 : 1);
  if (end > code.size()) return std::nullopt;
  int32_t distance = (code[at + opcode] ^ 0x80) - 0x80;  // sign-extended
  if (is_near) std::memcpy(&distance, &code[at + opcode], sizeof distance);
  return static_cast<int64_t>(end) + distance;
}

// Does one of its own jumps lead to its first instruction, also after one that marks a target of
// indirect jumps?
bool jumps_to_entry(std::span<const uint8_t> code, Address begin) {
  const auto first = arch::decode(code, begin);
  if (!first) return false;
  const size_t after_mark = first->special == arch::Special::landing_pad ? first->length : 0;
  bool may = false;
  // Few functions are decoded for that: most have no jump to their entry.
  for (size_t at = 0; at < code.size() && !may; ++at) {
    if (!kIsJump[code[at]]) continue;
    const auto to = may_jump_to(code, at);
    may = to && (*to == 0 || *to == static_cast<int64_t>(after_mark));
  }
  if (!may) return false;
  for (size_t at = 0; at < code.size();) {
    const auto instruction = arch::decode(code.subspan(at), begin + at);
    if (!instruction) return true;  // unknown
    if (instruction->has_target() && instruction->flow != arch::Flow::call &&
        (instruction->target == begin || instruction->target == begin + after_mark))
      return true;
    at += instruction->length;
  }
  return false;
}

bool is_called(image::Object& object, const image::Function& function) {
  if (!function.entered_by_call) return false;
  if (object.targets().is_callee(function.range.begin)) return true;
  const auto names = object.functions().names(function);
  if (!names.empty() && !function.is_label)
    return std::none_of(names.begin(), names.end(), image::names_part);
  return leaves_red_zone_alone(object, function);
}

}  // namespace

Entered how_entered(image::Object& object, const image::Function& function) {
  if (!is_called(object, function)) return Entered::by_jump;
  const auto code = own_code(object, function);
  return jumps_to_entry(code, function.range.begin) && arch::addresses_below_stack(code)
             ? Entered::by_own_jump
             : Entered::by_call;
}

}  // namespace pinprick::placement
