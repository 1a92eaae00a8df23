// Replaces the names in an expression, at one instruction, by what debug information says of them:
// registers, numbers, loads and sums, which a hit can compute.
//
// Reads the debug information, and nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "debug/calling.h"
#include "debug/debug_info.h"
#include "debug/text_layout.h"
#include "image/object.h"
#include "plan/tactic.h"
#include "select/expression.h"

namespace pinprick::session {

// Why an expression cannot be computed: the name at fault, and a sentence about it.
struct UntypedName {
  plan::Reason reason = plan::Reason::unknown_name;
  std::string name;
  std::string why;
};

// An instruction, and the names and types that are known there.
struct TypedPlace {
  // When is the expression computed?
  enum class When : uint8_t { at_hit, at_return };

  // The debug information of the object. If that has none, it is that of the program, of which only
  // the types are used.
  std::shared_ptr<debug::DebugInfo> info;
  bool has_types_alone = false;
  const image::Object* object = nullptr;
  // The object that holds a variable, and the address in its file. The program may hold a copy of a
  // library's variable.
  struct Owner {
    const image::Object* object = nullptr;
    Address address = 0;
  };
  const image::Object* program = nullptr;  // of the process; null: of none
  // Those that were asked for, by object and address.
  std::map<std::pair<const image::Object*, Address>, Owner>* owners = nullptr;
  // Parameters that a prototype knows, with their types in C. They hide global variables.
  struct Parameter {
    std::string name, type;
  };
  std::vector<Parameter> parameters = {};
  Address address = 0;  // of the file
  When when = When::at_hit;
  bool is_entry = false;
  // The CFA is the register plus the distance; nullopt: it is not known.
  struct Frame {
    uint8_t register_number = 0;
    uint64_t distance = 0;
  };
  std::optional<Frame> frame;
  std::vector<debug::Variable> variables;
  std::optional<debug::Function> function;  // if it starts here
  // By parameter; empty if the compiler may have changed which there are.
  std::vector<debug::PassedParameter> passed;
};

// A part of the resolved expression, with its type.
struct Typed {
  uint16_t node = 0;
  // place: the node computes its address. pieces: it lies in `pieces`, and there is no node.
  // condition: the node is a text, or compares one.
  enum class Is : uint8_t { number, place, pieces, condition } is = Is::number;
  std::optional<debug::Type> type = {};
  std::optional<debug::Type> target = {};  // what a pointer leads to, if the type does not say
  uint32_t bit_offset = 0, bits = 0;
  std::vector<debug::Location::Piece> pieces = {};
};

// Does it ask for a type that debug information knows?
bool needs_types(const select::Expression& expression);

// Does it have one address all the time?
bool is_static(const debug::Variable& variable);

// Resolves one expression.
class TypedExpression {
 public:
  TypedExpression(const TypedPlace& place, const select::Expression& from)
      : place_(place), from_(from), asks_for_types_(needs_types(from)) {}

  // Returns nullopt if that is impossible; error() says why.
  std::optional<Typed> resolve(const select::Node& node);
  // Returns the number that it stands for.
  std::optional<uint16_t> number_of(Typed what);
  // Returns the text that it stands for, with its first `bytes` at most.
  std::optional<uint16_t> text_of(Typed what, uint8_t bytes);
  // Returns the number that a member of what is in registers stands for.
  std::optional<uint16_t> number_in(const Typed& whole, const debug::Member& member) {
    auto found = member_of_pieces(whole, member);
    return found ? number_of(*std::move(found)) : std::nullopt;
  }
  // Is it shown as a text by itself?
  bool is_text(const Typed& what) const;

  const select::Expression& result() const { return to_; }
  const UntypedName& error() const { return error_; }

 private:
  std::nullopt_t fails(std::string why, plan::Reason reason = plan::Reason::unknown_name) {
    if (error_.why.empty()) error_ = {reason, name_, std::move(why)};
    return std::nullopt;
  }
  std::nullopt_t is_not_here(const debug::Location& location);
  std::nullopt_t is_in_pieces(const debug::Member& member);
  std::optional<uint16_t> add(select::Node node);
  std::optional<uint16_t> add_number(uint64_t number) {
    return add({.what = select::Operator::number, .number = number});
  }
  std::optional<uint16_t> add_register(uint8_t number, uint8_t bytes, bool is_signed);
  std::optional<uint16_t> add_vector(uint64_t number);
  std::optional<uint16_t> add_sum(uint16_t left, uint64_t right);
  std::optional<uint16_t> add_load(uint16_t address, uint64_t bytes, bool is_signed) {
    return add({.what = select::Operator::load,
                .bytes = static_cast<uint8_t>(bytes),
                .is_signed = is_signed,
                .left = address});
  }
  std::optional<uint16_t> add_cast(uint16_t of, uint8_t bytes, bool is_signed) {
    return add(
        {.what = select::Operator::cast, .bytes = bytes, .is_signed = is_signed, .left = of});
  }
  std::optional<uint16_t> real_of(const Typed& what);
  std::optional<uint16_t> copy_of(uint16_t node);
  std::optional<uint16_t> computed(const std::vector<debug::LocationStep>& steps);
  std::optional<uint16_t> step(const debug::LocationStep& one, std::vector<uint16_t>& stack);

  std::optional<Typed> value(const select::Node& node);
  std::optional<Typed> prototyped(const select::Node& node, const TypedPlace::Parameter& parameter);
  std::optional<Typed> variable(const debug::Variable& found);
  std::optional<Typed> at(const debug::Location& location, const debug::Type& type);
  std::optional<Typed> parameter(const debug::Variable& found);
  std::optional<Typed> passed(const debug::PassedParameter& where, const debug::Type& type);
  std::optional<Typed> global(const debug::Variable& found);
  TypedPlace::Owner owner_of(Address address) const;
  TypedPlace::Owner find_owner(Address address) const;
  std::optional<Typed> referred(std::optional<Typed> what);
  std::optional<Typed> member(const select::Node& node);
  std::optional<Typed> member_of_pieces(const Typed& of, const debug::Member& found);
  std::optional<Typed> element(const select::Node& node);
  std::optional<Typed> pointee(const select::Node& node);
  std::optional<Typed> pointer_to(const select::Node& node);
  std::optional<debug::Type> target_of(const Typed& what) const;
  std::optional<debug::TextLayout> text_in(const debug::Type& structure) const;
  std::optional<Typed> text(const select::Node& node);
  std::optional<Typed> operation(const select::Node& node);

  const TypedPlace& place_;
  const select::Expression& from_;
  select::Expression to_;
  std::string name_;  // the last one
  bool reads_at_return_ = false;
  bool asks_for_types_;
  UntypedName error_;
};

}  // namespace pinprick::session
