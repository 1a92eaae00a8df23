#include "debug/debug_info.h"

#include <fcntl.h>
#include <libelf.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/fd.h"
#include "debug/entries.h"
#include "debug/inlined_copies.h"
#include "debug/scopes.h"
#include "debug/structures.h"
#include "debug/type_entries.h"

namespace pinprick::debug {

// DebugInfo has members of these types, so they are in no unnamed namespace.
struct UnitCode {
  Range code;
  size_t number = 0;  // index into `all`
};

// A function of a unit that has code.
struct FunctionCode {
  Range range;
  Dwarf_Die function;
};

// What all units have by name. The names are those of the entries.
struct UnitNames {
  std::unordered_map<std::string_view, Dwarf_Die> variables, structures, typedefs;
  std::set<std::string_view> ambiguous;  // names of structures that differ
};

namespace {

// Does the path end with these components?
bool ends_with_path(std::string_view path, std::string_view end) {
  return path.ends_with(end) &&
         (path.size() == end.size() || path[path.size() - end.size() - 1] == '/');
}

// Do entries that are in it belong to the file as a whole, by a qualified name?
bool is_name_space(int tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_enumeration_type ||
         is_structure(tag);
}

// Many entries may refer to one list.
constexpr size_t kMostRanges = size_t{1} << 22;
constexpr size_t kMostVariants = 1000;

template <class F>
void for_each_range(Dwarf_Die& die, F&& f) {
  Dwarf_Addr base = 0, begin = 0, end = 0;
  for (ptrdiff_t next = 0; (next = dwarf_ranges(&die, next, &base, &begin, &end)) > 0;)
    if (begin < end && !f(Range{begin, end})) return;
}

}  // namespace

bool is_number(const Type& type) {
  using Kind = Type::Kind;
  const bool is_kind = type.kind == Kind::integer || type.kind == Kind::boolean ||
                       type.kind == Kind::character || type.kind == Kind::enumeration ||
                       type.kind == Kind::pointer;
  return is_kind && (type.bytes == 1 || type.bytes == 2 || type.bytes == 4 || type.bytes == 8);
}

struct DebugInfo::State {
  Fd fd;
  Elf* elf = nullptr;
  Dwarf* dwarf = nullptr;
  std::mutex mutex;
  std::vector<UnitCode> units;  // by code; only those that have some
  std::vector<Dwarf_Die> all;
  std::map<size_t, std::vector<FunctionCode>> functions;  // by unit, those that were asked for
  // Types, which `Type::entry` numbers from 1.
  std::vector<Dwarf_Die> types;
  std::unordered_map<const void*, uint64_t> numbers;
  std::optional<UnitNames> by_name;      // once it was asked for
  std::optional<InlinedCopies> inlined;  // once it was asked for
  // Variables by unit and name, of units that were asked for: defined ones, and else declared ones.
  std::map<const Dwarf_Die*, std::unordered_map<std::string_view, Dwarf_Die>> of_units;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (dwarf != nullptr) dwarf_end(dwarf);
    if (elf != nullptr) elf_end(elf);
  }

  void find_units();
  Dwarf_Die* unit_at(Dwarf_Addr address);
  const std::vector<FunctionCode>& functions_of(size_t unit);
  std::optional<Dwarf_Die> function_around(Dwarf_Addr address);
  const UnitNames& names();

  uint64_t number_of_type(const Dwarf_Die& die);
  Dwarf_Die* entry(const Type& type);
  Type describe(std::optional<Dwarf_Die> die);
  // The same of a structure that its own unit does not define, but another one.
  Type describe_defined(std::optional<Dwarf_Die> die);
  Variable describe_variable(Dwarf_Die& die, Dwarf_Addr address, const Location& frame_base,
                             bool is_entry = false);
  std::optional<Member> describe_member(Dwarf_Die& die);
  std::optional<Variants> describe_variants(Dwarf_Die part);
  std::optional<Member> find_member(Dwarf_Die structure, std::string_view name, int depth,
                                    int& budget);
  template <class F>
  void for_each_line(Dwarf_Die& unit, F&& f);
};

