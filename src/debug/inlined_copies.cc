#include "debug/inlined_copies.h"

#include <algorithm>

#include "debug/entries.h"

namespace pinprick::debug {
namespace {

// Templates of C++ are inlined into each other more deeply than blocks of source are nested.
constexpr int kDeepestInlining = 256;

// Returns the name that the linker would see, or else that of the source.
std::string_view name_of_function(Dwarf_Die& function) {
  for (const unsigned name : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name, DW_AT_name}) {
    Dwarf_Attribute attribute;
    if (dwarf_attr_integrate(&function, name, &attribute) == nullptr) continue;
    if (const char* const text = dwarf_formstring(&attribute)) return text;
  }
  return {};
}

// May code of inlined functions be described in it?
bool may_have_code(int tag) {
  return tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine ||
         tag == DW_TAG_lexical_block || tag == DW_TAG_try_block || tag == DW_TAG_catch_block ||
         tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_structure_type ||
         tag == DW_TAG_class_type || tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type;
}

}  // namespace

InlinedCopies::InlinedCopies(std::span<const Dwarf_Die> units) {
  for (Dwarf_Die unit : units) {
    const void* furthest = nullptr;
    add_inside(unit, furthest, 0);
  }
}

// `furthest` is the last entry that was looked at. They follow each other in the file; where
// references between them lead back, they would be looked at again and again.
void InlinedCopies::add_inside(Dwarf_Die& parent, const void*& furthest, int depth) {
  if (depth > kDeepestInlining) return;
  for_each_child(parent, [&](Dwarf_Die& child) {
    if (child.addr <= furthest) return false;
    furthest = child.addr;
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_inlined_subroutine) add(child);
    if (may_have_code(tag)) add_inside(child, furthest, depth + 1);
    return true;
  });
}

void InlinedCopies::add(Dwarf_Die& entry) {
  Dwarf_Attribute attribute;
  Dwarf_Die function;
  if (dwarf_attr(&entry, DW_AT_abstract_origin, &attribute) == nullptr ||
      dwarf_formref_die(&attribute, &function) == nullptr)
    return;
  const auto [found, is_new] =
      functions_.try_emplace(function.addr, static_cast<uint32_t>(names_.size()));
  if (is_new) names_.push_back(name_of_function(function));
  copies_.push_back({found->second, entry});
}

std::vector<InlinedCode> InlinedCopies::find(
    const std::function<bool(std::string_view)>& is_meant) const {
  std::vector<bool> meant(names_.size());
  for (size_t i = 0; i < names_.size(); ++i) meant[i] = !names_[i].empty() && is_meant(names_[i]);
  std::vector<InlinedCode> all;
  for (const Copy& copy : copies_) {
    if (!meant[copy.function]) continue;
    Dwarf_Die entry = copy.entry;
    const auto address = entry_of(entry);
    if (address)
      all.push_back({*address, dwarf_dieoffset(&entry), std::string(names_[copy.function])});
  }
  std::stable_sort(all.begin(), all.end(), [](const InlinedCode& a, const InlinedCode& b) {
    return a.address < b.address;
  });
  return all;
}

// Children are in the order of their numbers, so the one that has it in it is the last one before.
std::optional<Dwarf_Die> find_inlined(Dwarf_Die function, uint64_t number) {
  for (int depth = 0; depth <= kDeepestInlining; ++depth) {
    std::optional<Dwarf_Die> next;
    for_each_child(function, [&](Dwarf_Die& child) {
      if (dwarf_dieoffset(&child) > number) return false;
      next = child;
      return true;
    });
    if (!next) return std::nullopt;
    function = *next;
    if (dwarf_dieoffset(&function) == number)
      return dwarf_tag(&function) == DW_TAG_inlined_subroutine ? next : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace pinprick::debug
