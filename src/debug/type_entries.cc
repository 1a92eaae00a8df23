#include "debug/type_entries.h"

#include "debug/entries.h"

namespace pinprick::debug {

Type::Kind kind_of_base(Dwarf_Die& die, bool& is_signed) {
  using Kind = Type::Kind;
  switch (numeric_attribute(die, DW_AT_encoding).value_or(0)) {
    case DW_ATE_boolean:
      return Kind::boolean;
    case DW_ATE_signed_char:
      is_signed = true;
      return Kind::character;
    case DW_ATE_unsigned_char:
    case DW_ATE_UTF:
      return Kind::character;
    case DW_ATE_signed:
      is_signed = true;
      return Kind::integer;
    case DW_ATE_unsigned:
    case DW_ATE_address:
      return Kind::integer;
    case DW_ATE_float:
      return Kind::floating_point;
    default:
      return Kind::other;
  }
}

bool has_sign(Dwarf_Die& enumeration) {
  auto under = type_of(enumeration);
  for (int depth = 0; under && is_same_type_in_other_words(dwarf_tag(&*under)); ++depth) {
    if (depth > kDeepest) return true;
    under = type_of(*under);
  }
  bool is_signed = true;
  if (under && dwarf_tag(&*under) == DW_TAG_base_type) {
    is_signed = false;
    kind_of_base(*under, is_signed);
  }
  return is_signed;
}

Type::Passed how_passed(Dwarf_Die& structure) {
  switch (numeric_attribute(structure, DW_AT_calling_convention).value_or(0)) {
    case DW_CC_pass_by_reference:
      return Type::Passed::by_reference;
    case DW_CC_pass_by_value:
      return Type::Passed::by_value;
    default:
      return Type::Passed::unknown;
  }
}

bool is_structure(int tag) {
  return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

bool is_member(Dwarf_Die& die) {
  const int tag = dwarf_tag(&die);
  return (tag == DW_TAG_inheritance && numeric_attribute(die, DW_AT_virtuality).value_or(0) == 0) ||
         (tag == DW_TAG_member && !has_flag(die, DW_AT_external));
}

bool is_alike(Dwarf_Die a, Dwarf_Die b) {
  return numeric_attribute(a, DW_AT_byte_size) == numeric_attribute(b, DW_AT_byte_size) &&
         numeric_attribute(a, DW_AT_decl_line) == numeric_attribute(b, DW_AT_decl_line);
}

std::optional<Dwarf_Die> variant_part_of(Dwarf_Die structure) {
  std::optional<Dwarf_Die> part;
  for_each_child(structure, [&](Dwarf_Die& child) {
    if (dwarf_tag(&child) == DW_TAG_variant_part) part = child;
    return !part;
  });
  return part;
}

std::optional<uint64_t> first_bit(Dwarf_Die& die, const Member& member, uint64_t bits) {
  if (const auto at = numeric_attribute(die, DW_AT_data_bit_offset)) return at;
  Dwarf_Attribute attribute;
  Dwarf_Sword from_highest = 0;
  if (dwarf_attr_integrate(&die, DW_AT_bit_offset, &attribute) == nullptr)
    return kBitsInByte * member.offset;
  if (dwarf_formsdata(&attribute, &from_highest) != 0) return std::nullopt;
  const uint64_t unit = numeric_attribute(die, DW_AT_byte_size).value_or(member.type.bytes);
  const auto first = static_cast<int64_t>(kBitsInByte * (member.offset + unit)) - from_highest -
                     static_cast<int64_t>(bits);
  return first >= 0 ? std::optional(static_cast<uint64_t>(first)) : std::nullopt;
}

std::optional<std::vector<uint64_t>> dimensions_of(Dwarf_Die& array) {
  std::vector<uint64_t> all;
  bool is_plain = dwarf_hasattr_integrate(&array, DW_AT_byte_stride) == 0;
  for_each_child(array, [&](Dwarf_Die& child) {
    if (dwarf_tag(&child) != DW_TAG_subrange_type) return true;
    if (numeric_attribute(child, DW_AT_lower_bound).value_or(0) != 0) is_plain = false;
    const auto count = numeric_attribute(child, DW_AT_count);
    const auto last = numeric_attribute(child, DW_AT_upper_bound);
    all.push_back(count ? *count : last ? *last + 1 : 0);
    return all.size() < static_cast<size_t>(kDeepest);
  });
  return is_plain ? std::optional(std::move(all)) : std::nullopt;
}

}  // namespace pinprick::debug