void DebugInfo::State::find_units() {
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die, split;
  uint8_t type = 0;
  while (dwarf_get_units(dwarf, unit, &unit, nullptr, &type, &die, &split) == 0) {
    // The code of a unit whose rest is in a file of its own is known in the first file.
    const bool is_split = type == DW_UT_skeleton && dwarf_tag(&split) != DW_TAG_invalid;
    if (type == DW_UT_type || type == DW_UT_split_type) continue;
    for_each_range(die, [&](Range code) {
      units.push_back({code, all.size()});
      return units.size() < kMostRanges;
    });
    all.push_back(is_split ? split : die);
  }
  std::sort(units.begin(), units.end(),
            [](const UnitCode& a, const UnitCode& b) { return a.code.begin < b.code.begin; });
}

Dwarf_Die* DebugInfo::State::unit_at(Dwarf_Addr address) {
  const auto after =
      std::upper_bound(units.begin(), units.end(), address,
                       [](Dwarf_Addr a, const UnitCode& unit) { return a < unit.code.begin; });
  if (after == units.begin() || !std::prev(after)->code.contains(address)) return nullptr;
  return &all[std::prev(after)->number];
}

static void add_functions(Dwarf_Die& parent, std::vector<FunctionCode>& functions, int depth) {
  if (depth > kDeepest) return;
  for_each_child(parent, [&](Dwarf_Die& child) {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_subprogram)
      for_each_range(child, [&](Range code) {
        functions.push_back({code, child});
        return functions.size() < kMostRanges;
      });
    // Functions in functions: of Pascal, of D, of Rust, and of GNU C.
    if (tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block || is_name_space(tag))
      add_functions(child, functions, depth + 1);
    return true;
  });
}

const std::vector<FunctionCode>& DebugInfo::State::functions_of(size_t unit) {
  const auto [found, is_new] = functions.try_emplace(unit);
  if (!is_new) return found->second;
  add_functions(all[unit], found->second, 0);
  std::sort(
      found->second.begin(), found->second.end(),
      [](const FunctionCode& a, const FunctionCode& b) { return a.range.begin < b.range.begin; });
  return found->second;
}

std::optional<Dwarf_Die> DebugInfo::State::function_around(Dwarf_Addr address) {
  const Dwarf_Die* const unit = unit_at(address);
  if (unit == nullptr) return std::nullopt;
  const auto& own = functions_of(static_cast<size_t>(unit - all.data()));
  const auto after = std::upper_bound(own.begin(), own.end(), address,
                                      [](Dwarf_Addr a, auto& one) { return a < one.range.begin; });
  if (after == own.begin() || !std::prev(after)->range.contains(address)) return std::nullopt;
  return std::prev(after)->function;
}

static void add_names(Dwarf_Die& parent, UnitNames& names, int depth) {
  if (depth > kDeepest) return;
  for_each_child(parent, [&](Dwarf_Die& child) {
    const int tag = dwarf_tag(&child);
    const char* const name = dwarf_diename(&child);
    if (tag == DW_TAG_namespace) add_names(child, names, depth + 1);
    if (name == nullptr || dwarf_hasattr(&child, DW_AT_declaration) != 0) return true;
    if (tag == DW_TAG_typedef) {
      names.typedefs.try_emplace(name, child);
    } else if (is_structure(tag)) {
      const auto [found, is_new] = names.structures.try_emplace(name, child);
      if (!is_new && !is_alike(found->second, child)) names.ambiguous.insert(name);
    } else if (tag == DW_TAG_variable && dwarf_hasattr_integrate(&child, DW_AT_location) != 0) {
      names.variables.try_emplace(name, child);
    }
    return true;
  });
}

const UnitNames& DebugInfo::State::names() {
  if (by_name) return *by_name;
  by_name.emplace();
  for (Dwarf_Die& unit : all) add_names(unit, *by_name, 0);
  // dwz moves to another file what several files have in common.
  Dwarf* const common = dwarf_getalt(dwarf);
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  while (common != nullptr &&
         dwarf_get_units(common, unit, &unit, nullptr, nullptr, &die, nullptr) == 0)
    add_names(die, *by_name, 0);
  return *by_name;
}

uint64_t DebugInfo::State::number_of_type(const Dwarf_Die& die) {
  const auto [found, is_new] = numbers.try_emplace(die.addr, types.size() + 1);
  if (is_new) types.push_back(die);
  return found->second;
}

