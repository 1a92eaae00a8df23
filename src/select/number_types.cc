#include "select/number_types.h"

#include <algorithm>
#include <iterator>

namespace pinprick::select {
namespace {

struct NamedType {
  std::string_view name;
  NumberType type;
};
constexpr NamedType kTypes[] = {
    {"u8", {1, false}},          {"u16", {2, false}},
    {"u32", {4, false}},         {"u64", {8, false}},
    {"s8", {1, true}},           {"s16", {2, true}},
    {"s32", {4, true}},          {"s64", {8, true}},
    {"uint8_t", {1, false}},     {"uint16_t", {2, false}},
    {"uint32_t", {4, false}},    {"uint64_t", {8, false}},
    {"int8_t", {1, true}},       {"int16_t", {2, true}},
    {"int32_t", {4, true}},      {"int64_t", {8, true}},
    {"size_t", {8, false}},      {"ssize_t", {8, true}},
    {"uintptr_t", {8, false}},   {"intptr_t", {8, true}},
    {"ptrdiff_t", {8, true}},    {"bool", {1, false}},
    {"pid_t", {4, true}},        {"off_t", {8, true}},
    {"mode_t", {4, false}},      {"uid_t", {4, false}},
    {"gid_t", {4, false}},       {"socklen_t", {4, false}},
    {"f32", {4, false, true}},   {"f64", {8, false, true}},
    {"float", {4, false, true}}, {"double", {8, false, true}},
};

}  // namespace

std::optional<NumberType> number_type(std::string_view word) {
  for (const NamedType& one : kTypes)
    if (one.name == word) return one.type;
  return std::nullopt;
}

std::optional<NumberType> c_type(std::span<const std::string_view> words) {
  constexpr std::string_view kWords[] = {"signed", "unsigned", "char", "short", "int", "long"};
  size_t times[std::size(kWords)] = {};
  for (const std::string_view word : words) {
    const auto found = std::find(std::begin(kWords), std::end(kWords), word);
    if (found == std::end(kWords)) return std::nullopt;
    ++times[found - kWords];
  }
  const auto [is_signed, is_unsigned, is_char, is_short, is_int, is_long] = times;
  const bool is_wrong = words.empty() || is_signed + is_unsigned > 1 || is_int > 1 || is_long > 2 ||
                        is_char + is_short + (is_long != 0) > 1 || (is_char != 0 && is_int != 0);
  if (is_wrong) return std::nullopt;
  const uint8_t bytes = is_char != 0 ? 1 : is_short != 0 ? 2 : is_long != 0 ? 8 : 4;
  return NumberType{.bytes = bytes, .is_signed = is_unsigned == 0};
}

}  // namespace pinprick::select
