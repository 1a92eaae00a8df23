#include "debug/text_layout.h"

#include <string>
#include <string_view>

#include "debug/member_path.h"

namespace pinprick::debug {
namespace {

// The members that hold a text's address and its length, in structures of several languages.
struct TextMembers {
  std::string_view address, length;
  bool is_all = false;  // it has no other members, as others use these names, too
};
constexpr TextMembers kTexts[] = {
    {"_M_dataplus._M_p", "_M_string_length"},  // std::string
    {"_M_str", "_M_len"},                      // std::string_view
    {"__data_", "__size_"},                    // the same of libc++
    {"__data", "__size"},
    {"data_ptr", "length"},                            // Rust: &str
    {"vec.buf.inner.ptr.pointer.pointer", "vec.len"},  // Rust: String
    {"vec.buf.ptr.pointer.pointer", "vec.len"},        // the same of older compilers
    {"data", "len", true},                             // nginx: ngx_str_t
};

// The std::string of libc++, in its usual layout.
std::optional<TextLayout> libcxx_layout(DebugInfo& info, const Type& structure,
                                        std::string_view whole) {
  constexpr uint64_t kAddress = 16, kLength = 8, kBegin = 1;
  const auto part = [&](std::string_view name) {
    return find_path(info, structure, std::string(whole) + std::string(name));
  };
  const auto address = part(".__l.__data_"), length = part(".__l.__size_");
  const auto begin = part(".__s.__data_");
  const bool is_usual = address && length && begin && address->offset == kAddress &&
                        length->offset == kLength && begin->offset == kBegin;
  if (!is_usual || address->type.kind != Type::Kind::pointer || !is_number(length->type))
    return std::nullopt;
  return TextLayout{kAddress, kLength, length->type, TextLayout::Short{.byte = 0, .begin = kBegin}};
}

}  // namespace

std::optional<TextLayout> text_layout(DebugInfo& info, const Type& structure) {
  for (const std::string_view whole : {"__r_.__value_", "__rep_"})
    if (auto layout = libcxx_layout(info, structure, whole)) return layout;
  for (const TextMembers& one : kTexts) {
    const auto address = find_path(info, structure, one.address);
    const auto length = address ? find_path(info, structure, one.length) : std::nullopt;
    if (one.is_all && info.members_of(structure).size() != 2) continue;
    if (!length || address->type.kind != Type::Kind::pointer || !is_number(length->type)) continue;
    const auto unit = info.target_of(address->type);
    if (unit && unit->bytes == 1) return TextLayout{address->offset, length->offset, length->type};
  }
  return std::nullopt;
}

}  // namespace pinprick::debug