Dwarf_Die* DebugInfo::State::entry(const Type& type) {
  return type.entry == 0 || type.entry > types.size() ? nullptr : &types[type.entry - 1];
}

Type DebugInfo::State::describe(std::optional<Dwarf_Die> die) {
  using Kind = Type::Kind;
  Type type;
  type.name = spelling_of(die);
  for (int depth = 0; die && is_same_type_in_other_words(dwarf_tag(&*die)); ++depth) {
    if (depth > kDeepest) return type;
    type.alignment = std::max(type.alignment, numeric_attribute(*die, DW_AT_alignment).value_or(0));
    die = type_of(*die);
  }
  if (!die) return type;
  type.alignment = std::max(type.alignment, numeric_attribute(*die, DW_AT_alignment).value_or(0));
  type.entry = number_of_type(*die);
  type.is_of_c = is_of_c(*die);
  type.passed = how_passed(*die);
  Dwarf_Word bytes = 0;
  if (dwarf_aggregate_size(&*die, &bytes) == 0) type.bytes = bytes;
  switch (dwarf_tag(&*die)) {
    case DW_TAG_base_type:
      type.kind = kind_of_base(*die, type.is_signed);
      break;
    case DW_TAG_enumeration_type:
      type.kind = Kind::enumeration;
      type.is_signed = has_sign(*die);
      break;
    case DW_TAG_reference_type:
    case DW_TAG_rvalue_reference_type:
      type.is_reference = true;
      [[fallthrough]];
    case DW_TAG_pointer_type:
      type.kind = Kind::pointer;
      type.bytes = sizeof(uint64_t);
      break;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
      type.kind = has_flag(*die, DW_AT_declaration) ? Kind::none : Kind::structure;
      break;
    case DW_TAG_array_type:
      type.kind = has_flag(*die, DW_AT_GNU_vector) ? Kind::other : Kind::array;
      break;
    case DW_TAG_subroutine_type:
      type.kind = Kind::function;
      break;
    default:
      type.kind = Kind::other;
  }
  return type;
}

Type DebugInfo::State::describe_defined(std::optional<Dwarf_Die> die) {
  Type type = describe(die);
  Dwarf_Die* const own = entry(type);
  if (type.kind != Type::Kind::none || own == nullptr) return type;
  // A type unit may define it (-fdebug-types-section).
  Dwarf_Attribute attribute;
  Dwarf_Die defined;
  if (dwarf_attr(own, DW_AT_signature, &attribute) != nullptr &&
      dwarf_formref_die(&attribute, &defined) != nullptr)
    return describe(defined);
  const char* const name = dwarf_diename(own);
  if (name == nullptr) return type;
  const UnitNames& known = names();
  const auto found = known.structures.find(name);
  const bool is_one = found != known.structures.end() && !known.ambiguous.contains(name);
  return is_one ? describe(found->second) : type;
}

Variable DebugInfo::State::describe_variable(Dwarf_Die& die, Dwarf_Addr address,
                                             const Location& frame_base, bool is_entry) {
  Variable variable;
  variable.name = name_of(die);
  variable.type = describe_defined(type_of(die));
  variable.is_parameter = dwarf_tag(&die) == DW_TAG_formal_parameter;
  variable.location = location_of(die, address, frame_base, variable.type.is_signed, is_entry);
  variable.is_external =
      variable.location.kind == Location::Kind::none && has_flag(die, DW_AT_declaration);
  return variable;
}

std::optional<Member> DebugInfo::State::describe_member(Dwarf_Die& die) {
  Member member;
  if (dwarf_tag(&die) == DW_TAG_member) member.name = name_of(die);
  member.is_base = dwarf_tag(&die) == DW_TAG_inheritance;
  member.type = describe_defined(type_of(die));
  const auto offset = numeric_attribute(die, DW_AT_data_member_location);
  if (!offset && dwarf_hasattr_integrate(&die, DW_AT_data_member_location) != 0)
    return std::nullopt;  // it is computed
  member.offset = offset.value_or(0);
  member.type.alignment =
      std::max(member.type.alignment, numeric_attribute(die, DW_AT_alignment).value_or(0));
  const auto bits = numeric_attribute(die, DW_AT_bit_size);
  if (!bits) return member;
  const auto at = first_bit(die, member, *bits);
  if (!at || *bits == 0 || *bits > kBitsInByte * sizeof(uint64_t)) return std::nullopt;
  member.bits = static_cast<uint32_t>(*bits);
  member.offset = *at / kBitsInByte;
  member.bit_offset = static_cast<uint32_t>(*at % kBitsInByte);
  if (member.bits + member.bit_offset > kBitsInByte * sizeof(uint64_t)) return std::nullopt;
  return member;
}

