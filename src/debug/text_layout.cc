#include "debug/text_layout.h"

#include <algorithm>
#include <string_view>

namespace pinprick::debug {
namespace {

// The members that hold a text's address and its length, in structures of several languages.
struct TextMembers {
  std::string_view address, length;
};
constexpr TextMembers kTexts[] = {
    {"_M_dataplus._M_p", "_M_string_length"},          // std::string
    {"_M_str", "_M_len"},                              // std::string_view
    {"data_ptr", "length"},                            // Rust: &str
    {"vec.buf.inner.ptr.pointer.pointer", "vec.len"},  // Rust: String
    {"vec.buf.ptr.pointer.pointer", "vec.len"},        // the same of older compilers
    {"str", "len"},                                    // Go
    {"data", "len"},                                   // nginx: ngx_str_t
};

std::optional<Member> find_path(DebugInfo& info, Type structure, std::string_view path) {
  std::optional<Member> found;
  uint64_t offset = 0;
  while (!path.empty()) {
    const size_t end = std::min(path.find('.'), path.size());
    found = info.find_member(structure, path.substr(0, end));
    if (!found || found->bits != 0) return std::nullopt;
    offset += found->offset;
    structure = found->type;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  if (found) found->offset = offset;
  return found;
}

}  // namespace

std::optional<TextLayout> text_layout(DebugInfo& info, const Type& structure) {
  for (const TextMembers& one : kTexts) {
    const auto address = find_path(info, structure, one.address);
    const auto length = address ? find_path(info, structure, one.length) : std::nullopt;
    if (!length || address->type.kind != Type::Kind::pointer || !is_number(length->type)) continue;
    const auto unit = info.target_of(address->type);
    if (unit && unit->bytes == 1) return TextLayout{address->offset, length->offset, length->type};
  }
  return std::nullopt;
}

}  // namespace pinprick::debug
