#include "session/whole_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "debug/container_layout.h"
#include "debug/text_layout.h"
#include "session/expression_builder.h"

namespace pinprick::session {
namespace {

using action::ValueLayout;
using debug::Member;
using debug::Type;
using select::Expression;
using select::Operator;
using As = ValueLayout::Kind;

constexpr uint64_t kWordBytes = 8, kByte = 8;
// Members may share parts, so the parts do not bound their number.
constexpr size_t kMostLayouts = 512;
// As a stub's code is to stay small.
constexpr size_t kMostNodesOfPart = 8 * select::kMostNodes, kMostNodesOfAll = 2048;

const Type kPointer = {.kind = Type::Kind::pointer, .bytes = kWordBytes, .name = "pointer"};
const Type kByteType = {.kind = Type::Kind::integer, .bytes = 1, .name = "byte"};

// A piece of memory whose address the hit computes, or the registers that hold the value.
struct Block {
  Expression address = {};  // empty: in registers
  Expression guard = {};    // where it is 0, nothing is read; empty: all is
  uint64_t bytes = 0;
};

// A part of a block, of a type.
struct Object {
  size_t block = 0;
  uint64_t offset = 0;
  Type type = {};
  uint32_t bit_offset = 0, bits = 0;  // as of a member
  Expression guard = {};              // where it is 0, nothing that the object leads to is read
};

class WholeValueBuilder {
 public:
  WholeValueBuilder(const TypedPlace& place, const Expression& from,
                    const action::ValueLimits& limits, size_t most, bool is_raw)
      : place_(place), from_(from), limits_(limits), most_(most), is_raw_(is_raw) {}

  std::optional<WholeValue> build();

 private:
  debug::DebugInfo& info() const { return *place_.info; }
  std::optional<uint8_t> add_part(Expression expression);
  std::optional<Expression> address_of(const Object& what) const;
  std::optional<Expression> loaded(const Object& what, uint64_t bytes) const;
  std::optional<Expression> in_registers(const Object& what, uint64_t bytes) const;
  std::optional<uint8_t> part_of(const Object& what, uint64_t bytes);
  // Where it is 0, what the object leads to means nothing.
  Expression guard_of(const Object& what) const {
    return both_of(blocks_[what.block].guard, what.guard);
  }

  ValueLayout layout_of(const Object& what, uint32_t depth);
  ValueLayout number(const Object& what, As kind);
  ValueLayout pointer(const Object& what);
  ValueLayout text(const Object& what);
  ValueLayout text(const Object& what, const debug::TextLayout& known);
  ValueLayout text_in(const Object& what, std::optional<Expression> text);
  ValueLayout structure(const Object& what, uint32_t depth);
  void add_members(const Object& what, uint32_t depth, int level, ValueLayout& layout);
  ValueLayout array(const Object& what, uint32_t depth);
  ValueLayout container(const Object& what, const debug::ContainerLayout& known, uint32_t depth);
  ValueLayout list(const Object& what, const debug::ContainerLayout& known, uint32_t depth);
  std::vector<Expression> addresses_of(const Expression& first,
                                       const debug::ContainerLayout& known) const;
  Expression guard_of_variant(const Object& which, uint64_t number) const;
  ValueLayout alternatives(const Object& what, const debug::ContainerLayout& known, uint32_t depth);
  ValueLayout variants(const Object& what, const debug::Variants& known, uint32_t depth);
  static void drop_numbers(ValueLayout& layout);
  ValueLayout optional_value(const Object& what, const debug::ContainerLayout& known,
                             uint32_t depth);
  ValueLayout tuple(const Object& what, const debug::ContainerLayout& known, uint32_t depth);
  // The text or container that a structure is, if it is one that is known.
  struct Known {
    std::optional<debug::TextLayout> text;
    std::optional<debug::ContainerLayout> container;
  };
  const Known& known_of(const Type& structure);
  static Object member_of(const Object& what, const Member& member) {
    return {what.block, what.offset + member.offset, member.type, member.bit_offset, member.bits,
            what.guard};
  }