std::optional<Variants> DebugInfo::State::describe_variants(Dwarf_Die part) {
  Variants variants;
  Dwarf_Attribute attribute;
  Dwarf_Die which;
  if (dwarf_attr(&part, DW_AT_discr, &attribute) != nullptr &&
      dwarf_formref_die(&attribute, &which) != nullptr)
    variants.which = describe_member(which);
  const bool has_number = variants.which && is_number(variants.which->type);
  bool is_plain = has_number || !variants.which;
  std::optional<Variants::Variant> other;
  for_each_child(part, [&](Dwarf_Die& child) {
    if (dwarf_tag(&child) != DW_TAG_variant) return true;
    if (dwarf_hasattr(&child, DW_AT_discr_list) != 0) is_plain = false;
    Variants::Variant one;
    if (has_number)
      one.number = constant_of(child, variants.which->type.is_signed, DW_AT_discr_value);
    for_each_child(child, [&](Dwarf_Die& inner) {
      auto member = is_member(inner) ? describe_member(inner) : std::nullopt;
      if (member) one.member = *std::move(member);
      return !member;
    });
    if (one.member.type.kind != Type::Kind::structure) return true;
    if (!one.number && other) is_plain = false;
    if (one.number)
      variants.all.push_back(std::move(one));
    else
      other = std::move(one);
    return is_plain && variants.all.size() < kMostVariants;
  });
  if (other) variants.all.push_back(*std::move(other));
  return is_plain && !variants.all.empty() ? std::optional(std::move(variants)) : std::nullopt;
}

// `budget` is how many entries may be looked at, as a few structures in each other may stand for
// any number.
std::optional<Member> DebugInfo::State::find_member(Dwarf_Die structure, std::string_view name,
                                                    int depth, int& budget) {
  std::optional<Member> found;
  if (depth > kDeepest) return found;
  // A member of its own hides those of base classes.
  for (const bool own : {true, false})
    for_each_child(structure, [&](Dwarf_Die& child) {
      if (found || --budget < 0) return false;
      const char* const spelled =
          dwarf_tag(&child) == DW_TAG_member ? dwarf_diename(&child) : nullptr;
      const bool is_meant = own ? spelled != nullptr && spelled == name : spelled == nullptr;
      auto member = is_meant && is_member(child) ? describe_member(child) : std::nullopt;
      if (!member) return true;
      if (own) {
        found = std::move(member);
      } else if (member->type.kind == Type::Kind::structure) {
        if (const Dwarf_Die* const inner = entry(member->type))
          found = find_member(*inner, name, depth + 1, budget);
        if (found) found->offset += member->offset;
      }
      return !found;
    });
  const auto part = found ? std::nullopt : variant_part_of(structure);
  const auto variants = part ? describe_variants(*part) : std::nullopt;
  if (!variants) return found;
  for (const Variants::Variant& one : variants->all)
    if (one.member.name == name) found = one.member;
  return found;
}

// Calls `f` with the number, the path and the address of each line where a statement begins. At the
// end of a run of instructions the number is 0.
template <class F>
void DebugInfo::State::for_each_line(Dwarf_Die& unit, F&& f) {
  Dwarf_Lines* lines = nullptr;
  size_t count = 0;
  if (dwarf_getsrclines(&unit, &lines, &count) != 0) return;
  for (size_t i = 0; i < count; ++i) {
    Dwarf_Line* const one = dwarf_onesrcline(lines, i);
    const char* const path = dwarf_linesrc(one, nullptr, nullptr);
    Dwarf_Addr address = 0;
    int number = 0;
    bool begins = false, ends = false;
    if (path == nullptr || dwarf_lineno(one, &number) != 0 || number < 0 ||
        dwarf_lineaddr(one, &address) != 0 || dwarf_linebeginstatement(one, &begins) != 0 ||
        dwarf_lineendsequence(one, &ends) != 0)
      continue;
    if (ends) number = 0;
    if (ends || begins) f(static_cast<uint32_t>(number), std::string_view(path), address);
  }
}

