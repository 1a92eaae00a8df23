#include "debug/container_layout.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/address.h"
#include "debug/alignment.h"
#include "debug/member_path.h"

namespace pinprick::debug {
namespace {

using As = ContainerLayout::Kind;

using Nodes = ContainerLayout::Nodes;

// The nodes of the C++ libraries: those of lists, of hash tables, and of trees.
constexpr Nodes kListNodes = {.element = 16, .next = 0};
constexpr Nodes kHashNodes = {.element = 8, .next = 0};
constexpr Nodes kTreeNodes = {.element = 32, .next = 24, .up = 8};
constexpr Nodes kListNodesOfLibcxx = {.element = 16, .next = 8};
constexpr Nodes kHashNodesOfLibcxx = {.element = 16, .next = 0};
// An element begins in the padding after the color.
constexpr Nodes kTreeNodesOfLibcxx = {.element = 25, .next = 8, .up = 16};

// The members of a container. The name of its type begins with `name`. The first one that fits
// counts.
struct KnownMembers {
  As kind;
  std::string_view name, first, second;
  const Nodes* nodes = nullptr;
  // The member that was given the type of the elements, and which of its types that is.
  std::string_view given = {};
  size_t number = 0;
};
constexpr KnownMembers kContainers[] = {
    // libstdc++
    {As::range, "", "_M_impl._M_start", "_M_impl._M_finish"},  // vector
    {As::length, "", "_M_ptr", "_M_extent._M_extent_value"},   // span
    {As::length, "", "_M_array", "_M_len"},                    // initializer_list
    {As::counted, "", "_M_t._M_impl._M_header._M_left", "_M_t._M_impl._M_node_count", &kTreeNodes,
     "_M_t", 1},  // map, set
    {As::counted, "", "_M_h._M_before_begin._M_nxt", "_M_h._M_element_count", &kHashNodes, "_M_h",
     1},  // unordered_map, unordered_set
    {As::counted, "list<", "_M_impl._M_node._M_next", "_M_impl._M_node._M_size", &kListNodes},
    {As::optional, "", "_M_payload._M_payload._M_value", "_M_payload._M_engaged"},
    {As::pointer, "shared_ptr<", "_M_ptr", ""},
    {As::inside, "array<", "_M_elems", ""},
    {As::alternative, "variant<", "_M_u", "_M_index"},
    // libc++
    {As::range, "vector<", "__begin_", "__end_"},
    {As::length, "span<", "__data_", "__size_"},
    {As::length, "span<", "__data", "__size"},
    {As::length, "initializer_list<", "__begin_", "__size_"},
    {As::counted, "", "__tree_.__begin_node_", "__tree_.__pair3_.__value_", &kTreeNodesOfLibcxx,
     "__tree_"},
    {As::counted, "", "__tree_.__begin_node_", "__tree_.__size_", &kTreeNodesOfLibcxx, "__tree_"},
    {As::counted, "", "__table_.__p1_.__value_.__next_", "__table_.__p2_.__value_",
     &kHashNodesOfLibcxx, "__table_"},
    {As::counted, "", "__table_.__first_node_.__next_", "__table_.__size_", &kHashNodesOfLibcxx,
     "__table_"},
    {As::inside, "__value_type<", "__cc", ""},  // of trees
    {As::inside, "__value_type<", "__cc_", ""},
    {As::inside, "__hash_value_type<", "__cc", ""},
    {As::inside, "__hash_value_type<", "__cc_", ""},
    {As::counted, "list<", "__end_.__next_", "__size_alloc_.__value_", &kListNodesOfLibcxx},
    {As::counted, "list<", "__end_.__next_", "__size_", &kListNodesOfLibcxx},
    {As::optional, "optional<", "__val_", "__engaged_"},
    {As::pointer, "unique_ptr<", "__ptr_.__value_", ""},
    {As::pointer, "unique_ptr<", "__ptr_", ""},
    {As::pointer, "shared_ptr<", "__ptr_", ""},
    {As::inside, "array<", "__elems_", ""},
    {As::alternative, "variant<", "__impl_.__data", "__impl_.__index"},
    {As::alternative, "variant<", "__impl_.__data_", "__impl_.__index_"},
    {As::alternative, "variant<", "__impl.__data", "__impl.__index"},
    // Rust
    {As::length, "Vec<", "buf.inner.ptr.pointer.pointer", "len"},
    {As::length, "Vec<", "buf.ptr.pointer.pointer", "len"},
    {As::length, "&[", "data_ptr", "length"},
    {As::length, "&mut [", "data_ptr", "length"},
    {As::counted, "HashMap<", "", "base.table.table.items"},
    {As::counted, "HashSet<", "", "base.map.table.table.items"},
};

// Newer ones have a pointer to bytes, and their elements are of the type that they are given.
constexpr std::string_view kVecOfBytes = "buf.inner";

// Returns the number in a tuple that the name of a base class says.
std::optional<uint64_t> number_of_part(std::string_view name) {
  for (const std::string_view start : {"_Head_base<", "__tuple_leaf<"}) {
    uint64_t number = 0;
    if (!name.starts_with(start)) continue;
    name.remove_prefix(start.size());
    if (std::from_chars(name.data(), name.data() + name.size(), number).ec == std::errc())
      return number;
  }
  return std::nullopt;
}

// Adds the parts of a tuple, whose bases have one each. `budget` is how many bases may be looked
// at, as a few structures in each other may stand for any number.
void add_parts(DebugInfo& info, const Type& structure, uint64_t offset, int& budget,
               std::vector<std::pair<uint64_t, Member>>& parts) {
  for (const Member& base : info.members_of(structure)) {
    if (!base.name.empty() || base.type.kind != Type::Kind::structure) continue;
    if (--budget < 0) return;
    const auto number = number_of_part(info.own_name(base.type));
    if (!number) {
      add_parts(info, base.type, offset + base.offset, budget, parts);
      continue;
    }
    auto part = info.find_member(base.type, "_M_head_impl");
    if (!part) part = info.find_member(base.type, "__value_");
    if (!part) continue;
    part->offset += offset + base.offset;
    parts.emplace_back(*number, *std::move(part));
  }
}

std::optional<ContainerLayout> tuple_layout(DebugInfo& info, const Type& tuple) {
  std::vector<std::pair<uint64_t, Member>> parts;
  int budget = 100;
  add_parts(info, tuple, 0, budget, parts);
  if (const auto base = info.find_member(tuple, "__base_"); base && parts.empty())
    add_parts(info, base->type, base->offset, budget, parts);
  if (parts.empty()) return std::nullopt;
  std::ranges::sort(parts, {}, [](const auto& one) { return one.first; });
  ContainerLayout layout = {.kind = As::tuple};
  for (auto& [number, part] : parts) {
    part.name.clear();
    layout.parts.push_back(std::move(part));
  }
  return layout;
}

// The pointer of libstdc++'s is the first part of a tuple.
std::optional<ContainerLayout> unique_pointer_layout(DebugInfo& info, const Type& structure) {
  const auto tuple = find_path(info, structure, "_M_t._M_t");
  const auto parts = tuple ? tuple_layout(info, tuple->type) : std::nullopt;
  if (!parts || parts->parts.front().type.kind != Type::Kind::pointer) return std::nullopt;
  ContainerLayout layout = {.kind = As::pointer, .first = parts->parts.front()};
  layout.first.offset += tuple->offset;
  return layout;
}

bool is_pointer(const Member& member) {
  return member.type.kind == Type::Kind::pointer && member.bits == 0;
}

// Adds where the nodes of a container are, if that is known.
void add_nodes(DebugInfo& info, const Type& structure, const KnownMembers& known,
               ContainerLayout& layout) {
  // An element that asks for more has another place in its node.
  constexpr uint64_t kMostAlignment = 8;
  if (known.nodes == nullptr || !is_pointer(layout.first)) return;
  std::optional<Member> given;
  if (!known.given.empty()) given = info.find_member(structure, known.given);
  const auto types = info.type_arguments(given ? given->type : structure);
  if (known.number >= types.size()) return;
  const Type& element = types[known.number];
  const auto alignment = alignment_of(info, element);
  if (element.bytes == 0 || !alignment || *alignment > kMostAlignment) return;
  layout.element = element;
  layout.nodes = *known.nodes;
  layout.nodes->element = align_up(known.nodes->element, *alignment);
}

// The types that a variant may have lie at one place.
bool add_alternatives(DebugInfo& info, const Type& structure, ContainerLayout& layout) {
  for (Type& one : info.type_arguments(structure))
    layout.parts.push_back({.name = {}, .type = std::move(one), .offset = layout.first.offset});
  return !layout.parts.empty();
}

std::optional<ContainerLayout> as(DebugInfo& info, const Type& structure,
                                  const KnownMembers& known) {
  ContainerLayout layout = {.kind = known.kind};
  for (const auto& [path, member] :
       {std::pair(known.first, &layout.first), std::pair(known.second, &layout.second)}) {
    if (path.empty()) continue;
    auto found = find_path(info, structure, path);
    if (!found) return std::nullopt;
    *member = *std::move(found);
  }
  const bool has_number = is_number(layout.second.type) && layout.second.bits == 0;
  const auto if_known = [&](bool is_known) {
    return is_known ? std::optional(std::move(layout)) : std::nullopt;
  };
  switch (known.kind) {
    case As::range:
    case As::length: {
      if (!is_pointer(layout.first) || !has_number) return std::nullopt;
      auto element = info.target_of(layout.first.type);
      if (known.first.starts_with(kVecOfBytes)) {
        const auto given = info.type_arguments(structure);
        element = given.empty() ? std::nullopt : std::optional(given.front());
      }
      if (element) layout.element = *std::move(element);
      return if_known(layout.element.bytes != 0);
    }
    case As::pointer:
      return if_known(is_pointer(layout.first));
    case As::counted:
      add_nodes(info, structure, known, layout);
      return if_known(has_number);
    case As::alternative:
      return if_known(has_number && add_alternatives(info, structure, layout));
    case As::optional:
      return if_known(has_number);
    default:
      return layout;
  }
}

}  // namespace

std::optional<ContainerLayout> container_layout(DebugInfo& info, const Type& structure) {
  if (structure.is_of_c) return std::nullopt;
  const std::string own_name = info.own_name(structure);
  const std::string_view name = own_name;
  if (name.starts_with("tuple<")) return tuple_layout(info, structure);
  if (name.starts_with("unique_ptr<"))
    if (auto layout = unique_pointer_layout(info, structure)) return layout;
  for (const KnownMembers& one : kContainers) {
    if (!name.starts_with(one.name)) continue;
    if (auto layout = as(info, structure, one)) return layout;
  }
  return std::nullopt;
}

}  // namespace pinprick::debug
