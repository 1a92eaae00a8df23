#include "debug/structures.h"

#include <string>

#include "debug/entries.h"
#include "debug/type_entries.h"

namespace pinprick::debug {
namespace {

class StructureSearch {
 public:
  explicit StructureSearch(std::string_view name) : name_(name) {
    for (const std::string_view word : {"struct ", "class ", "union "})
      if (name_.starts_with(word)) name_.remove_prefix(word.size());
    const size_t scope = name_.substr(0, name_.find('<')).rfind("::");
    last_ = scope == name_.npos ? name_ : name_.substr(scope + 2);
  }

  void add_unit(Dwarf_Die unit) {
    furthest_ = nullptr;
    add_inside(unit, {}, 0);
  }
  std::vector<Dwarf_Die> found() && { return std::move(found_); }

 private:
  void add_inside(Dwarf_Die& parent, const std::string& scope, int depth);

  std::string_view name_, last_;  // the last part of the name is without its scopes
  const void* furthest_ = nullptr;
  std::vector<Dwarf_Die> found_;
};

// Entries follow each other in the file, so one that was looked at does not come again, unless
// references between them lead back.
void StructureSearch::add_inside(Dwarf_Die& parent, const std::string& scope, int depth) {
  if (depth > kDeepest) return;
  for_each_child(parent, [&](Dwarf_Die& child) {
    if (child.addr <= furthest_) return false;
    furthest_ = child.addr;
    const int tag = dwarf_tag(&child);
    const bool has_members = is_structure(tag);
    const bool is_scope = has_members || tag == DW_TAG_namespace || tag == DW_TAG_module ||
                          tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block;
    if (!is_scope && tag != DW_TAG_typedef) return true;
    const char* const name = dwarf_diename(&child);
    const bool has_name = name != nullptr && (has_members || tag == DW_TAG_typedef);
    if (has_name && last_ == name && dwarf_hasattr(&child, DW_AT_declaration) == 0 &&
        (scope + name == name_ || (scope + name).ends_with("::" + std::string(name_))))
      found_.push_back(child);
    // The name of a function does not qualify what it declares.
    const bool adds_name =
        name != nullptr && tag != DW_TAG_subprogram && tag != DW_TAG_lexical_block;
    if (is_scope) add_inside(child, adds_name ? scope + name + "::" : scope, depth + 1);
    return true;
  });
}

}  // namespace

std::vector<Dwarf_Die> entries_of_structures(std::span<const Dwarf_Die> units, Dwarf* file,
                                             Dwarf* common, std::string_view name) {
  StructureSearch search(name);
  for (const Dwarf_Die& unit : units) search.add_unit(unit);
  for (Dwarf* const one : {file, common}) {
    Dwarf_CU* unit = nullptr;
    Dwarf_Die die;
    uint8_t kind = 0;
    while (one != nullptr && dwarf_get_units(one, unit, &unit, nullptr, &kind, &die, nullptr) == 0)
      if (one == common || kind == DW_UT_type) search.add_unit(die);
  }
  return std::move(search).found();
}

}  // namespace pinprick::debug
