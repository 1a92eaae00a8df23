#include "debug/container_layout.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "debug/member_path.h"

namespace pinprick::debug {
namespace {

using As = ContainerLayout::Kind;

// The members of a container. The name of its type begins with `name`. The first one that fits
// counts.
struct KnownMembers {
  As kind;
  std::string_view name, first, second;
};
constexpr KnownMembers kContainers[] = {
    // libstdc++
    {As::range, "", "_M_impl._M_start", "_M_impl._M_finish"},  // vector
    {As::length, "", "_M_ptr", "_M_extent._M_extent_value"},   // span
    {As::length, "", "_M_array", "_M_len"},                    // initializer_list
    {As::counted, "", "", "_M_t._M_impl._M_node_count"},       // map, set
    {As::counted, "", "", "_M_h._M_element_count"},            // unordered_map, unordered_set
    {As::counted, "list<", "", "_M_impl._M_node._M_size"},
    {As::optional, "", "_M_payload._M_payload._M_value", "_M_payload._M_engaged"},
    {As::pointer, "shared_ptr<", "_M_ptr", ""},
    {As::inside, "array<", "_M_elems", ""},
    {As::alternative, "variant<", "", "_M_index"},
    // libc++
    {As::range, "vector<", "__begin_", "__end_"},
    {As::length, "span<", "__data_", "__size_"},
    {As::length, "span<", "__data", "__size"},
    {As::length, "initializer_list<", "__begin_", "__size_"},
    {As::counted, "", "", "__tree_.__pair3_.__value_"},
    {As::counted, "", "", "__tree_.__size_"},
    {As::counted, "", "", "__table_.__p2_.__value_"},
    {As::counted, "", "", "__table_.__size_"},
    {As::counted, "list<", "", "__size_alloc_.__value_"},
    {As::counted, "list<", "", "__size_"},
    {As::optional, "optional<", "__val_", "__engaged_"},
    {As::pointer, "unique_ptr<", "__ptr_.__value_", ""},
    {As::pointer, "unique_ptr<", "__ptr_", ""},
    {As::pointer, "shared_ptr<", "__ptr_", ""},
    {As::inside, "array<", "__elems_", ""},
    {As::alternative, "variant<", "", "__impl_.__index"},
    {As::alternative, "variant<", "", "__impl_.__index_"},
    {As::alternative, "variant<", "", "__impl.__index"},
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
  switch (known.kind) {
    case As::range:
    case As::length: {
      if (!is_pointer(layout.first) || !has_number) return std::nullopt;
      const auto element = known.first.starts_with(kVecOfBytes) ? info.type_argument(structure)
                                                                : info.target_of(layout.first.type);
      if (!element || element->bytes == 0) return std::nullopt;
      layout.element = *element;
      return layout;
    }
    case As::pointer:
      return is_pointer(layout.first) ? std::optional(std::move(layout)) : std::nullopt;
    case As::counted:
    case As::optional:
    case As::alternative:
      return has_number ? std::optional(std::move(layout)) : std::nullopt;
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
