#include "debug/scopes.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "debug/entries.h"
#include "debug/inlined_copies.h"

namespace pinprick::debug {
namespace {

// Calls `f` with each parameter and variable of a scope, until it returns false.
template <class F>
void for_each_variable(Dwarf_Die& scope, F&& f) {
  for_each_child(scope, [&](Dwarf_Die& child) {
    const int tag = dwarf_tag(&child);
    bool goes_on = true;
    if (tag == DW_TAG_formal_parameter || tag == DW_TAG_variable) goes_on = f(child);
    // A template may have any number of parameters in one entry.
    if (tag == DW_TAG_GNU_formal_parameter_pack)
      for_each_child(child, [&](Dwarf_Die& one) {
        goes_on = dwarf_tag(&one) != DW_TAG_formal_parameter || f(one);
        return goes_on;
      });
    return goes_on;
  });
}

}  // namespace

std::vector<Dwarf_Die> scopes_at(Dwarf_Die function, Dwarf_Addr address,
                                 const Beginning& beginning) {
  std::vector<Dwarf_Die> scopes = {function};
  if (beginning.inlined != 0) {
    const auto inlined = find_inlined(function, beginning.inlined);
    if (!inlined) return {};
    scopes = {*inlined};
  }
  const bool is_entered = !beginning.of_function && beginning.inlined == 0;
  for (int depth = 0; depth < kDeepest; ++depth) {
    std::optional<Dwarf_Die> inner;
    Dwarf_Die parent = scopes.back();
    for_each_child(parent, [&](Dwarf_Die& child) {
      const int tag = dwarf_tag(&child);
      const bool is_scope = tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine ||
                            tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
      if (is_scope && dwarf_haspc(&child, address) > 0) inner = child;
      return !inner;
    });
    if (!inner) break;
    const bool is_inlined = dwarf_tag(&*inner) == DW_TAG_inlined_subroutine;
    const bool is_called = is_inlined && beginning.line != 0 &&
                           numeric_attribute(*inner, DW_AT_call_line) == beginning.line &&
                           entry_of(*inner) == address;
    if (is_called || (is_inlined && !is_entered)) break;
    if (is_inlined) scopes.clear();
    scopes.push_back(*inner);
  }
  return scopes;
}

std::vector<Dwarf_Die> variables_of(Dwarf_Die& scope) {
  std::vector<std::pair<Dwarf_Off, Dwarf_Die>> all;  // by the entry in the function
  for_each_variable(scope, [&](Dwarf_Die& child) {
    Dwarf_Attribute attribute;
    Dwarf_Die origin;
    const bool is_inlined = dwarf_tag(&scope) == DW_TAG_inlined_subroutine &&
                            dwarf_attr(&child, DW_AT_abstract_origin, &attribute) != nullptr &&
                            dwarf_formref_die(&attribute, &origin) != nullptr;
    all.emplace_back(is_inlined ? dwarf_dieoffset(&origin) : 0, child);
    return true;
  });
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Dwarf_Die> sorted;
  sorted.reserve(all.size());
  for (const auto& [origin, child] : all) sorted.push_back(child);
  return sorted;
}

uint64_t line_of_declaration(Dwarf_Die scope) {
  Dwarf_Attribute attribute;
  Dwarf_Die origin;
  if (dwarf_tag(&scope) == DW_TAG_inlined_subroutine &&
      dwarf_attr(&scope, DW_AT_abstract_origin, &attribute) != nullptr &&
      dwarf_formref_die(&attribute, &origin) != nullptr)
    scope = origin;
  return numeric_attribute(scope, DW_AT_decl_line).value_or(0);
}

}  // namespace pinprick::debug
