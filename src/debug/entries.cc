#include "debug/entries.h"

#include <algorithm>

namespace pinprick::debug {

std::optional<Dwarf_Die> type_of(Dwarf_Die& die) {
  Dwarf_Attribute attribute;
  Dwarf_Die type;
  if (dwarf_attr_integrate(&die, DW_AT_type, &attribute) == nullptr ||
      dwarf_formref_die(&attribute, &type) == nullptr)
    return std::nullopt;
  return type;
}

std::optional<uint64_t> numeric_attribute(Dwarf_Die& die, unsigned name) {
  Dwarf_Attribute attribute;
  Dwarf_Word number = 0;
  if (dwarf_attr_integrate(&die, name, &attribute) == nullptr ||
      dwarf_formudata(&attribute, &number) != 0)
    return std::nullopt;
  return number;
}

bool has_flag(Dwarf_Die& die, unsigned name) {
  Dwarf_Attribute attribute;
  bool is_set = false;
  return dwarf_attr_integrate(&die, name, &attribute) != nullptr &&
         dwarf_formflag(&attribute, &is_set) == 0 && is_set;
}

bool is_same_type_in_other_words(int tag) {
  return tag == DW_TAG_typedef || tag == DW_TAG_const_type || tag == DW_TAG_volatile_type ||
         tag == DW_TAG_restrict_type || tag == DW_TAG_atomic_type || tag == DW_TAG_immutable_type;
}

std::string name_of(Dwarf_Die& die) {
  const char* const name = dwarf_diename(&die);
  return name != nullptr ? name : "";
}

std::optional<uint64_t> constant_of(Dwarf_Die& die, bool is_signed, unsigned name) {
  Dwarf_Attribute attribute;
  if (dwarf_attr_integrate(&die, name, &attribute) == nullptr) return std::nullopt;
  Dwarf_Sword number = 0;
  Dwarf_Block block = {};
  uint64_t value = 0;
  // The form of a number says how many bytes it takes, but not whether it has a sign.
  Dwarf_Word word = 0;
  if (!is_signed && dwarf_formudata(&attribute, &word) == 0) return word;
  if (dwarf_formsdata(&attribute, &number) == 0) return static_cast<uint64_t>(number);
  if (dwarf_formblock(&attribute, &block) != 0 || block.length > sizeof value) return std::nullopt;
  std::copy_n(block.data, block.length, reinterpret_cast<uint8_t*>(&value));
  return value;
}

bool is_of_c(Dwarf_Die& die) {
  Dwarf_Die unit;
  if (dwarf_diecu(&die, &unit, nullptr, nullptr) == nullptr) return true;
  switch (dwarf_srclang(&unit)) {
    case DW_LANG_C:
    case DW_LANG_C89:
    case DW_LANG_C99:
    case DW_LANG_C11:
      return true;
    default:
      return false;
  }
}

std::string spelling_of(std::optional<Dwarf_Die> die, int depth) {
  if (!die) return "void";
  if (depth > kDeepest) return "...";
  const std::string name = name_of(*die);
  const auto target = [&] { return spelling_of(type_of(*die), depth + 1); };
  const auto with_word = [&](const char* word) {
    if (name.empty()) return std::string(word) + " {...}";
    return is_of_c(*die) ? word + (" " + name) : name;
  };
  switch (dwarf_tag(&*die)) {
    case DW_TAG_pointer_type: {
      const std::string to = target();
      return to + (to.ends_with('*') ? "*" : " *");
    }
    case DW_TAG_reference_type:
      return target() + " &";
    case DW_TAG_rvalue_reference_type:
      return target() + " &&";
    case DW_TAG_const_type: {
      // The elements of a const array are const, too: one word is enough.
      std::string of = target();
      return of.starts_with("const ") ? of : "const " + of;
    }
    case DW_TAG_volatile_type:
      return "volatile " + target();
    case DW_TAG_restrict_type:
    case DW_TAG_atomic_type:
    case DW_TAG_immutable_type:
      return target();
    case DW_TAG_array_type:
      return target() + " []";
    case DW_TAG_subroutine_type:
      return target() + " ()";
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
      return with_word("struct");
    case DW_TAG_union_type:
      return with_word("union");
    case DW_TAG_enumeration_type:
      return with_word("enum");
    default:
      return name.empty() ? "?" : name;
  }
}

std::optional<Dwarf_Addr> entry_of(Dwarf_Die die) {
  Dwarf_Addr base = 0, begin = 0, end = 0;
  ptrdiff_t next = 0;
  // Few ranges are empty.
  for (int looks = 0; looks == 0 || (next > 0 && begin >= end); ++looks) {
    constexpr int kMostEmpty = 1000;
    if (looks > kMostEmpty) return std::nullopt;
    next = dwarf_ranges(&die, next, &base, &begin, &end);
  }
  if (next <= 0) return std::nullopt;
  Dwarf_Attribute attribute;
  Dwarf_Addr address = 0;
  Dwarf_Word distance = 0;
  if (dwarf_attr(&die, DW_AT_entry_pc, &attribute) == nullptr) return begin;
  if (dwarf_formaddr(&attribute, &address) == 0) return address;
  return dwarf_formudata(&attribute, &distance) == 0 ? begin + distance : begin;
}

}  // namespace pinprick::debug
