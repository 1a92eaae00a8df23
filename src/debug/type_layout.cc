#include "debug/type_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace pinprick::debug {
namespace {

constexpr uint32_t kDeepestUnnamed = 32;
// A few structures in each other may stand for any number of members.
constexpr size_t kMostParts = 100'000;

using PartKind = LayoutPart::Kind;

// Returns how many bits the offset and the size come to; addition that would wrap stops at the end.
uint64_t bits_to(uint64_t bytes, uint64_t bits) {
  const uint64_t from_bytes = bytes > UINT64_MAX / kBitsInByte ? UINT64_MAX : bytes * kBitsInByte;
  return from_bytes > UINT64_MAX - bits ? UINT64_MAX : from_bytes + bits;
}

std::string spelled_with_dimensions(DebugInfo& info, const Type& type) {
  if (type.kind != Type::Kind::array || !type.name.ends_with("[]")) return type.name;
  std::string dimensions;
  Type row = type;
  for (int depth = 0; depth < UINT8_MAX && row.kind == Type::Kind::array; ++depth) {
    const auto element = info.target_of(row);
    // The element may be an array itself, by a typedef, and then has a name for that.
    const bool is_last = !element || element->entry != row.entry;
    dimensions += element && element->bytes != 0 ? fmt::format("[{}]", row.bytes / element->bytes)
                                                 : std::string("[]");
    if (is_last) break;
    row = *element;
  }
  return type.name.substr(0, type.name.size() - 2) + dimensions;
}

class Layout {
 public:
  explicit Layout(DebugInfo& info) : info_(info) {}

  // Adds the members of a structure that lies at `offset`, and the holes between them.
  void add(const Type& structure, uint64_t offset, uint32_t depth);
  std::vector<LayoutPart> parts() && { return std::move(parts_); }

 private:
  void add(const Variants& variants, uint64_t offset, uint32_t depth);
  void add_gap(PartKind kind, uint64_t from, uint64_t to, uint32_t depth) {
    parts_.push_back({.kind = kind,
                      .depth = depth,
                      .offset = from / kBitsInByte,
                      .bit_offset = static_cast<uint32_t>(from % kBitsInByte),
                      .bits = to - from});
  }

  DebugInfo& info_;
  std::vector<LayoutPart> parts_;
};

void Layout::add(const Type& structure, uint64_t offset, uint32_t depth) {
  std::vector<Member> members = info_.members_of(structure);
  std::stable_sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return bits_to(a.offset, a.bit_offset) < bits_to(b.offset, b.bit_offset);
  });
  uint64_t end = bits_to(offset, 0);
  for (const Member& one : members) {
    if (parts_.size() >= kMostParts) return;
    // A base class without members takes no place of its own.
    const bool is_empty = one.is_base && info_.members_of(one.type).empty();
    const uint64_t bits = one.bits != 0 ? one.bits : is_empty ? 0 : bits_to(one.type.bytes, 0);
    const uint64_t begin = bits_to(offset, bits_to(one.offset, one.bit_offset));
    if (begin > end) add_gap(PartKind::hole, end, begin, depth);
    end = std::max(end, begin > UINT64_MAX - bits ? UINT64_MAX : begin + bits);
    parts_.push_back({.kind = one.is_base ? PartKind::base : PartKind::member,
                      .depth = depth,
                      .offset = begin / kBitsInByte,
                      .bit_offset = static_cast<uint32_t>(begin % kBitsInByte),
                      .bits = bits,
                      .is_bit_field = one.bits != 0,
                      .type = spelled_with_dimensions(info_, one.type),
                      .name = one.name});
    if (one.name.empty() && !one.is_base && depth < kDeepestUnnamed)
      add(one.type, begin / kBitsInByte, depth + 1);
  }
  if (const auto variants = info_.variants_of(structure)) return add(*variants, offset, depth);
  const std::vector<Type> virtual_bases = info_.virtual_bases_of(structure);
  for (const Type& base : virtual_bases)
    parts_.push_back({.kind = PartKind::virtual_base, .depth = depth, .type = base.name});
  // These, or what they have, are at the end of a complete object.
  const uint64_t whole = bits_to(offset, bits_to(structure.bytes, 0));
  if (virtual_bases.empty() && whole > end) add_gap(PartKind::padding, end, whole, depth);
}

// The variants lie at one place, and what tells them apart may be a part of one.
void Layout::add(const Variants& variants, uint64_t offset, uint32_t depth) {
  const auto part = [&](const Member& member, uint32_t at_depth, std::string type,
                        std::string name) {
    parts_.push_back({.depth = at_depth,
                      .offset = offset + member.offset,
                      .bits = bits_to(member.type.bytes, 0),
                      .type = std::move(type),
                      .name = std::move(name)});
  };
  if (variants.which) part(*variants.which, depth, variants.which->type.name, "(the variant)");
  for (const Variants::Variant& one : variants.all) {
    if (parts_.size() >= kMostParts || depth >= kDeepestUnnamed) return;
    part(one.member, depth, one.number ? fmt::format("variant {}", *one.number) : "variant",
         one.member.name);
    add(one.member.type, offset + one.member.offset, depth + 1);
  }
}

}  // namespace

TypeLayout layout_of(DebugInfo& info, const Type& structure) {
  TypeLayout all = {structure.name, structure.bytes};
  if (structure.kind != Type::Kind::structure) return all;
  Layout layout(info);
  layout.add(structure, 0, 0);
  all.parts = std::move(layout).parts();
  return all;
}

}  // namespace pinprick::debug
