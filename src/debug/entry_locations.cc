// Translates location expressions of DWARF into steps.
#include <algorithm>
#include <span>
#include <utility>

#include "debug/entries.h"

namespace pinprick::debug {
namespace {

using Steps = std::vector<LocationStep>;
using Step = LocationStep::Kind;

Location none(Location::Cause cause) {
  return {Location::Kind::none, cause, {}};
}

std::optional<Step> binary(uint8_t operation) {
  switch (operation) {
    case DW_OP_plus:
      return Step::add;
    case DW_OP_minus:
      return Step::subtract;
    case DW_OP_mul:
      return Step::multiply;
    case DW_OP_and:
      return Step::bit_and;
    case DW_OP_or:
      return Step::bit_or;
    case DW_OP_xor:
      return Step::bit_xor;
    case DW_OP_shl:
      return Step::shift_left;
    case DW_OP_shr:
      return Step::shift_right;
    case DW_OP_shra:
      return Step::shift_right_signed;
    case DW_OP_div:
      return Step::divide;
    case DW_OP_eq:
      return Step::equal;
    case DW_OP_ne:
      return Step::not_equal;
    case DW_OP_lt:
      return Step::less;
    case DW_OP_le:
      return Step::less_or_equal;
    case DW_OP_gt:
      return Step::greater;
    case DW_OP_ge:
      return Step::greater_or_equal;
    default:
      return std::nullopt;
  }
}

// Translates a location expression. Registers are numbered from 0; those of vectors from 17.
class Translator {
 public:
  Translator(Dwarf_Attribute& attribute, std::span<const Dwarf_Op> operations,
             const Location& frame_base)
      : attribute_(attribute), operations_(operations), frame_base_(frame_base) {}

  Location translate();

 private:
  Location in_pieces();
  static constexpr uint64_t kFirstVector = 17, kVectors = 16;
  // Returns false if the operation is not one of the steps; then `result_` says why.
  bool add(const Dwarf_Op& operation, bool is_last);
  bool fails(Location::Cause cause) {
    result_ = none(cause);
    return false;
  }
  bool push(Step kind, uint64_t number, uint8_t bytes = sizeof(uint64_t)) {
    result_.steps.push_back({kind, bytes, number});
    return true;
  }
  bool push_register(uint64_t number) {
    return number < kFirstVector ? push(Step::register_, number)
                                 : fails(Location::Cause::vector_register);
  }
  bool push_sum(uint64_t number) { return push(Step::number, number) && push(Step::add, 0); }

