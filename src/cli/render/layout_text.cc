// The layouts of structures, for people: the offset, the size, the type and the name of each
// member.
#include <algorithm>

#include "cli/render/text.h"

namespace pinprick::cli {
namespace {

using Part = debug::LayoutPart;

constexpr uint64_t kBitsOfByte = 8;

bool holds_nothing(const Part& part) {
  return part.kind == Part::Kind::hole || part.kind == Part::Kind::padding;
}

// As byte, or as byte:bit.
std::string offset_text(const Part& part) {
  if (part.kind == Part::Kind::virtual_base) return "-";
  return part.is_bit_field || part.bit_offset != 0
             ? fmt::format("{}:{}", part.offset, part.bit_offset)
             : fmt::format("{}", part.offset);
}

std::string size_text(const Part& part) {
  if (part.kind == Part::Kind::virtual_base) return "-";
  if (holds_nothing(part)) return "";
  return part.is_bit_field ? fmt::format("{} {}", part.bits, part.bits == 1 ? "bit" : "bits")
                           : fmt::format("{}", part.bits / kBitsOfByte);
}

// 4 bytes hole, 3 bits hole, 1 byte 3 bits padding
std::string gap_text(const Part& part) {
  const uint64_t bytes = part.bits / kBitsOfByte, bits = part.bits % kBitsOfByte;
  std::string text;
  if (bytes != 0) text += fmt::format("{} {} ", bytes, bytes == 1 ? "byte" : "bytes");
  if (bits != 0) text += fmt::format("{} {} ", bits, bits == 1 ? "bit" : "bits");
  return text + (part.kind == Part::Kind::hole ? "hole" : "padding");
}

std::string name_text(const Part& part) {
  if (part.kind == Part::Kind::base) return "(base class)";
  if (part.kind == Part::Kind::virtual_base) return "(virtual base class, elsewhere)";
  return part.name;
}

std::string indented(const Part& part, const std::string& text) {
  constexpr size_t kIndent = 2;
  return std::string(kIndent * part.depth, ' ') + text;
}

}  // namespace

void TextRenderer::layouts(const std::vector<LayoutRow>& rows) {
  for (const LayoutRow& row : rows) {
    data_.print("{}  {} {}  {}\n", data_.bold(row.layout.name), row.layout.bytes,
                row.layout.bytes == 1 ? "byte" : "bytes", row.object);
    size_t offset_width = 0, size_width = 0, type_width = 0;
    for (const Part& part : row.layout.parts) {
      offset_width = std::max(offset_width, offset_text(part).size());
      size_width = std::max(size_width, size_text(part).size());
      if (!holds_nothing(part)) type_width = std::max(type_width, indented(part, part.type).size());
    }
    for (const Part& part : row.layout.parts)
      if (holds_nothing(part))
        data_.print("    {:>{}}  {:>{}}  {}\n", offset_text(part), offset_width, "", size_width,
                    data_.faint(indented(part, gap_text(part))));
      else
        data_.print("    {:>{}}  {:>{}}  {:<{}}  {}\n", offset_text(part), offset_width,
                    size_text(part), size_width, indented(part, part.type), type_width,
                    name_text(part));
  }
  data_.flush();
}

}  // namespace pinprick::cli