DebugInfo::DebugInfo(std::unique_ptr<State> state) : state_(std::move(state)) {}
DebugInfo::~DebugInfo() = default;

std::unique_ptr<DebugInfo> DebugInfo::open(int fd) {
  auto state = std::make_unique<State>();
  state->fd = Fd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!state->fd || elf_version(EV_CURRENT) == EV_NONE) return nullptr;
  // Not mapped: a file that gets shorter would end us.
  state->elf = elf_begin(state->fd.get(), ELF_C_READ, nullptr);
  if (state->elf == nullptr || elf_kind(state->elf) != ELF_K_ELF) return nullptr;
  state->dwarf = dwarf_begin_elf(state->elf, DWARF_C_READ, nullptr);
  if (state->dwarf == nullptr) return nullptr;
  state->find_units();
  if (state->all.empty()) return nullptr;
  return std::unique_ptr<DebugInfo>(new DebugInfo(std::move(state)));
}

std::vector<Variable> DebugInfo::variables_at(Address address, const Beginning& beginning) {
  const std::scoped_lock lock(state_->mutex);
  std::vector<Variable> all;
  std::set<std::string> names;
  auto function = state_->function_around(address);
  if (!function) return all;
  const Location frame_base = frame_base_of(*function, address);
  auto scopes = scopes_at(*function, address, beginning);
  std::reverse(scopes.begin(), scopes.end());
  for (Dwarf_Die& scope : scopes) {
    uint32_t parameter = 0;
    for (Dwarf_Die& child : variables_of(scope)) {
      const int tag = dwarf_tag(&child);
      if (tag == DW_TAG_formal_parameter) ++parameter;
      Variable one = state_->describe_variable(child, address, frame_base, beginning.of_function);
      if (tag == DW_TAG_formal_parameter && dwarf_tag(&scope) == DW_TAG_subprogram)
        one.parameter = parameter;
      if (!one.name.empty() && names.insert(one.name).second) all.push_back(std::move(one));
    }
  }
  return all;
}

static void add_variables(Dwarf_Die& parent,
                          std::unordered_map<std::string_view, Dwarf_Die>& variables, int depth) {
  for_each_child(parent, [&](Dwarf_Die& child) {
    const int tag = dwarf_tag(&child);
    if (tag == DW_TAG_namespace && depth < kDeepest) add_variables(child, variables, depth + 1);
    const char* const name = tag == DW_TAG_variable ? dwarf_diename(&child) : nullptr;
    if (name == nullptr) return true;
    const bool is_declared = dwarf_hasattr(&child, DW_AT_declaration) != 0;
    if (is_declared)
      variables.try_emplace(name, child);
    else
      variables.insert_or_assign(name, child);
    return true;
  });
}

std::optional<Variable> DebugInfo::find_global(std::string_view name, Address address) {
  const std::scoped_lock lock(state_->mutex);
  std::optional<Variable> found;
  if (Dwarf_Die* const unit = state_->unit_at(address)) {
    const auto [own, is_new] = state_->of_units.try_emplace(unit);
    if (is_new) add_variables(*unit, own->second, 0);
    if (const auto one = own->second.find(name); one != own->second.end())
      found = state_->describe_variable(one->second, address, {});
  }
  if (found && !found->is_external) return found;
  const auto& all = state_->names().variables;
  const auto other = all.find(name);
  if (other == all.end()) return found;
  Dwarf_Die die = other->second;
  return state_->describe_variable(die, address, {});
}

std::optional<Function> DebugInfo::function_at(Address entry) {
  const std::scoped_lock lock(state_->mutex);
  auto die = state_->function_around(entry);
  if (!die || entry_of(*die) != entry) return std::nullopt;
  Function function;
  const Location frame_base = frame_base_of(*die, entry);
  for (Dwarf_Die& child : variables_of(*die)) {
    if (dwarf_tag(&child) != DW_TAG_formal_parameter) continue;
    function.parameters.push_back(state_->describe_variable(child, entry, frame_base, true));
    function.parameters.back().parameter = static_cast<uint32_t>(function.parameters.size());
  }
  function.result = state_->describe_defined(type_of(*die));
  return function;
}

