#include "session/typed_expression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "select/value.h"
#include "session/named_values.h"

namespace pinprick::session {
namespace {

using debug::is_number;
using debug::Location;
using debug::LocationStep;
using debug::Type;
using select::Expression;
using select::Node;
using select::Operator;
using select::Value;
using When = TypedPlace::When;

constexpr uint64_t kWord = 8;
constexpr uint8_t kResultRegister = 0, kStackPointer = 4;

// DWARF's numbers of the general registers, as the processor numbers them.
constexpr std::array<uint8_t, 16> kRegisters = {0, 2, 1,  3,  6,  7,  5,  4,
                                                8, 9, 10, 11, 12, 13, 14, 15};

bool is_character(const std::optional<Type>& type) {
  return type && type->kind == Type::Kind::character && type->bytes == 1;
}

Operator operator_of(LocationStep::Kind kind) {
  using Step = LocationStep::Kind;
  switch (kind) {
    case Step::subtract:
      return Operator::subtract;
    case Step::multiply:
      return Operator::multiply;
    case Step::bit_and:
      return Operator::bit_and;
    case Step::bit_or:
      return Operator::bit_or;
    case Step::bit_xor:
      return Operator::bit_xor;
    case Step::shift_left:
      return Operator::shift_left;
    case Step::shift_right:
      return Operator::shift_right;
    case Step::negate:
      return Operator::negate;
    case Step::complement:
      return Operator::complement;
    case Step::shift_right_signed:
      return Operator::shift_right;
    case Step::divide:
      return Operator::divide;
    case Step::equal:
      return Operator::equal;
    case Step::not_equal:
      return Operator::not_equal;
    case Step::less:
      return Operator::less;
    case Step::less_or_equal:
      return Operator::less_or_equal;
    case Step::greater:
      return Operator::greater;
    case Step::greater_or_equal:
      return Operator::greater_or_equal;
    default:
      return Operator::add;
  }
}

// Is it memory that only a type of the user's makes a number?
bool is_whole(const Typed& what) {
  return what.is == Typed::Is::place && what.type &&
         (what.type->kind == Type::Kind::structure || what.type->kind == Type::Kind::array);
}

std::string some_of(std::vector<std::string> names) {
  constexpr size_t kShown = 12;
  const bool has_more = names.size() > kShown;
  if (has_more) names.resize(kShown);
  return fmt::format("{}{}", fmt::join(names, ", "), has_more ? ", ..." : "");
}

std::string members_in_words(debug::DebugInfo& info, const Type& structure) {
  std::vector<std::string> names;
  for (const debug::Member& one : info.members_of(structure))
    if (!one.name.empty()) names.push_back(one.name);
  return names.empty() ? "no members that have a name" : some_of(std::move(names));
}

}  // namespace

bool needs_types(const Expression& expression) {
  return std::ranges::any_of(expression.nodes,
                             [](const Node& node) { return select::needs_types(node.what); });
}

bool is_static(const debug::Variable& variable) {
  const auto& [kind, cause, steps, pieces] = variable.location;
  return kind == Location::Kind::address && steps.size() == 1 &&
         steps.front().kind == LocationStep::Kind::object_base;
}

std::nullopt_t TypedExpression::is_not_here(const Location& location) {
  return fails(fmt::format("'{}' is {}", name_, debug::text_of(location)),
               plan::Reason::argument_elsewhere);
}

std::nullopt_t TypedExpression::is_in_pieces(const debug::Member& member) {
  return fails(fmt::format("'{}' is in several registers, and its member '{}' in none that is read",
                           name_, member.name),
               plan::Reason::argument_elsewhere);
}

std::optional<uint16_t> TypedExpression::add(Node node) {
  if (to_.nodes.size() == select::kMostNodes)
    return fails("with what its names stand for, the expression is too long");
  to_.nodes.push_back(std::move(node));
  return static_cast<uint16_t>(to_.nodes.size() - 1);
}

// An expression of the return takes registers as they were at the entry.
std::optional<uint16_t> TypedExpression::add_register(uint8_t number, uint8_t bytes,
                                                      bool is_signed) {
  Value value = {.register_number = number,
                 .bytes = bytes,
                 .sign = is_signed ? Value::Sign::signed_ : Value::Sign::none};
  if (place_.when == When::at_return) {
    value.argument = Value::kOfEntry;
    for (uint8_t n = 1; n <= 6; ++n)
      if (select::register_of_argument(n) == number) value.argument = n;
  }
  return add({.what = Operator::value, .at_return = reads_at_return_, .value = value});
}

std::optional<uint16_t> TypedExpression::add_vector(uint64_t number) {
  Value value = {.register_number = static_cast<uint8_t>(number), .sign = Value::Sign::none};
  value.is_vector = true;
  if (place_.when == When::at_return) value.argument = Value::kOfEntry;
  return add({.what = Operator::value, .at_return = reads_at_return_, .value = value});
}

std::optional<uint16_t> TypedExpression::add_sum(uint16_t left, uint64_t right) {
  if (right == 0) return left;
  const auto number = add_number(right);
  return number ? add({.what = Operator::add, .left = left, .right = *number}) : number;
}

std::optional<uint16_t> TypedExpression::copy_of(uint16_t node) {
  const Expression all = to_;
  const uint16_t copy = select::append_copy(all, all.nodes[node], to_);
  if (to_.nodes.size() > select::kMostNodes)
    return fails("with what its names stand for, the expression is too long");
  return copy;
}

std::optional<uint16_t> TypedExpression::step(const LocationStep& one,
                                              std::vector<uint16_t>& stack) {
  using Step = LocationStep::Kind;
  switch (one.kind) {
    case Step::number:
      return add_number(one.number);
    case Step::register_:
      if (one.number >= kRegisters.size()) return fails("it is in a register that is not read");
      return add_register(kRegisters[one.number], kWord, false);
    case Step::vector:
      return add_vector(one.number);
    case Step::frame_address: {
      if (!place_.frame) return fails("the frame of the function is not known here");
      const auto base = add_register(place_.frame->register_number, kWord, false);
      return base ? add_sum(*base, place_.frame->distance) : base;
    }
    case Step::object_base:
      return add({.what = Operator::number,
                  .at_return = place_.when == When::at_return,
                  .number = one.number + place_.object->bias()});
    default:
      break;
  }
  const uint16_t last = stack.back();
  stack.pop_back();
  if (one.kind == Step::load) return add_load(last, one.bytes, false);
  const Operator what = operator_of(one.kind);
  if (!select::has_right(what)) return add({.what = what, .left = last});
  const uint16_t left = stack.back();
  stack.pop_back();
  const bool has_sign = one.kind >= Step::shift_right_signed && one.kind <= Step::greater_or_equal;
  if (!has_sign) return add({.what = what, .left = left, .right = last});
  const auto a = add_cast(left, kWord, true), b = a ? add_cast(last, kWord, true) : a;
  return b ? add({.what = what, .left = *a, .right = *b}) : b;
}

// Precondition: the steps are well-formed.
std::optional<uint16_t> TypedExpression::computed(const std::vector<LocationStep>& steps) {
  std::vector<uint16_t> stack;
  for (const LocationStep& one : steps) {
    const auto result = step(one, stack);
    if (!result) return result;
    stack.push_back(*result);
  }
  return stack.back();
}

std::optional<Typed> TypedExpression::at(const Location& location, const Type& type) {
  using Step = LocationStep::Kind;
  switch (location.kind) {
    case Location::Kind::none:
      return is_not_here(location);
    case Location::Kind::pieces:
      return Typed{.is = Typed::Is::pieces, .type = type, .pieces = location.pieces};
    case Location::Kind::address: {
      const auto address = computed(location.steps);
      return address ? std::optional(Typed{*address, Typed::Is::place, type}) : std::nullopt;
    }
    case Location::Kind::value:
      break;
  }
  // It is a structure that fits into one register.
  if (!is_number(type))
    return Typed{.is = Typed::Is::pieces, .type = type, .pieces = {location.as_piece(type.bytes)}};
  const auto bytes = static_cast<uint8_t>(type.bytes);
  const LocationStep& first = location.steps.front();
  const bool is_single = location.steps.size() == 1;
  std::optional<uint16_t> node;
  if (is_single && first.kind == Step::register_ && first.number < kRegisters.size()) {
    node = add_register(kRegisters[first.number], bytes, type.is_signed);
  } else {
    node = computed(location.steps);
    if (node) node = add_cast(*node, bytes, type.is_signed);
  }
  return node ? std::optional(Typed{*node, Typed::Is::number, type}) : std::nullopt;
}

std::optional<Typed> TypedExpression::passed(const debug::PassedParameter& where,
                                             const Type& type) {
  using In = debug::PassedParameter::Place;
  if (where.place == In::unknown)
    return fails(fmt::format("how '{}' is passed is not known; it has a place from the first line "
                             "of the function on",
                             name_),
                 plan::Reason::argument_elsewhere);
  if (where.place == In::registers && !where.is_address) return at(debug::location_of(where), type);
  std::optional<uint16_t> node;
  if (where.place == In::registers) {
    node = add_register(select::register_of_argument(where.words.front().number), kWord, false);
  } else {
    // The caller has written it above the return address.
    const auto base = add_register(kStackPointer, kWord, false);
    node = base ? add_sum(*base, kWord + where.offset) : base;
    if (where.is_address && node) node = add_load(*node, kWord, false);
  }
  return node ? std::optional(Typed{*node, Typed::Is::place, type}) : std::nullopt;
}

std::optional<Typed> TypedExpression::parameter(const debug::Variable& found) {
  if (!debug::is_stored_later(found.location)) return at(found.location, found.type);
  if (place_.passed.empty() || found.parameter == 0)
    return fails(
        fmt::format("where '{}' is at the entry of this copy of the function is not known", name_),
        plan::Reason::argument_elsewhere);
  return passed(place_.passed[found.parameter - 1], found.type);
}

std::optional<Typed> TypedExpression::variable(const debug::Variable& found) {
  const bool is_parameter = found.is_parameter && found.parameter != 0;
  if (place_.is_entry && is_parameter) return parameter(found);
  if (is_static(found)) return global(found);
  if (place_.when == When::at_return)
    return fails(fmt::format("'{}' is a variable of the function, which has none any more when it "
                             "returns",
                             name_),
                 plan::Reason::argument_elsewhere);
  return at(found.location, found.type);
}

// A program may have a copy of a variable that a library exports, and the library uses it, too.
TypedPlace::Owner TypedExpression::find_owner(Address address) const {
  const auto is_meant = [&](const image::Symbol& symbol) {
    return symbol.name == name_ && symbol.kind == image::Symbol::Kind::data && symbol.global;
  };
  const auto exported = place_.object->elf().dynamic_symbols();
  const auto own = std::ranges::find_if(exported, is_meant);
  if (own == exported.end() || own->address != address) return {place_.object, address};
  const auto of_program = place_.program->elf().dynamic_symbols();
  const auto copy = std::ranges::find_if(of_program, is_meant);
  if (copy == of_program.end()) return {place_.object, address};
  return {place_.program, copy->address};
}

TypedPlace::Owner TypedExpression::owner_of(Address address) const {
  if (place_.program == nullptr || place_.program == place_.object || place_.owners == nullptr)
    return {place_.object, address};
  const auto [found, is_new] = place_.owners->try_emplace({place_.object, address});
  if (is_new) found->second = find_owner(address);
  return found->second;
}

// A hit reads a number without a check, as the program does. So its bytes have to lie in a readable
// segment, whatever the debug information says of the address.
std::optional<Typed> TypedExpression::global(const debug::Variable& found) {
  if (!is_static(found)) return at(found.location, found.type);
  const auto [owner, address] = owner_of(found.location.steps.front().number);
  if (!is_number(found.type) || !is_readable(*owner, {address, address + found.type.bytes})) {
    // The mark has its memory read at the return, if the action is one of a return.
    const auto node = add({.what = Operator::number,
                           .at_return = place_.when == When::at_return,
                           .number = address + owner->bias()});
    return node ? std::optional(Typed{*node, Typed::Is::place, found.type}) : std::nullopt;
  }
  Value value = {.bytes = static_cast<uint8_t>(found.type.bytes),
                 .sign = found.type.is_signed ? Value::Sign::signed_ : Value::Sign::none};
  value.variable = address + owner->bias();
  const auto node = add({.what = Operator::value, .at_return = reads_at_return_, .value = value});
  return node ? std::optional(Typed{*node, Typed::Is::number, found.type}) : std::nullopt;
}

// A reference stands for what it leads to.
std::optional<Typed> TypedExpression::referred(std::optional<Typed> what) {
  if (!what || !what->type || !what->type->is_reference) return what;
  const auto target = place_.info->target_of(*what->type);
  const auto address = number_of(*std::move(what));
  if (!address) return std::nullopt;
  return Typed{.node = *address, .is = Typed::Is::place, .type = target.value_or(Type{})};
}

// The value does not depend on debug information, which only adds what it points to.
std::optional<Typed> TypedExpression::prototyped(const Node& node,
                                                 const TypedPlace::Parameter& parameter) {
  const auto copy = add(node);
  if (!copy) return std::nullopt;
  std::string_view type = parameter.type;
  if (!type.ends_with(" *") || !asks_for_types_) return Typed{*copy};
  type.remove_suffix(2);
  for (const std::string_view word : {"const ", "struct ", "union "})
    if (type.starts_with(word)) type.remove_prefix(word.size());
  auto target = place_.info->find_type(type);
  if (!target) return Typed{*copy};
  const Type pointer = {.kind = Type::Kind::pointer, .bytes = kWord, .name = parameter.type};
  return Typed{.node = *copy, .type = pointer, .target = std::move(target)};
}

std::optional<Typed> TypedExpression::value(const Node& node) {
  if (node.value.name.empty()) {
    const auto copy = add(node);
    if (!copy) return std::nullopt;
    Typed found = {*copy};
    const bool is_result = place_.when == When::at_return && node.value.is_register() &&
                           node.value.register_number == kResultRegister &&
                           node.value.bytes == kWord;
    if (is_result && place_.function && place_.function->result.kind == Type::Kind::pointer)
      found.type = place_.function->result;
    return found;
  }
  name_ = node.value.name;
  const auto local = std::ranges::find(place_.variables, name_, &debug::Variable::name);
  const bool is_local = local != place_.variables.end();
  std::optional<Typed> found;
  const auto parameter = std::ranges::find(place_.parameters, name_, &TypedPlace::Parameter::name);
  if (parameter != place_.parameters.end()) {
    found = prototyped(node, *parameter);
    if (found && is_local && local->is_parameter && is_number(local->type))
      found->type = local->type;
    return found;
  }
  reads_at_return_ = node.at_return;
  const auto global_one = is_local || place_.has_types_alone
                              ? std::nullopt
                              : place_.info->find_global(name_, place_.address);
  if (is_local && !local->is_external) {
    found = referred(variable(*local));
  } else if (global_one && !global_one->is_external) {
    found = referred(global(*global_one));
  } else {
    // Prototypes or symbols may know the name. They do not know its type.
    const auto copy = add(node);
    found = copy ? std::optional(Typed{*copy}) : std::nullopt;
    // If another object defines the variable, its declaration still has the type.
    if (found && global_one && is_number(global_one->type)) found->type = global_one->type;
    return found;
  }
  reads_at_return_ = false;
  if (!found || node.value.sign == Value::Sign::of_site) return found;
  // The user has written a type after the name.
  const bool is_signed = node.value.sign == Value::Sign::signed_;
  if (is_whole(*found)) {
    const auto load = add_load(found->node, node.value.bytes, is_signed);
    return load ? std::optional(Typed{*load}) : std::nullopt;
  }
  const auto number = number_of(*std::move(found));
  const auto cast = number ? add_cast(*number, node.value.bytes, is_signed) : number;
  return cast ? std::optional(Typed{*cast}) : std::nullopt;
}

std::optional<Typed> TypedExpression::member_of_pieces(const Typed& of,
                                                       const debug::Member& found) {
  constexpr uint64_t kByte = 8;
  uint64_t at_piece = 0;
  for (const Location::Piece& piece : of.pieces) {
    const uint64_t inside = found.offset - at_piece;
    const bool is_here = found.offset >= at_piece && found.offset < at_piece + piece.bytes &&
                         found.type.bytes <= piece.bytes - inside;
    at_piece += piece.bytes;
    if (!is_here) continue;
    if (inside == 0 && found.bits == 0) return at(Location::of(piece), found.type);
    if (piece.kind == Location::Kind::address) {
      auto whole = at(Location::of(piece), found.type);
      const auto address = whole ? add_sum(whole->node, inside) : std::nullopt;
      if (!address) return std::nullopt;
      return Typed{.node = *address,
                   .is = Typed::Is::place,
                   .type = found.type,
                   .bit_offset = found.bit_offset,
                   .bits = found.bits};
    }
    // The member is a part of a register.
    const Type word = {.kind = Type::Kind::integer, .bytes = kWord, .name = "word"};
    const bool is_low = inside + found.type.bytes <= kWord;
    const auto whole = found.bits == 0 && is_number(found.type) && is_low
                           ? at(Location::of(piece), word)
                           : std::nullopt;
    const auto distance = whole ? add_number(kByte * inside) : std::nullopt;
    const auto shifted =
        distance ? add({.what = Operator::shift_right, .left = whole->node, .right = *distance})
                 : distance;
    const auto part =
        shifted ? add_cast(*shifted, static_cast<uint8_t>(found.type.bytes), found.type.is_signed)
                : shifted;
    return part ? std::optional(Typed{*part, Typed::Is::number, found.type}) : is_in_pieces(found);
  }
  return is_in_pieces(found);
}

std::optional<Typed> TypedExpression::member(const Node& node) {
  auto of = resolve(from_.nodes[node.left]);
  if (!of) return of;
  if (!of->type)
    return fails(fmt::format("the type of '{}' is not known", name_.empty() ? node.text : name_));
  Type type = *of->type;
  if (type.kind == Type::Kind::pointer) {
    const auto address = number_of(*of);
    if (!address) return std::nullopt;
    const auto target = target_of(*of);
    *of = {.node = *address, .is = Typed::Is::place, .type = target};
    type = target.value_or(Type{});
  }
  if (type.kind != Type::Kind::structure)
    return fails(type.kind == Type::Kind::none
                     ? fmt::format("{} is not defined in the debug information", type.name)
                     : fmt::format("{} has no members", type.name));
  const auto found = place_.info->find_member(type, node.text);
  if (!found) {
    name_ = node.text;
    return fails(fmt::format("{} has no member '{}'; it has {}", type.name, node.text,
                             members_in_words(*place_.info, type)));
  }
  if (of->is == Typed::Is::pieces) return member_of_pieces(*of, *found);
  const auto address = add_sum(of->node, found->offset);
  if (!address) return std::nullopt;
  return Typed{.node = *address,
               .is = Typed::Is::place,
               .type = found->type,
               .bit_offset = found->bit_offset,
               .bits = found->bits};
}

std::optional<Typed> TypedExpression::element(const Node& node) {
  auto of = resolve(from_.nodes[node.left]);
  if (!of) return of;
  const bool is_array = of->type && of->type->kind == Type::Kind::array;
  const bool is_pointer = of->type && of->type->kind == Type::Kind::pointer;
  const auto target = is_array || is_pointer ? target_of(*of) : std::nullopt;
  if (!target || target->bytes == 0 || (is_array && of->is != Typed::Is::place))
    return fails(fmt::format("'{}' has no elements of a known size", name_));
  const auto base = is_array ? std::optional(of->node) : number_of(*of);
  auto index = base ? resolve(from_.nodes[node.right]) : std::nullopt;
  auto offset = index ? number_of(*index) : std::nullopt;
  const auto size = offset && target->bytes > 1 ? add_number(target->bytes) : std::nullopt;
  if (size) offset = add({.what = Operator::multiply, .left = *offset, .right = *size});
  const auto address =
      offset ? add({.what = Operator::add, .left = *base, .right = *offset}) : std::nullopt;
  return address ? std::optional(Typed{*address, Typed::Is::place, target}) : std::nullopt;
}

std::optional<Typed> TypedExpression::pointee(const Node& node) {
  auto of = resolve(from_.nodes[node.left]);
  if (!of) return of;
  const bool is_array = of->type && of->type->kind == Type::Kind::array;
  const bool is_pointer = of->type && of->type->kind == Type::Kind::pointer;
  const auto target = is_array || is_pointer ? target_of(*of) : std::nullopt;
  if (!target || (is_array && of->is != Typed::Is::place))
    return fails(fmt::format("'{}' is no pointer", name_));
  const auto address = is_array ? std::optional(of->node) : number_of(*of);
  return address ? std::optional(Typed{*address, Typed::Is::place, target}) : std::nullopt;
}

std::optional<Type> TypedExpression::target_of(const Typed& what) const {
  return what.target ? what.target : place_.info->target_of(*what.type);
}

std::optional<Typed> TypedExpression::pointer_to(const Node& node) {
  auto of = resolve(from_.nodes[node.left]);
  const auto number = of ? number_of(*std::move(of)) : std::nullopt;
  if (!number) return std::nullopt;
  name_ = node.text;
  auto target = place_.info->find_type(node.text);
  if (!target) return fails(fmt::format("the debug information has no type '{}'", node.text));
  const Type pointer = {.kind = Type::Kind::pointer, .bytes = kWord, .name = target->name + " *"};
  return Typed{.node = *number, .type = pointer, .target = std::move(target)};
}

// A floating-point number lies in memory, or it has a vector register of its own.
std::optional<uint16_t> TypedExpression::real_of(const Typed& what) {
  const Type& type = *what.type;
  const auto bytes = static_cast<uint8_t>(type.bytes);
  if (type.bytes != sizeof(float) && type.bytes != sizeof(double))
    return fails(fmt::format("{} is a floating-point number of {} bytes, which is not read",
                             type.name, type.bytes),
                 plan::Reason::argument_no_integer);
  if (what.is == Typed::Is::place)
    return add({.what = Operator::load, .bytes = bytes, .is_real = true, .left = what.node});
  const bool is_vector = what.pieces.size() == 1 &&
                         what.pieces.front().kind == Location::Kind::value &&
                         what.pieces.front().steps.size() == 1 &&
                         what.pieces.front().steps.front().kind == LocationStep::Kind::vector;
  const auto node = is_vector ? add_vector(what.pieces.front().steps.front().number) : std::nullopt;
  if (!node)
    return fails(fmt::format("'{}' is a floating-point number that is in no register here", name_),
                 plan::Reason::argument_elsewhere);
  Value& value = to_.nodes[*node].value;
  value.bytes = bytes;
  value.is_real = true;
  return node;
}

std::optional<uint16_t> TypedExpression::number_of(Typed what) {
  if (what.is == Typed::Is::number || what.is == Typed::Is::condition) return what.node;
  const Type& type = *what.type;
  if (type.kind == Type::Kind::array && what.is == Typed::Is::place) return what.node;
  if (type.kind == Type::Kind::floating_point) return real_of(what);
  if (type.kind == Type::Kind::structure)
    return fails(fmt::format("{} is no number; name one of its members: {}", type.name,
                             members_in_words(*place_.info, type)));
  if (!is_number(type) || what.is == Typed::Is::pieces)
    return fails(fmt::format("{} is no number", type.name));
  if (what.bits == 0) return add_load(what.node, type.bytes, type.is_signed);
  uint64_t bytes = 1;
  while (8 * bytes < what.bits + what.bit_offset) bytes *= 2;
  auto number = add_load(what.node, bytes, false);
  if (number) number = add_cast(*number, kWord, type.is_signed);
  const auto shifted = [&](Operator by, uint64_t bits) {
    const auto distance = number ? add_number(bits) : std::nullopt;
    number = distance ? add({.what = by, .left = *number, .right = *distance}) : std::nullopt;
  };
  shifted(Operator::shift_left, 64 - what.bits - what.bit_offset);
  // The sign of what is shifted is that of the last cast.
  if (number) number = add_cast(*number, kWord, type.is_signed);
  shifted(Operator::shift_right, 64 - what.bits);
  return number;
}

// A text that may lie in the structure itself takes more steps: whole values alone have them.
std::optional<debug::TextLayout> TypedExpression::text_in(const Type& structure) const {
  auto layout = debug::text_layout(*place_.info, structure);
  return layout && !layout->of_short ? layout : std::nullopt;
}

bool TypedExpression::is_text(const Typed& what) const {
  if (!what.type || what.is == Typed::Is::condition) return false;
  const Type& type = *what.type;
  if (type.kind == Type::Kind::array && what.is != Typed::Is::place) return false;
  if (type.kind == Type::Kind::array || type.kind == Type::Kind::pointer)
    return is_character(target_of(what));
  return type.kind == Type::Kind::structure && text_in(type).has_value();
}

std::optional<uint16_t> TypedExpression::text_of(Typed what, uint8_t bytes) {
  const bool is_structure =
      what.type && what.type->kind == Type::Kind::structure && what.is != Typed::Is::number;
  const auto members = is_structure ? text_in(*what.type) : std::nullopt;
  if (!members) {
    const bool is_array = what.type && what.type->kind == Type::Kind::array &&
                          what.type->bytes != 0 && what.type->bytes < bytes;
    const auto most = is_array ? static_cast<uint8_t>(what.type->bytes) : bytes;
    const auto address = number_of(std::move(what));
    return address ? add({.what = Operator::text, .bytes = most, .left = *address}) : address;
  }
  const auto part = [&](uint64_t offset, const Type& type) -> std::optional<uint16_t> {
    if (what.is == Typed::Is::pieces) {
      const auto found = member_of_pieces(what, {.name = "", .type = type, .offset = offset});
      return found ? number_of(*found) : std::nullopt;
    }
    // The first part takes the node itself, and the second one a copy.
    const auto base = offset == members->address ? std::optional(what.node) : copy_of(what.node);
    const auto address = base ? add_sum(*base, offset) : base;
    return address ? add_load(*address, type.bytes, type.is_signed) : address;
  };
  const Type pointer = {.kind = Type::Kind::pointer, .bytes = kWord, .name = "pointer"};
  const auto length = part(members->length, members->length_type);
  const auto address = length ? part(members->address, pointer) : std::nullopt;
  return address ? add({.what = Operator::text_of_length,
                        .bytes = bytes,
                        .left = *address,
                        .right = *length})
                 : address;
}

std::optional<Typed> TypedExpression::text(const Node& node) {
  auto of = resolve(from_.nodes[node.left]);
  if (!of) return of;
  std::optional<uint16_t> added;
  if (node.what == Operator::text) {
    added = text_of(*of, node.bytes);
  } else {
    Node copy = node;
    if (const auto left = number_of(*of)) {
      copy.left = *left;
      auto length = node.what == Operator::text_of_length ? resolve(from_.nodes[node.right])
                                                          : std::optional(Typed{});
      const auto right = length ? number_of(*length) : std::nullopt;
      if (right && node.what == Operator::text_of_length) copy.right = *right;
      if (right) added = add(copy);
    }
  }
  if (added) to_.nodes[*added].tells_null = node.tells_null;
  return added ? std::optional(Typed{*added, Typed::Is::condition}) : std::nullopt;
}

std::optional<Typed> TypedExpression::operation(const Node& node) {
  Node copy = node;
  if (select::has_side(node.what)) {
    auto left = resolve(from_.nodes[node.left]);
    if (left && node.what == Operator::cast && is_whole(*left)) {
      const auto load = add_load(left->node, node.bytes, node.is_signed);
      return load ? std::optional(Typed{*load}) : std::nullopt;
    }
    const auto number = left ? number_of(*std::move(left)) : std::nullopt;
    if (!number) return std::nullopt;
    copy.left = *number;
  }
  if (select::has_right(node.what)) {
    auto right = resolve(from_.nodes[node.right]);
    const auto number = right ? number_of(*std::move(right)) : std::nullopt;
    if (!number) return std::nullopt;
    copy.right = *number;
  }
  const auto added = add(std::move(copy));
  return added ? std::optional(Typed{*added}) : std::nullopt;
}

std::optional<Typed> TypedExpression::resolve(const Node& node) {
  switch (node.what) {
    case Operator::value:
      return value(node);
    case Operator::member:
      return referred(member(node));
    case Operator::element:
      return referred(element(node));
    case Operator::pointee:
      return referred(pointee(node));
    case Operator::pointer_to:
      return pointer_to(node);
    case Operator::text:
    case Operator::equals_text:
    case Operator::like_text:
    case Operator::text_of_length:
      return text(node);
    default:
      return operation(node);
  }
}

}  // namespace pinprick::session
