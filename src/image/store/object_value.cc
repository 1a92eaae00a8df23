#include "image/store/object_value.h"

#include <utility>

#include "base/bytes.h"
#include "image/store/packed.h"

namespace pinprick::image {

std::vector<uint8_t> to_bytes(const FunctionTable& functions) {
  std::vector<uint8_t> bytes;
  functions.append_to(bytes);
  return bytes;
}

std::vector<uint8_t> to_bytes(const ObjectCode& code) {
  std::vector<uint8_t> bytes;
  code.targets.append_to(bytes);
  append_all(bytes, std::span<const Range>(code.reserved));
  append_all(bytes, std::span<const Address>(code.vforks));
  return bytes;
}

std::optional<FunctionTable> parse_functions(std::span<const uint8_t> bytes,
                                             std::span<const Segment> segments) {
  ByteReader reader(bytes);
  auto functions = FunctionTable::parse(reader, segments);
  if (!functions || reader.remaining() != 0) return std::nullopt;
  return functions;
}

std::optional<ObjectCode> parse_code(std::span<const uint8_t> bytes,
                                     std::span<const Segment> segments) {
  std::vector<Range> text;
  for (const Segment& segment : segments)
    if (segment.executable) text.push_back(segment.range);
  ByteReader reader(bytes);
  auto targets = BranchTargets::parse(reader, text);
  if (!targets) return std::nullopt;
  ObjectCode code{*std::move(targets), {}, {}};
  if (!read_values(reader, code.reserved) || !read_values(reader, code.vforks) ||
      reader.remaining() != 0)
    return std::nullopt;
  for (Address address : code.vforks)
    if (!code.targets.covers(address)) return std::nullopt;
  return code;
}

}  // namespace pinprick::image