std::optional<Type> DebugInfo::find_type(std::string_view name) {
  const std::scoped_lock lock(state_->mutex);
  // Namespaces are not compared.
  if (const size_t scope = name.rfind("::"); scope != name.npos && name.find('<') == name.npos)
    name.remove_prefix(scope + 2);
  const UnitNames& names = state_->names();
  for (const auto* const all : {&names.structures, &names.typedefs})
    if (const auto found = all->find(name); found != all->end())
      return state_->describe_defined(found->second);
  return std::nullopt;
}

std::vector<Type> DebugInfo::find_structures(std::string_view name) {
  const std::scoped_lock lock(state_->mutex);
  std::vector<Type> all;
  std::set<std::pair<uint64_t, std::optional<uint64_t>>> seen;  // sizes, and lines of the source
  for (const Dwarf_Die& one :
       entries_of_structures(state_->all, state_->dwarf, dwarf_getalt(state_->dwarf), name)) {
    Type type = state_->describe_defined(one);
    Dwarf_Die* const die = state_->entry(type);
    const bool is_known = die != nullptr && type.kind == Type::Kind::structure;
    if (is_known && seen.emplace(type.bytes, numeric_attribute(*die, DW_AT_decl_line)).second)
      all.push_back(std::move(type));
  }
  return all;
}

std::optional<Type> DebugInfo::target_of(const Type& type) {
  const std::scoped_lock lock(state_->mutex);
  Dwarf_Die* const die = state_->entry(type);
  if (die == nullptr || (type.kind != Type::Kind::pointer && type.kind != Type::Kind::array))
    return std::nullopt;
  if (type.kind == Type::Kind::pointer) return state_->describe_defined(type_of(*die));
  const auto dimensions = dimensions_of(*die);
  if (!dimensions) return std::nullopt;
  Type element = state_->describe_defined(type_of(*die));
  const size_t given = type.dimension + size_t{1};
  if (given >= dimensions->size()) return element;
  // The elements are arrays of the dimensions that are left.
  Type row = type;
  row.dimension = static_cast<uint8_t>(given);
  row.bytes = element.bytes;
  for (size_t i = given; i < dimensions->size(); ++i)
    if (__builtin_mul_overflow(row.bytes, (*dimensions)[i], &row.bytes)) return std::nullopt;
  return row;
}

std::string DebugInfo::own_name(const Type& structure) {
  const std::scoped_lock lock(state_->mutex);
  Dwarf_Die* const die = state_->entry(structure);
  return die == nullptr ? std::string() : name_of(*die);
}

std::vector<Type> DebugInfo::type_arguments(const Type& structure) {
  const std::scoped_lock lock(state_->mutex);
  std::vector<Type> all;
  Dwarf_Die* const die = state_->entry(structure);
  if (die == nullptr || structure.kind != Type::Kind::structure) return all;
  const auto add = [&](Dwarf_Die& child) {
    if (dwarf_tag(&child) == DW_TAG_template_type_parameter)
      all.push_back(state_->describe_defined(type_of(child)));
    return true;
  };
  for_each_child(*die, [&](Dwarf_Die& child) {
    if (dwarf_tag(&child) == DW_TAG_GNU_template_parameter_pack) for_each_child(child, add);
    return add(child);
  });
  return all;
}

std::vector<Member> DebugInfo::members_of(const Type& structure) {
  const std::scoped_lock lock(state_->mutex);
  std::vector<Member> all;
  const Dwarf_Die* const found = state_->entry(structure);
  if (found == nullptr || structure.kind != Type::Kind::structure) return all;
  Dwarf_Die die = *found;
  for_each_child(die, [&](Dwarf_Die& child) {
    auto member = is_member(child) ? state_->describe_member(child) : std::nullopt;
    if (member) all.push_back(*std::move(member));
    return true;
  });
  return all;
}

std::vector<Type> DebugInfo::virtual_bases_of(const Type& structure) {
  const std::scoped_lock lock(state_->mutex);
  std::vector<Type> all;
  Dwarf_Die* const die = state_->entry(structure);
  if (die == nullptr || structure.kind != Type::Kind::structure) return all;
  for_each_child(*die, [&](Dwarf_Die& child) {
    if (dwarf_tag(&child) == DW_TAG_inheritance && !is_member(child))
      all.push_back(state_->describe_defined(type_of(child)));
    return true;
  });
  return all;
}

