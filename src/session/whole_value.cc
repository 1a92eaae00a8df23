#include "session/whole_value.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "debug/container_layout.h"
#include "debug/text_layout.h"

namespace pinprick::session {
namespace {

using action::ValueLayout;
using debug::Member;
using debug::Type;
using select::Expression;
using select::Node;
using select::Operator;
using As = ValueLayout::Kind;

constexpr uint64_t kWordBytes = 8, kByte = 8;
// Members may share parts, so the parts do not bound their number.
constexpr size_t kMostLayouts = 512;
constexpr size_t kMostNodesOfAll = 2048;  // as a stub's code is to stay small

// Adds nodes to an expression, the last of which is its result.
class Building {
 public:
  explicit Building(Expression expression) : expression_(std::move(expression)) {}

  Building& add_number(uint64_t number) {
    if (number == 0) return *this;
    const uint16_t left = last();
    const uint16_t right = push({.what = Operator::number, .number = number});
    push({.what = Operator::add, .left = left, .right = right});
    return *this;
  }
  Building& load(uint64_t bytes, bool is_signed) {
    push({.what = Operator::load,
          .bytes = static_cast<uint8_t>(bytes),
          .is_signed = is_signed,
          .left = last()});
    return *this;
  }
  Building& text(uint8_t most) {
    push({.what = Operator::text, .bytes = most, .tells_null = true, .left = last()});
    return *this;
  }
  // Joins it, as the left side, with the other one.
  Building& join(Operator what, const Expression& right, uint8_t bytes = 8) {
    const uint16_t left = last();
    const uint16_t other = select::append_copy(right, right.nodes.back(), expression_);
    push({.what = what, .bytes = bytes, .left = left, .right = other});
    expression_.nodes.back().tells_null = what == Operator::text_of_length;
    return *this;
  }
  Expression take() { return std::move(expression_); }

 private:
  uint16_t last() const { return static_cast<uint16_t>(expression_.nodes.size() - 1); }
  uint16_t push(Node node) {
    expression_.nodes.push_back(std::move(node));
    return last();
  }
  Expression expression_;
};

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
  Expression guarded(const Block& block, Expression value) const;

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
    return {what.block, what.offset + member.offset, member.type, member.bit_offset, member.bits};
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
  if (expression.nodes.size() > select::kMostNodes) return std::nullopt;
  if (parts_.size() >= most_ || nodes_ + expression.nodes.size() > kMostNodesOfAll) is_full_ = true;
  if (is_full_) return std::nullopt;
  nodes_ += expression.nodes.size();
  parts_.push_back(std::move(expression));
  return static_cast<uint8_t>(parts_.size() - 1);
}

Expression WholeValueBuilder::guarded(const Block& block, Expression value) const {
  if (block.guard.empty()) return value;
  return Building(block.guard).join(Operator::guarded, value).take();
}

std::optional<Expression> WholeValueBuilder::address_of(const Object& what) const {
  const Block& block = blocks_[what.block];
  if (block.address.empty()) return std::nullopt;
  return Building(block.address).add_number(what.offset).take();
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
  return Building(*std::move(address)).load(bytes, what.type.is_signed).take();
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
    value = Building(*std::move(value))
                .join(Operator::bit_xor, {{{.what = Operator::number, .number = action::kMix}}})
                .take();
  const auto part = add_part(guarded(blocks_[what.block], *std::move(value)));
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
  std::optional<Expression> expression;
  if (what.type.kind == Type::Kind::array) {
    const auto most = static_cast<uint8_t>(std::min<uint64_t>(limits_.text, what.type.bytes));
    if (auto address = address_of(what); address && most != 0)
      expression = Building(*std::move(address)).text(most).take();
  } else if (auto address = loaded(what, kWordBytes)) {
    expression = Building(*std::move(address)).text(limits_.text).take();
  }
  return text_in(what, std::move(expression));
}

// It is a structure that holds a text.
ValueLayout WholeValueBuilder::text(const Object& what, const debug::TextLayout& known) {
  const Type pointer = {.kind = Type::Kind::pointer, .bytes = kWordBytes, .name = "pointer"};
  const auto address = loaded({what.block, what.offset + known.address, pointer}, kWordBytes);
  const auto length =
      loaded({what.block, what.offset + known.length, known.length_type}, known.length_type.bytes);
  if (!address || !length) return {};
  return text_in(what,
                 Building(*address).join(Operator::text_of_length, *length, limits_.text).take());
}

ValueLayout WholeValueBuilder::text_in(const Object& what, std::optional<Expression> text) {
  if (!text) return {};
  const auto part = add_part(guarded(blocks_[what.block], *std::move(text)));
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
  ValueLayout layout = {.kind = As::members};
  if (depth >= limits_.nesting)
    layout.is_cut = true;
  else
    add_members(what, depth, 0, layout);
  // It is of a kind that has its members elsewhere, such as an enum of Rust.
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
      return list(what, known, depth);
    case Of::optional:
      return optional_value(what, known, depth);
    case Of::tuple:
      return tuple(what, known, depth);
    case Of::pointer:
      return number(member_of(what, known.first), As::hexadecimal);
    case Of::inside:
      return layout_of(member_of(what, known.first), depth);
    case Of::counted: {
      ValueLayout layout = number(member_of(what, known.second), As::number);
      if (layout.kind != As::left_out) layout.kind = As::unordered;
      return layout;
    }
    case Of::alternative: {
      ValueLayout layout = {.kind = As::members};
      layout.inner.push_back(number(member_of(what, known.second), As::number));
      layout.inner.back().name = "index";
      return layout;
    }
  }
  return {};
}

ValueLayout WholeValueBuilder::list(const Object& what, const debug::ContainerLayout& known,
                                    uint32_t depth) {
  using Of = debug::ContainerLayout::Kind;
  const Object first = member_of(what, known.first), second = member_of(what, known.second);
  const bool is_range = known.kind == Of::range;
  ValueLayout layout = number(second, As::number);
  if (layout.kind == As::left_out) return layout;
  layout.kind = is_range ? As::of_range : As::of_length;
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
  for (uint64_t i = 0; i < limits_.elements; ++i) {
    const uint64_t offset = i * known.element.bytes;
    Block element = {.address = Building(*address).add_number(offset).take(),
                     .bytes = known.element.bytes};
    // Is there such an element?
    Expression index = {{{.what = Operator::number, .number = i}}};
    element.guard =
        Building(is_range ? element.address : std::move(index)).join(Operator::less, *end).take();
    if (const Expression& outer = blocks_[what.block].guard; !outer.empty())
      element.guard = Building(outer).join(Operator::both, element.guard).take();
    blocks_.push_back(std::move(element));
    ValueLayout one = layout_of({blocks_.size() - 1, 0, known.element}, depth + 1);
    if (is_full_) break;
    layout.inner.push_back(std::move(one));
  }
  return layout;
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
    if (auto guard = loaded(is_there, is_there.type.bytes)) inner.guard = *std::move(guard);
    if (const Expression& outer = blocks_[what.block].guard; !outer.empty())
      inner.guard = Building(outer).join(Operator::both, inner.guard).take();
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
