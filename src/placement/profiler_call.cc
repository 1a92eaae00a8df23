#include "placement/profiler_call.h"

#include <algorithm>
#include <string_view>

#include "arch/code.h"

namespace pinprick::placement {
namespace {

std::optional<arch::Instruction> decoded_at(image::Object& object, Address at) {
  const auto code = code_at_most(object, at, 2 * arch::kMaxInstructionLength);
  auto instruction = arch::decode(code, at);
  if (instruction && instruction->special == arch::Special::landing_pad)
    instruction = arch::decode(code.subspan(instruction->length), instruction->end());
  return instruction;
}

// If there is an entry of a procedure linkage table at the address, the name of the function to
// which it leads; otherwise empty.
std::string_view import_through(image::Object& object, Address at) {
  const auto jump = decoded_at(object, at);
  return jump && jump->flow == arch::Flow::jump_indirect && jump->has_rip_operand
             ? object.imported_at(jump->memory)
             : std::string_view();
}

}  // namespace

std::optional<ProfilerCall> find_profiler_call(image::Object& object, std::span<const uint8_t> code,
                                               Address begin) {
  std::optional<arch::Instruction> one;
  bool is_first = true;
  for (size_t at = 0; at < code.size(); at += one->length) {
    one = arch::decode(code.subspan(at), begin + at);
    if (!one) return std::nullopt;
    if (one->flow != arch::Flow::next) break;
    is_first = is_first && one->special == arch::Special::landing_pad;
  }
  if (!one || !one->is_call()) return std::nullopt;
  const bool is_direct = one->flow == arch::Flow::call;
  const std::string_view import = is_direct              ? import_through(object, one->target)
                                  : one->has_rip_operand ? object.imported_at(one->memory)
                                                         : std::string_view();
  std::span<const std::string_view> names;
  if (is_direct && import.empty())
    if (const image::Function* const callee = object.functions().find(one->target))
      names = object.functions().names(*callee);
  const auto is = [&](std::string_view wanted) {
    return import == wanted || std::find(names.begin(), names.end(), wanted) != names.end();
  };
  if (is("__fentry__")) return ProfilerCall{one->end(), is_first};
  if (is("mcount") || is("_mcount")) return ProfilerCall{one->end(), false};
  return std::nullopt;
}

std::span<const uint8_t> code_at_most(image::Object& object, Address address, uint64_t most) {
  for (const image::Segment& segment : object.elf().segments()) {
    const Range text = {segment.range.begin, segment.range.begin + segment.file_size};
    if (segment.executable && text.contains(address))
      return object.code_at({address, std::min(address + most, text.end)});
  }
  return {};
}

}  // namespace pinprick::placement