  const TypedPlace& place_;
  const Expression& from_;
  const action::ValueLimits limits_;
  const size_t most_;
  const bool is_raw_;
  std::vector<Block> blocks_;
  std::map<std::tuple<size_t, uint64_t, uint64_t>, uint8_t> of_blocks_;  // block, offset, bytes
  std::map<uint64_t, Known> known_;                                      // by the type's entry
  std::vector<Expression> parts_;
  size_t layouts_ = 0, nodes_ = 0;
  bool is_full_ = false;
};

std::optional<uint8_t> WholeValueBuilder::add_part(Expression expression) {
  if (expression.nodes.size() > kMostNodesOfPart) return std::nullopt;
  if (parts_.size() >= most_ || nodes_ + expression.nodes.size() > kMostNodesOfAll) is_full_ = true;
  if (is_full_) return std::nullopt;
  nodes_ += expression.nodes.size();
  parts_.push_back(std::move(expression));
  return static_cast<uint8_t>(parts_.size() - 1);
}

std::optional<Expression> WholeValueBuilder::address_of(const Object& what) const {
  const Block& block = blocks_[what.block];
  if (block.address.empty()) return std::nullopt;
  return ExpressionBuilder(block.address).add_number(what.offset).take();
}

// Returns bytes that are in a register.
std::optional<Expression> WholeValueBuilder::in_registers(const Object& what,
                                                          uint64_t bytes) const {
  TypedExpression again(place_, from_);
  const auto whole = again.resolve(from_.nodes.back());
  if (!whole) return std::nullopt;
  const Type word = {.kind = Type::Kind::integer, .bytes = bytes, .name = "word"};
  const auto node = again.number_in(*whole, {.name = {}, .type = word, .offset = what.offset});
  if (!node) return std::nullopt;
  Expression only;
  select::append_copy(again.result(), again.result().nodes[*node], only);
  return only;
}

// Returns what is there, without a guard.
std::optional<Expression> WholeValueBuilder::loaded(const Object& what, uint64_t bytes) const {
  auto address = address_of(what);
  if (!address) return in_registers(what, bytes);
  return ExpressionBuilder(*std::move(address)).load(bytes, what.type.is_signed).take();
}

// Fewer bytes are never the number that stands for what cannot be read.
static bool is_mixed(const Expression& value, uint64_t bytes) {
  return bytes == kWordBytes && select::follows_pointer(value);
}

std::optional<uint8_t> WholeValueBuilder::part_of(const Object& what, uint64_t bytes) {
  const auto known = of_blocks_.find({what.block, what.offset, bytes});
  if (known != of_blocks_.end()) return known->second;
  auto value = loaded(what, bytes);
  if (!value) return std::nullopt;
  if (is_mixed(*value, bytes))
    value = ExpressionBuilder(*std::move(value))
                .join(Operator::bit_xor, number_expression(action::kMix))
                .take();
  const auto part = add_part(guarded_by(blocks_[what.block].guard, *value));
  if (part) of_blocks_[{what.block, what.offset, bytes}] = *part;
  return part;
}

// Where a word of 8 bytes has several numbers, it is read once.
ValueLayout WholeValueBuilder::number(const Object& what, As kind) {
  const Block& block = blocks_[what.block];
  ValueLayout layout;
  uint64_t bytes = what.type.bytes;
  if (what.bits != 0)
    for (bytes = 1; kByte * bytes < what.bits + what.bit_offset;) bytes *= 2;
  const bool is_known = bytes == 1 || bytes == 2 || bytes == 4 || bytes == kWordBytes;
  if (!is_known) return layout;
  uint64_t begin = what.offset, read = bytes;
  const uint64_t word = what.offset / kWordBytes * kWordBytes;
  if (!block.address.empty() && block.bytes >= kWordBytes) {
    const uint64_t last = block.bytes - kWordBytes;
    for (const uint64_t one : {std::min(word, last), last})
      if (one <= what.offset && what.offset - one + bytes <= kWordBytes) {
        begin = one;
        read = kWordBytes;
        break;
      }
  }
  Object whole = what;
  whole.offset = begin;
  const auto part = part_of(whole, read);
  if (!part) return layout;
  layout.kind = kind;
  layout.part = *part;
  layout.bits = static_cast<uint8_t>(what.bits != 0 ? what.bits : kByte * bytes);
  layout.shift = static_cast<uint8_t>(kByte * (what.offset - begin) + what.bit_offset);
  layout.may_be_unread = select::follows_pointer(parts_[*part]);
  layout.is_mixed = is_mixed(parts_[*part], read);
  for (debug::DebugInfo::Enumerator& one : info().enumerators_of(what.type))
    layout.names.push_back({one.value, std::move(one.name)});
  return layout;
}

ValueLayout WholeValueBuilder::text(const Object& what) {
  uint64_t array_bytes = 0;
  std::optional<Expression> expression;
  if (what.type.kind == Type::Kind::array) {
    array_bytes = what.type.bytes;
    const auto most = static_cast<uint8_t>(std::min<uint64_t>(limits_.text, array_bytes));
    if (auto address = address_of(what); address && most != 0)
      expression = ExpressionBuilder(*std::move(address)).text(most).take();
  } else if (auto address = loaded(what, kWordBytes)) {
    expression = ExpressionBuilder(*std::move(address)).text(limits_.text).take();
  }
  ValueLayout layout = text_in(what, std::move(expression));
  layout.count = array_bytes;
  return layout;
}

// It is a structure that holds a text.
ValueLayout WholeValueBuilder::text(const Object& what, const debug::TextLayout& known) {
  const auto part = [&](uint64_t offset, const Type& type) {
    return loaded({what.block, what.offset + offset, type}, type.bytes);
  };
  auto address = part(known.address, kPointer), length = part(known.length, known.length_type);
  if (known.of_short) {
    const auto byte = part(known.of_short->byte, kByteType);
    const auto begin = address_of(what);
    if (!byte || !begin || !address || !length) return {};
    const Expression is_long =
        ExpressionBuilder(*byte).join(Operator::bit_and, number_expression(1)).take();
    const Expression is_short = ExpressionBuilder(is_long).is_zero().take();
    const auto of_both = [&](const Expression& of_long, const Expression& of_short) {
      return ExpressionBuilder(guarded_by(is_long, of_long))
          .join(Operator::add, guarded_by(is_short, of_short))
          .take();
    };
    address = of_both(*address, ExpressionBuilder(*begin).add_number(known.of_short->begin).take());
    length = of_both(
        *length, ExpressionBuilder(*byte).join(Operator::shift_right, number_expression(1)).take());
  }
  if (!address || !length) return {};
  return text_in(
      what,
      ExpressionBuilder(*address).join(Operator::text_of_length, *length, limits_.text).take());
}

ValueLayout WholeValueBuilder::text_in(const Object& what, std::optional<Expression> text) {
  if (!text) return {};
  const auto part = add_part(guarded_by(guard_of(what), *text));
  return part ? ValueLayout{.kind = As::text, .part = *part} : ValueLayout();
}

static bool is_byte_of_text(const std::optional<Type>& type) {
  return type && type->kind == Type::Kind::character && type->bytes == 1;
}

ValueLayout WholeValueBuilder::pointer(const Object& what) {
  const auto target = info().target_of(what.type);
  if (!is_raw_ && !what.type.is_reference && is_byte_of_text(target)) return text(what);
  const bool is_code = target && target->kind == Type::Kind::function;
  return number(what, is_code ? As::symbol : As::hexadecimal);
}

ValueLayout WholeValueBuilder::layout_of(const Object& what, uint32_t depth) {
  if (++layouts_ > kMostLayouts) is_full_ = true;
  if (is_full_) return {};
  switch (what.type.kind) {
    case Type::Kind::integer:
    case Type::Kind::boolean:
    case Type::Kind::character:
    case Type::Kind::enumeration:
      return number(what, what.type.is_signed ? As::signed_number : As::number);
    case Type::Kind::pointer:
      return pointer(what);
    case Type::Kind::floating_point:
      return what.type.bytes == kWordBytes || what.type.bytes == kWordBytes / 2
                 ? number(what, As::floating)
                 : ValueLayout();
    case Type::Kind::structure:
      return structure(what, depth);
    case Type::Kind::array:
      return array(what, depth);
    default:
      return {};
  }
}

const WholeValueBuilder::Known& WholeValueBuilder::known_of(const Type& structure) {
  const auto [known, is_new] = known_.try_emplace(structure.entry);
  if (is_new) known->second.text = debug::text_layout(info(), structure);
  if (is_new && !known->second.text)
    known->second.container = debug::container_layout(info(), structure);
  return known->second;
}

ValueLayout WholeValueBuilder::structure(const Object& what, uint32_t depth) {
  if (!is_raw_) {
    const Known& known = known_of(what.type);
    if (known.text) return text(what, *known.text);
    if (known.container) return container(what, *known.container, depth);
  }
  if (const auto known = info().variants_of(what.type)) return variants(what, *known, depth);
  ValueLayout layout = {.kind = As::members};
  if (depth >= limits_.nesting)
    layout.is_cut = true;
  else
    add_members(what, depth, 0, layout);
  drop_numbers(layout);
  // It is of a kind that has its members elsewhere.
  if (layout.inner.empty() && !layout.is_cut && what.type.bytes > 1) layout.kind = As::left_out;
  return layout;
}

// Members of base classes, and of unnamed structures, count as its own.
void WholeValueBuilder::add_members(const Object& what, uint32_t depth, int level,
                                    ValueLayout& layout) {
  constexpr int kDeepest = 16;
  if (level > kDeepest || ++layouts_ > kMostLayouts) {
    is_full_ = true;
    return;
  }
  for (const Member& one : info().members_of(what.type)) {
    const Object inner = member_of(what, one);
    if (one.name.empty() && one.type.kind == Type::Kind::structure) {
      add_members(inner, depth, level + 1, layout);
    } else {
      ValueLayout member = layout_of(inner, depth + 1);
      if (!is_full_ || !member.inner.empty()) {
        member.name = one.name;
        layout.inner.push_back(std::move(member));
      }
    }
    if (is_full_) {
      layout.is_cut = true;
      return;
    }
  }
}

ValueLayout WholeValueBuilder::array(const Object& what, uint32_t depth) {
  const auto element = info().target_of(what.type);
  if (!element) return {};
  if (element->bytes == 0) return {.kind = As::array};
  if (!is_raw_ && is_byte_of_text(element)) return text(what);
  ValueLayout layout = {.kind = As::array, .count = what.type.bytes / element->bytes};
  if (depth >= limits_.nesting) return layout;
  for (uint64_t i = 0; i < std::min<uint64_t>(layout.count, limits_.elements); ++i) {
    ValueLayout one =
        layout_of({what.block, what.offset + i * element->bytes, *element}, depth + 1);
    if (is_full_) break;
    layout.inner.push_back(std::move(one));
  }
  return layout;
}

ValueLayout WholeValueBuilder::container(const Object& what, const debug::ContainerLayout& known,
                                         uint32_t depth) {
  using Of = debug::ContainerLayout::Kind;
  switch (known.kind) {
    case Of::range:
    case Of::length:
    case Of::counted:
      return list(what, known, depth);
    case Of::optional:
      return optional_value(what, known, depth);
    case Of::tuple:
      return tuple(what, known, depth);
    case Of::pointer:
      return number(member_of(what, known.first), As::hexadecimal);
    case Of::inside:
      return layout_of(member_of(what, known.first), depth);
    case Of::alternative:
      return alternatives(what, known, depth);
  }
  return {};
}

// Returns where the elements of a container are: the first ones, as far as that is known, and at
// most as many as are to be shown.
std::vector<Expression> WholeValueBuilder::addresses_of(const Expression& first,
                                                        const debug::ContainerLayout& known) const {
  std::vector<Expression> all;
  const auto& nodes = known.nodes;
  const auto follow = [](const Expression& node, uint64_t offset) {
    return ExpressionBuilder(node).add_number(offset).load(kWordBytes, false).take();
  };
  // To find the third node of a tree takes more steps than an expression can have. The first one
  // has none to the left. So if it has one to the right, that has no others, and is the second one.
  const uint64_t most = nodes && nodes->up ? std::min(2U, limits_.elements) : limits_.elements;
  Expression node = first;
  for (uint64_t i = 0; i < most; ++i) {
    if (!nodes) {
      all.push_back(ExpressionBuilder(first).add_number(i * known.element.bytes).take());
      continue;
    }
    if (i != 0) {
      const Expression next = follow(node, nodes->next);
      node = next;
      if (nodes->up)
        node = ExpressionBuilder(next)
                   .join(Operator::add, guarded_by(ExpressionBuilder(next).is_zero().take(),
                                                   follow(first, *nodes->up)))
                   .take();
    }
    all.push_back(ExpressionBuilder(node).add_number(nodes->element).take());
  }
  return all;
}

ValueLayout WholeValueBuilder::list(const Object& what, const debug::ContainerLayout& known,
                                    uint32_t depth) {
  using Of = debug::ContainerLayout::Kind;
  const Object first = member_of(what, known.first), second = member_of(what, known.second);
  const bool is_range = known.kind == Of::range;
  ValueLayout layout = number(second, As::number);
  if (layout.kind == As::left_out) return layout;
  layout.kind = is_range ? As::of_range : known.kind == Of::length ? As::of_length : As::counted;
  if (known.kind == Of::counted && !known.nodes) return layout;
  if (is_range) {
    const ValueLayout begin = number(first, As::number);
    if (begin.kind == As::left_out) return begin;
    // They were read alike, unless one of them is in a register.
    if (begin.is_mixed != layout.is_mixed || begin.may_be_unread != layout.may_be_unread) return {};
    layout.end = std::exchange(layout.part, begin.part);
    layout.count = known.element.bytes;
  }
  const auto address = loaded(first, kWordBytes), end = loaded(second, second.type.bytes);
  if (!address || !end || depth >= limits_.nesting) return layout;
  const std::vector<Expression> elements = addresses_of(*address, known);
  for (uint64_t i = 0; i < elements.size(); ++i) {
    // Is there such an element?
    const Expression is_there = ExpressionBuilder(is_range ? elements[i] : number_expression(i))
                                    .join(Operator::less, *end)
                                    .take();
    blocks_.push_back({.address = elements[i],
                       .guard = both_of(guard_of(what), is_there),
                       .bytes = known.element.bytes});
    ValueLayout one = layout_of({blocks_.size() - 1, 0, known.element}, depth + 1);
    if (is_full_) break;
    layout.inner.push_back(std::move(one));
  }
  return layout;
}

// Is the number, of which there is one at a time, this one?
Expression WholeValueBuilder::guard_of_variant(const Object& which, uint64_t number) const {
  const auto value = loaded(which, which.type.bytes);
  if (!value) return {};
  return ExpressionBuilder(*value).join(Operator::equal, number_expression(number)).take();
}

ValueLayout WholeValueBuilder::alternatives(const Object& what, const debug::ContainerLayout& known,
                                            uint32_t depth) {
  const Object which = member_of(what, known.second);
  ValueLayout index = number(which, As::number);
  if (index.kind == As::left_out) return index;
  ValueLayout value = index;
  value.kind = As::variant;
  value.name = "value";
  index.name = "index";
  for (uint64_t i = 0; i < known.parts.size() && depth < limits_.nesting; ++i) {
    Object one = member_of(what, known.parts[i]);
    one.guard = both_of(what.guard, guard_of_variant(which, i));
    ValueLayout inner = layout_of(one, depth + 1);
    if (is_full_) break;
    value.names.push_back({.number = i});
    value.inner.push_back(std::move(inner));
  }
  return {.kind = As::members, .inner = {std::move(index), std::move(value)}};
}

ValueLayout WholeValueBuilder::variants(const Object& what, const debug::Variants& known,
                                        uint32_t depth) {
  ValueLayout layout;
  Object which;
  if (known.which) {
    which = member_of(what, *known.which);
    layout = number(which, As::number);
    if (layout.kind == As::left_out) return layout;
  }
  layout.kind = As::variant;
  Expression is_other;
  for (const debug::Variants::Variant& one : known.all) {
    Object inner = member_of(what, one.member);
    inner.guard = both_of(what.guard, is_other);
    if (one.number) {
      constexpr unsigned kBits = 64;
      const Expression is_it = guard_of_variant(which, *one.number);
      inner.guard = both_of(what.guard, is_it);
      // An expression has no room for many. Where they are not excluded, their bytes are read as
      // those of the last variant, which is not shown.
      constexpr size_t kMostNumbers = 3;
      if (known.all.size() <= kMostNumbers && !is_it.empty())
        is_other = both_of(is_other, ExpressionBuilder(is_it).is_zero().take());
      layout.names.push_back(
          {.number = *one.number << (kBits - layout.bits) >> (kBits - layout.bits)});
    }
    ValueLayout members = {.kind = As::members, .name = one.member.name};
    members.is_cut = is_full_ || depth >= limits_.nesting;
    if (!members.is_cut) add_members(inner, depth, 0, members);
    drop_numbers(members);
    layout.inner.push_back(std::move(members));
  }
  return layout;
}

// Members that have numbers instead of names, as Rust's tuples have, are shown without them.
void WholeValueBuilder::drop_numbers(ValueLayout& layout) {
  for (size_t i = 0; i < layout.inner.size(); ++i)
    if (layout.inner[i].name != fmt::format("__{}", i)) return;
  for (ValueLayout& one : layout.inner) one.name.clear();
}

// A value that is missing leaves bytes that mean nothing, so no pointer in them is followed.
ValueLayout WholeValueBuilder::optional_value(const Object& what,
                                              const debug::ContainerLayout& known, uint32_t depth) {
  const Object is_there = member_of(what, known.second);
  ValueLayout layout = number(is_there, As::number);
  if (layout.kind == As::left_out) return layout;
  layout.kind = As::alternative;
  Object value = member_of(what, known.first);
  if (auto address = address_of(value)) {
    Block inner = {.address = *std::move(address), .bytes = value.type.bytes};
    const auto guard = loaded(is_there, is_there.type.bytes);
    inner.guard = both_of(guard_of(what), guard.value_or(Expression()));
    blocks_.push_back(std::move(inner));
    value.block = blocks_.size() - 1;
    value.offset = 0;
  }
  layout.inner.push_back(layout_of(value, depth));
  return layout;
}

ValueLayout WholeValueBuilder::tuple(const Object& what, const debug::ContainerLayout& known,
                                     uint32_t depth) {
  ValueLayout layout = {.kind = As::members};
  for (const Member& one : known.parts) {
    ValueLayout part = layout_of(member_of(what, one), depth + 1);
    if (is_full_) {
      layout.is_cut = true;
      break;
    }
    layout.inner.push_back(std::move(part));
  }
  return layout;
}

std::optional<WholeValue> WholeValueBuilder::build() {
  TypedExpression resolver(place_, from_);
  const auto whole = resolver.resolve(from_.nodes.back());
  if (!whole || !has_parts(place_, *whole)) return std::nullopt;
  Block block = {.bytes = whole->type->bytes};
  if (whole->is == Typed::Is::place)
    select::append_copy(resolver.result(), resolver.result().nodes[whole->node], block.address);
  blocks_.push_back(std::move(block));
  WholeValue value;
  value.layout = layout_of({0, 0, *whole->type, whole->bit_offset, whole->bits}, 0);
  // All that it has may be nested too deeply, or be of types that cannot be shown.
  if (parts_.empty() && (value.layout.kind == As::members || value.layout.kind == As::array))
    parts_.push_back({{{.what = Operator::number}}});
  if (parts_.empty()) return std::nullopt;
  value.parts = std::move(parts_);
  return value;
}

}  // namespace

bool has_parts(const TypedPlace& place, const Typed& what) {
  if (!what.type || (what.is != Typed::Is::place && what.is != Typed::Is::pieces)) return false;
  switch (what.type->kind) {
    case Type::Kind::structure:
      return true;
    case Type::Kind::floating_point:
      return true;
    case Type::Kind::array:
      return what.is == Typed::Is::place && place.info->target_of(*what.type).has_value();
    default:
      return false;
  }
}

std::optional<WholeValue> whole_value(const TypedPlace& place, const Expression& expression,
                                      const action::ValueLimits& limits, size_t most, bool is_raw) {
  return WholeValueBuilder(place, expression, limits, most, is_raw).build();
}

}  // namespace pinprick::session
