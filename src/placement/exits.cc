#include "placement/exits.h"

#include <algorithm>
#include <set>
#include <utility>

#include "arch/code.h"
#include "placement/callee.h"
#include "placement/probe_set.h"

namespace pinprick::placement {
namespace {

using arch::Flow;
using arch::Instruction;
using arch::Special;

constexpr size_t kMostPieces = 8;

class ExitSearch {
 public:
  ExitSearch(image::Object& object, const plan::FunctionCode& code) : object_(object) {
    exits_.pieces.push_back({code, {}});
  }

  std::optional<Exits> run();

 private:
  bool look_at(size_t piece);
  bool add_jump(size_t piece, const Instruction& jump);
  bool add_computed_jump(size_t piece, const Instruction& jump, const Instruction& before);
  bool is_inside(Address address) const;
  bool leads_to_entry(Address address) const {
    const plan::FunctionCode& code = exits_.pieces.front().code;
    return address == code.range.begin || address == plan::entry_site(code);
  }
  bool add_part(const image::Function& part);
  bool is_procedure_linkage(Address address) const;
  bool may_jump_inside() const;
  void add_tail_jump(size_t piece, Address at) {
    exits_.pieces[piece].exits.push_back(at);
    exits_.has_tail_jumps = true;
  }

  image::Object& object_;
  Exits exits_;
  std::vector<Address> boundaries_;
  std::set<Address> own_targets_;  // of its direct jumps
  bool has_free_jump_ = false;     // to an address that no instruction before it has computed
};

std::optional<Exits> ExitSearch::run() {
  // Parts are added while others are looked at.
  for (size_t piece = 0; piece < exits_.pieces.size(); ++piece)
    if (exits_.pieces.size() > kMostPieces || !look_at(piece)) return std::nullopt;
  if (has_free_jump_ && may_jump_inside()) return std::nullopt;
  return std::move(exits_);
}

bool ExitSearch::look_at(size_t piece) {
  const plan::FunctionCode code = exits_.pieces[piece].code;
  if (code.is_go || code.is_managed || code.has_tables ||
      code.targets->has_unresolved_jump(code.range.begin))
    return false;
  Instruction before;
  bool falls_out = true;
  for (Address at = code.range.begin; at < code.range.end;) {
    const auto one = plan::instruction_at(code, at);
    if (!one || one->end() > code.range.end) return false;
    boundaries_.push_back(at);
    switch (one->flow) {
      case Flow::ret:
        exits_.pieces[piece].exits.push_back(at);
        break;
      case Flow::jump:
      case Flow::jump_if:
        if (!add_jump(piece, *one)) return false;
        break;
      case Flow::jump_indirect:
        if (!add_computed_jump(piece, *one, before)) return false;
        break;
      default:
        break;
    }
    if (one->special != Special::nop) falls_out = one->falls_through() && !one->is_call();
    at = one->end();
    before = *one;
  }
  return !falls_out;
}

bool ExitSearch::is_inside(Address address) const {
  return std::ranges::any_of(
      exits_.pieces, [&](const FunctionPiece& one) { return one.code.range.contains(address); });
}

bool ExitSearch::add_jump(size_t piece, const Instruction& jump) {
  const Address to = jump.target;
  // A call of its own entry would have to end here, and a loop that starts there would not.
  if (leads_to_entry(to)) return false;
  own_targets_.insert(to);
  if (is_inside(to)) return true;
  const image::Function* const other = object_.functions().find(to);
  if (other != nullptr && how_entered(object_, *other) == Entered::by_jump) return add_part(*other);
  const bool is_function = other != nullptr ? other->range.begin == to : is_procedure_linkage(to);
  if (!is_function || jump.flow == Flow::jump_if) return false;
  add_tail_jump(piece, jump.address);
  return true;
}

bool ExitSearch::add_part(const image::Function& part) {
  auto code = code_of(object_, part);
  if (!code) return false;
  exits_.pieces.push_back({*std::move(code), {}});
  return true;
}

// A stub of the procedure linkage table: a jump through a pointer, with or without a mark before
// it.
bool ExitSearch::is_procedure_linkage(Address address) const {
  for (int i = 0; i < 2; ++i) {
    const auto one = arch::decode(object_.code_from(address), address);
    if (!one) return false;
    if (one->flow == Flow::jump_indirect) return one->has_rip_operand;
    if (one->special != Special::landing_pad) return false;
    address = one->end();
  }
  return false;
}

// Of the jumps through tables it is known that they lead into the function, as none is unresolved:
// those to a sum, and those through a table at a fixed address. Only programs at fixed addresses
// have the latter; elsewhere such a number is a distance from a register.
bool ExitSearch::add_computed_jump(size_t piece, const Instruction& jump,
                                   const Instruction& before) {
  constexpr uint8_t kAddressSize = 4;
  constexpr Address kLowestFixed = 0x10000;  // vm.mmap_min_addr
  const Range extent = object_.extent();
  const bool is_sum =
      before.special == Special::add_register || before.special == Special::add_memory;
  const bool has_fixed_table =
      jump.has_memory_operand && !jump.has_rip_operand && jump.displacement_size == kAddressSize &&
      extent.begin - object_.bias() >= kLowestFixed &&
      extent.contains(static_cast<Address>(jump.displacement) + object_.bias());
  if (is_sum || has_fixed_table) return true;
  if (!jump.has_rip_operand) has_free_jump_ = true;
  add_tail_jump(piece, jump.address);
  return true;
}

// Does anything but its own direct jumps lead into the function?
bool ExitSearch::may_jump_inside() const {
  const image::BranchTargets& targets = *exits_.pieces.front().code.targets;
  return std::ranges::any_of(boundaries_, [&](Address at) {
    return targets.contains(at) && !own_targets_.contains(at) &&
           std::ranges::none_of(exits_.pieces, [&](const FunctionPiece& one) {
             return one.code.range.begin == at || plan::entry_site(one.code) == at;
           });
  });
}

}  // namespace

std::optional<Exits> find_exits(image::Object& object, const plan::FunctionCode& code) {
  return ExitSearch(object, code).run();
}

}  // namespace pinprick::placement
