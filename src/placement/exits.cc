#include "placement/exits.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <span>
#include <utility>

#include "arch/code.h"
#include "arch/computed_jump.h"
#include "arch/red_zone.h"
#include "placement/callee.h"
#include "placement/probe_set.h"

namespace pinprick::placement {
namespace {

using arch::Flow;
using arch::Instruction;
using arch::Special;

constexpr size_t kMostPieces = 8;

// What the compiler adds to a function's name to name a part of it.
constexpr std::string_view kPartMarks[] = {".cold", ".warm"};

class ExitSearch {
 public:
  ExitSearch(image::Object& object, const image::Function& function, const plan::FunctionCode& code,
             const FunctionParts& parts)
      : object_(object), function_(function), parts_(parts) {
    exits_.pieces.push_back({code, {}});
  }

  std::optional<Exits> run();

 private:
  bool look_at_pieces();
  bool look_at(size_t piece);
  bool add_jump(size_t piece, const Instruction& jump);
  bool add_computed_jump(size_t piece, const Instruction& jump, const Instruction& before);
  bool is_inside(Address address) const;
  bool has_table(const plan::FunctionCode& code, const Instruction& jump,
                 const Instruction& before) const;
  bool leads_to_entry(Address address) const {
    const plan::FunctionCode& code = exits_.pieces.front().code;
    return address == code.range.begin || address == plan::entry_site(code);
  }
  bool add_part(const image::Function& part);
  bool add_named_parts();
  bool is_procedure_linkage(Address address) const;
  bool may_jump_inside() const;
  void add_tail_jump(size_t piece, Address at) {
    exits_.pieces[piece].exits.push_back(at);
    exits_.has_tail_jumps = true;
  }
  static std::span<const uint8_t> bytes_of(const plan::FunctionCode& code, const Instruction& one) {
    return code.bytes.subspan(one.address - code.range.begin, one.length);
  }

  image::Object& object_;
  const image::Function& function_;
  const FunctionParts& parts_;
  Exits exits_;
  size_t looked_at_ = 0;  // pieces
  std::vector<Address> boundaries_;
  std::set<Address> own_targets_;  // of its direct jumps
  bool has_table_ = false;         // it jumps through one
  bool has_free_jump_ = false;     // to an address that is neither a table's nor an import's
};

std::optional<Exits> ExitSearch::run() {
  const bool is_known = look_at_pieces() && add_named_parts() && look_at_pieces() &&
                        (!has_free_jump_ || !may_jump_inside());
  return is_known ? std::optional(std::move(exits_)) : std::nullopt;
}

// Parts are added while others are looked at.
bool ExitSearch::look_at_pieces() {
  for (; looked_at_ < exits_.pieces.size(); ++looked_at_)
    if (exits_.pieces.size() > kMostPieces || !look_at(looked_at_)) return false;
  return true;
}

// Only what is reached counts: constants may lie after an instruction that does not fall through.
// Their addresses are taken, like those of functions, or of blocks in tables of addresses; or the
// function reads them.
bool ExitSearch::look_at(size_t piece) {
  const plan::FunctionCode code = exits_.pieces[piece].code;
  if (code.is_go || code.is_managed || code.has_tables ||
      code.targets->has_unresolved_jump(code.range.begin))
    return false;
  Instruction before;
  bool is_reached = true, falls_out = true;
  for (Address at = code.range.begin; at < code.range.end;) {
    if (!is_reached && !code.targets->contains(at)) {
      ++at;
      continue;
    }
    if (!is_reached && !plan::starts_block(code, at) && !has_table_) return false;
    const auto one = plan::instruction_at(code, at);
    if (!one || one->end() > code.range.end) return false;
    boundaries_.push_back(at);
    const bool refers_inside =
        one->has_rip_operand && code.range.contains(one->memory) && !leads_to_entry(one->memory);
    if (refers_inside) return false;
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
    is_reached = one->falls_through();
    // Padding may come after a call that does not return.
    if (one->special != Special::nop) falls_out = is_reached && !one->is_call();
    at = one->end();
    before = *one;
  }
  return !is_reached || !falls_out;
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
  const auto code = code_of(object_, part);
  if (!code) return false;
  exits_.pieces.push_back({*code, {}});
  return true;
}

// Tables and landing pads may lead to parts to which no jump leads. Where functions of one name
// have several parts, it is not known whose they are.
bool ExitSearch::add_named_parts() {
  if (!parts_.have_names()) return !has_table_;
  for (const std::string_view name : object_.functions().names(function_)) {
    const auto named = parts_.of(name);
    const bool has_one = std::ranges::any_of(
        named, [&](const image::Function* part) { return is_inside(part->range.begin); });
    if (named.size() > 1 && !has_one && has_table_) return false;
    if (named.size() == 1 && !has_one && !add_part(*named.front())) return false;
  }
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

// Does the jump go through a table? Of these it is known that they lead into the function, as none
// is unresolved: those to a sum, and those through a table at a fixed address. Only programs at
// fixed addresses have the latter; elsewhere such a number is a distance from a register. A table
// may also have the addresses of other functions.
bool ExitSearch::has_table(const plan::FunctionCode& code, const Instruction& jump,
                           const Instruction& before) const {
  constexpr uint8_t kAddressSize = 4;
  constexpr Address kLowestFixed = 0x10000;  // vm.mmap_min_addr
  if (before.length != 0 && arch::jumps_to_sum(bytes_of(code, before), bytes_of(code, jump)))
    return true;
  if (!jump.has_memory_operand || jump.has_rip_operand || jump.displacement_size != kAddressSize ||
      object_.extent().begin - object_.bias() < kLowestFixed)
    return false;
  Address first = 0;
  std::array<uint8_t, sizeof first> bytes;
  if (!object_.read(static_cast<Address>(jump.displacement) + object_.bias(), bytes)) return false;
  std::memcpy(&first, bytes.data(), sizeof first);
  return is_inside(first - object_.bias());
}

bool ExitSearch::add_computed_jump(size_t piece, const Instruction& jump,
                                   const Instruction& before) {
  const plan::FunctionCode& code = exits_.pieces[piece].code;
  if (has_table(code, jump, before)) {
    has_table_ = true;
    return true;
  }
  // The end of a call uses the stack below the return address.
  if (arch::addresses_below_stack(bytes_of(code, jump))) return false;
  if (!jump.has_rip_operand || object_.imported_at(jump.memory).empty()) has_free_jump_ = true;
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

FunctionParts::FunctionParts(image::Object& object) : have_names_(object.elf().has_symtab()) {
  for (const image::Function& function : object.functions().functions())
    for (const std::string_view name : object.functions().names(function)) {
      if (!image::names_part(name)) continue;
      size_t end = name.npos;
      for (const std::string_view mark : kPartMarks) end = std::min(end, name.rfind(mark));
      if (end != name.npos) parts_.emplace(name.substr(0, end), &function);
    }
  have_names_ = have_names_ || !parts_.empty();
}

std::vector<const image::Function*> FunctionParts::of(std::string_view name) const {
  std::vector<const image::Function*> all;
  const auto [first, end] = parts_.equal_range(name);
  for (auto one = first; one != end; ++one) all.push_back(one->second);
  return all;
}

std::optional<Exits> find_exits(image::Object& object, const image::Function& function,
                                const plan::FunctionCode& code, const FunctionParts& parts) {
  return ExitSearch(object, function, code, parts).run();
}

}  // namespace pinprick::placement