std::optional<Variants> DebugInfo::variants_of(const Type& structure) {
  const std::scoped_lock lock(state_->mutex);
  Dwarf_Die* const die = state_->entry(structure);
  if (die == nullptr || structure.kind != Type::Kind::structure) return std::nullopt;
  const auto part = variant_part_of(*die);
  return part ? state_->describe_variants(*part) : std::nullopt;
}

std::optional<Member> DebugInfo::find_member(const Type& structure, std::string_view name) {
  const std::scoped_lock lock(state_->mutex);
  const Dwarf_Die* const die = state_->entry(structure);
  if (die == nullptr || structure.kind != Type::Kind::structure || name.empty())
    return std::nullopt;
  int budget = 100'000;
  return state_->find_member(*die, name, 0, budget);
}

std::vector<DebugInfo::Enumerator> DebugInfo::enumerators_of(const Type& enumeration) {
  const std::scoped_lock lock(state_->mutex);
  std::vector<Enumerator> all;
  Dwarf_Die* const die = state_->entry(enumeration);
  if (die == nullptr || enumeration.kind != Type::Kind::enumeration) return all;
  for_each_child(*die, [&](Dwarf_Die& child) {
    const auto value = dwarf_tag(&child) == DW_TAG_enumerator
                           ? constant_of(child, enumeration.is_signed)
                           : std::nullopt;
    if (value) all.push_back({name_of(child), *value});
    return true;
  });
  return all;
}

std::vector<LineCode> DebugInfo::code_of_lines(std::string_view file, uint32_t first,
                                               uint32_t last) {
  const std::scoped_lock lock(state_->mutex);
  std::vector<LineCode> all;
  uint32_t most = first == last ? UINT32_MAX : last;
  for (Dwarf_Die& unit : state_->all) {
    uint32_t before = 0;  // the line of the instructions before
    state_->for_each_line(unit, [&](uint32_t number, std::string_view path, Address address) {
      const uint32_t own = ends_with_path(path, file) ? number : 0;
      const bool is_new = own != std::exchange(before, own);
      if (!is_new || own < first || own > most || own == 0) return;
      if (first == last && own < most) all.clear();
      if (first == last) most = own;
      all.push_back({address, own, std::string(path)});
    });
  }
  std::sort(all.begin(), all.end(),
            [](const LineCode& a, const LineCode& b) { return a.address < b.address; });
  std::set<std::pair<const void*, uint32_t>> seen;
  std::erase_if(all, [&](const LineCode& one) {
    const auto function = state_->function_around(one.address);
    if (!function) return one.line != first && first == last;
    Dwarf_Die scope = scopes_at(*function, one.address, {.line = one.line}).front();
    if (!seen.insert({scope.addr, one.line}).second) return true;
    // Code of the next function does not stand for the line.
    return one.line != first && first == last && line_of_declaration(scope) > first;
  });
  return all;
}

std::vector<InlinedCode> DebugInfo::inlined_code(
    const std::function<bool(std::string_view)>& is_meant) {
  const std::scoped_lock lock(state_->mutex);
  if (!state_->inlined) state_->inlined.emplace(state_->all);
  return state_->inlined->find(is_meant);
}

std::vector<LineCode> DebugInfo::lines_of(Range code) {
  const std::scoped_lock lock(state_->mutex);
  std::vector<LineCode> all;
  Dwarf_Die* const unit = state_->unit_at(code.begin);
  if (unit == nullptr) return all;
  state_->for_each_line(*unit, [&](uint32_t number, std::string_view path, Address address) {
    if (number == 0 || !code.contains(address)) return;
    if (!all.empty() && all.back().address == address) all.pop_back();
    all.push_back({address, number, std::string(path)});
  });
  std::stable_sort(all.begin(), all.end(),
                   [](const LineCode& a, const LineCode& b) { return a.address < b.address; });
  const auto is_same = [](const LineCode& a, const LineCode& b) {
    return a.line == b.line && a.file == b.file;
  };
  all.erase(std::unique(all.begin(), all.end(), is_same), all.end());
  return all;
}

}  // namespace pinprick::debug