  Dwarf_Attribute& attribute_;
  std::span<const Dwarf_Op> operations_;
  const Location& frame_base_;
  Location result_ = {Location::Kind::address, {}, {}};
};

bool Translator::add(const Dwarf_Op& one, bool is_last) {
  using Cause = Location::Cause;
  const uint8_t atom = one.atom;
  if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31) return push(Step::number, atom - DW_OP_lit0);
  if ((atom >= DW_OP_reg0 && atom <= DW_OP_reg31) || atom == DW_OP_regx) {
    if (operations_.size() != 1) return fails(is_last ? Cause::unknown : Cause::in_pieces);
    result_.kind = Location::Kind::value;
    const uint64_t number = atom == DW_OP_regx ? one.number : atom - DW_OP_reg0;
    const bool is_vector = number >= kFirstVector && number < kFirstVector + kVectors;
    return is_vector ? push(Step::vector, number - kFirstVector) : push_register(number);
  }
  if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
    return push_register(atom - DW_OP_breg0) && push_sum(one.number);
  if (const auto kind = binary(atom)) return push(*kind, 0);
  switch (atom) {
    case DW_OP_nop:
      return true;
    case DW_OP_addr:
      return push(Step::object_base, one.number);
    case DW_OP_addrx:
    case DW_OP_GNU_addr_index: {
      Dwarf_Attribute indexed;
      Dwarf_Addr address = 0;
      if (dwarf_getlocation_attr(&attribute_, &one, &indexed) != 0 ||
          dwarf_formaddr(&indexed, &address) != 0)
        return fails(Cause::unknown);
      return push(Step::object_base, address);
    }
    case DW_OP_const1u:
    case DW_OP_const1s:
    case DW_OP_const2u:
    case DW_OP_const2s:
    case DW_OP_const4u:
    case DW_OP_const4s:
    case DW_OP_const8u:
    case DW_OP_const8s:
    case DW_OP_constu:
    case DW_OP_consts:
      return push(Step::number, one.number);
    case DW_OP_bregx:
      return push_register(one.number) && push_sum(one.number2);
    case DW_OP_fbreg:
      if (frame_base_.kind == Location::Kind::none) return fails(Cause::unknown);
      result_.steps.insert(result_.steps.end(), frame_base_.steps.begin(), frame_base_.steps.end());
      return push_sum(one.number);
    case DW_OP_call_frame_cfa:
      return push(Step::frame_address, 0);
    case DW_OP_plus_uconst:
      return push_sum(one.number);
    case DW_OP_neg:
      return push(Step::negate, 0);
    case DW_OP_not:
      return push(Step::complement, 0);
    case DW_OP_deref:
      return push(Step::load, 0);
    case DW_OP_deref_size:
      return push(Step::load, 0, static_cast<uint8_t>(one.number));
    case DW_OP_stack_value:
      if (!is_last) return fails(Cause::in_pieces);
      result_.kind = Location::Kind::value;
      return true;
    case DW_OP_implicit_value: {
      Dwarf_Block block = {};
      uint64_t number = 0;
      if (operations_.size() != 1 ||
          dwarf_getlocation_implicit_value(&attribute_, &one, &block) != 0 ||
          block.length > sizeof number)
        return fails(Cause::in_pieces);
      std::copy_n(block.data, block.length, reinterpret_cast<uint8_t*>(&number));
      result_.kind = Location::Kind::value;
      return push(Step::number, number);
    }
    case DW_OP_bit_piece:
      return fails(Cause::in_pieces);
    case DW_OP_entry_value:
    case DW_OP_GNU_entry_value:
      return fails(Cause::of_caller);
    case DW_OP_form_tls_address:
    case DW_OP_GNU_push_tls_address:
      return fails(Cause::thread_local_);
    default:
      return fails(Cause::unknown);
  }
}

// How many values are on the stack in the end must be one, and no operation may lack one before.
bool is_well_formed(const Steps& steps) {
  int depth = 0;
  for (const LocationStep& step : steps) {
    const bool pushes = step.kind <= Step::object_base;
    const bool takes_two = step.kind >= Step::add && step.kind <= Step::greater_or_equal;
    const bool has_size = step.bytes == 1 || step.bytes == 2 || step.bytes == 4 || step.bytes == 8;
    if (!has_size || (!pushes && depth < (takes_two ? 2 : 1))) return false;
    depth += pushes ? 1 : takes_two ? -1 : 0;
  }
  return depth == 1;
}

Location Translator::in_pieces() {
  Location all = {Location::Kind::pieces, {}, {}};
  for (auto rest = operations_; !rest.empty();) {
    const auto piece = std::ranges::find(rest, uint8_t{DW_OP_piece}, &Dwarf_Op::atom);
    if (piece == rest.end()) return none(Location::Cause::in_pieces);
    const auto own = rest.first(static_cast<size_t>(piece - rest.begin()));
    all.pieces.push_back(
        Translator(attribute_, own, frame_base_).translate().as_piece(piece->number));
    rest = rest.subspan(own.size() + 1);
  }
  return all;
}

Location Translator::translate() {
  if (operations_.empty()) return none(Location::Cause::optimized_out);
  if (std::ranges::count(operations_, uint8_t{DW_OP_piece}, &Dwarf_Op::atom) != 0)
    return in_pieces();
  for (const Dwarf_Op& one : operations_)
    if (!add(one, &one == &operations_.back())) return std::move(result_);
  if (!is_well_formed(result_.steps)) return none(Location::Cause::unknown);
  return std::move(result_);
}

Location location_at(Dwarf_Attribute& attribute, Dwarf_Addr address, const Location& frame_base,
                     bool is_entry) {
  Dwarf_Op* operations = nullptr;
  size_t count = 0;
  // Statements without instructions of their own may begin at the entry, too. What is so before
  // them has an empty range.
  Dwarf_Addr base = 0, begin = 0, end = 0;
  for (ptrdiff_t next = 0; is_entry && (next = dwarf_getlocations(&attribute, next, &base, &begin,
                                                                  &end, &operations, &count)) > 0;)
    if (begin == address && end == address)
      return Translator(attribute, {operations, count}, frame_base).translate();
  const int found = dwarf_getlocation_addr(&attribute, address, &operations, &count, 1);
  if (found != 1)
    return none(found < 0 ? Location::Cause::unknown : Location::Cause::optimized_out);
  return Translator(attribute, {operations, count}, frame_base).translate();
}

}  // namespace

Location location_of(Dwarf_Die& die, Dwarf_Addr address, const Location& frame_base, bool is_signed,
                     bool is_entry) {
  Dwarf_Attribute attribute;
  if (dwarf_attr_integrate(&die, DW_AT_location, &attribute) != nullptr)
    return location_at(attribute, address, frame_base, is_entry);
  const auto value = constant_of(die, is_signed);
  if (!value) return none(Location::Cause::optimized_out);
  return {Location::Kind::value, {}, {{Step::number, sizeof *value, *value}}};
}

Location frame_base_of(Dwarf_Die& function, Dwarf_Addr address) {
  Dwarf_Attribute attribute;
  if (dwarf_attr_integrate(&function, DW_AT_frame_base, &attribute) == nullptr)
    return none(Location::Cause::unknown);
  // A register there is an address, unlike that of a variable.
  return location_at(attribute, address, {}, false);
}

}  // namespace pinprick::debug
