#include "image/elf/frame_rows.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "arch/elf.h"
#include "base/bytes.h"
#include "base/task.h"
#include "image/elf/frame_entries.h"

namespace pinprick::image {
namespace {

// DWARF register numbers.
constexpr uint64_t kFramePointer = 6;
constexpr uint64_t kStackPointer = arch::kDwarfStackPointer;
constexpr uint64_t kReturnAddress = arch::kDwarfReturnAddress;

// Where the interrupted code's registers are in a ucontext, to which the stack pointer of a
// signal's frame points.
constexpr int64_t kSavedFramePointer = 120;
constexpr int64_t kSavedStackPointer = 160;
constexpr int64_t kSavedInstructionPointer = 168;

// Operations of DWARF expressions.
enum Operation : uint8_t {
  kDeref = 0x06,
  kConst1u = 0x08,
  kConst1s = 0x09,
  kConst2u = 0x0a,
  kConst2s = 0x0b,
  kConst4u = 0x0c,
  kConst4s = 0x0d,
  kConst8u = 0x0e,
  kConst8s = 0x0f,
  kConstU = 0x10,
  kConstS = 0x11,
  kAnd = 0x1a,
  kPlus = 0x22,
  kPlusConst = 0x23,
  kShiftLeft = 0x24,
  kGreaterOrEqual = 0x2a,
  kLiteral0 = 0x30,
  kLiteral31 = 0x4f,
  kRegister0 = 0x70,  // "breg": a register plus an offset
  kRegister31 = 0x8f,
};

// How the CFA is computed.
struct CfaRule {
  enum Kind : uint8_t {
    kOther,
    kRegisterPlus,  // reg + offset
    kLoadedPlus,    // *(reg + offset) + plus
    kPltEntry,      // the stack pointer + offset, and 8 more from the byte `plus` of 16
  };
  Kind kind = kOther;
  uint64_t reg = 0;
  int64_t offset = 0;
  int64_t plus = 0;
};

// Where the caller's value of a register is.
struct RegisterRule {
  enum Kind : uint8_t {
    kSame,  // also if nothing is said
    kUndefined,
    kAtCfaPlus,       // at CFA + offset
    kAtRegisterPlus,  // at reg + offset
    kElsewhere,
  };
  Kind kind = kSame;
  uint64_t reg = 0;
  int64_t offset = 0;

  bool is(Kind wanted, int64_t wanted_offset) const {
    return kind == wanted && offset == wanted_offset;
  }
  bool is_at(uint64_t wanted_reg, int64_t wanted_offset) const {
    return is(kAtRegisterPlus, wanted_offset) && reg == wanted_reg;
  }
};

// All that call frame instructions say about an instruction of the code.
struct FrameState {
  CfaRule cfa;
  RegisterRule frame_pointer;
  RegisterRule return_address;
};

// --- Expressions

// Reads an expression part by part. A part other than the expected one clears ok().
class ExpressionReader {
 public:
  explicit ExpressionReader(std::span<const uint8_t> bytes) : reader_(bytes) {}

  bool ok() const { return ok_ && reader_.ok(); }
  bool at_end() const { return ok() && reader_.remaining() == 0; }

  ExpressionReader& operation(Operation wanted) {
    if (reader_.u8() != wanted) ok_ = false;
    return *this;
  }

  // A register plus the returned offset.
  int64_t offset_from(uint64_t* reg) {
    const uint8_t op = reader_.u8();
    if (op < kRegister0 || op > kRegister31) ok_ = false;
    *reg = uint64_t{op} - kRegister0;
    return reader_.sleb();
  }

  int64_t constant() {
    const uint8_t op = reader_.u8();
    if (op >= kLiteral0 && op <= kLiteral31) return op - kLiteral0;
    switch (op) {
      case kConst1u:
        return reader_.u8();
      case kConst1s:
        return reader_.read<int8_t>();
      case kConst2u:
        return reader_.u16();
      case kConst2s:
        return reader_.read<int16_t>();
      case kConst4u:
        return reader_.u32();
      case kConst4s:
        return reader_.read<int32_t>();
      case kConst8u:
      case kConst8s:
        return reader_.read<int64_t>();
      case kConstU:
        return static_cast<int64_t>(reader_.uleb());
      case kConstS:
        return reader_.sleb();
      default:
        ok_ = false;
        return 0;
    }
  }

  bool is_next(Operation wanted) const {
    ByteReader ahead = reader_;
    return ahead.u8() == wanted;
  }

  // The number that the expression's end adds to its value.
  int64_t addend() {
    if (reader_.remaining() == 0) return 0;
    if (is_next(kPlusConst)) {
      reader_.u8();
      return static_cast<int64_t>(reader_.uleb());
    }
    const int64_t value = constant();
    operation(kPlus);
    return value;
  }

 private:
  ByteReader reader_;
  bool ok_ = true;
};

CfaRule parse_cfa(std::span<const uint8_t> bytes) {
  ExpressionReader expression(bytes);
  CfaRule cfa;
  cfa.offset = expression.offset_from(&cfa.reg);
  if (expression.is_next(kDeref)) {
    cfa.kind = CfaRule::kLoadedPlus;
    cfa.plus = expression.operation(kDeref).addend();
    return expression.at_end() ? cfa : CfaRule();
  }
  // The linker's expression for .plt, all of whose entries take 16 bytes:
  // rsp + offset + (((rip & 15) >= push) << 3)
  cfa.kind = CfaRule::kPltEntry;
  uint64_t instruction_pointer = 0;
  const int64_t distance = expression.offset_from(&instruction_pointer);
  const int64_t mask = expression.constant();
  expression.operation(kAnd);
  cfa.plus = expression.constant();
  expression.operation(kGreaterOrEqual);
  const int64_t shift = expression.constant();
  expression.operation(kShiftLeft).operation(kPlus);
  const bool is_plt = expression.at_end() && instruction_pointer == kReturnAddress &&
                      distance == 0 && mask == 15 && shift == 3 && cfa.reg == kStackPointer;
  return is_plt ? cfa : CfaRule();
}

RegisterRule parse_location(std::span<const uint8_t> bytes) {
  ExpressionReader expression(bytes);
  RegisterRule rule;
  rule.kind = RegisterRule::kAtRegisterPlus;
  rule.offset = expression.offset_from(&rule.reg);
  if (!expression.at_end()) rule = {.kind = RegisterRule::kElsewhere};
  return rule;
}

// --- Rules as rows have them

constexpr bool is_multiple_of_8(int64_t value) {
  return value % 8 == 0;
}

uint32_t rule_bits(uint32_t kind, uint64_t base) {
  return kind | (base == kFramePointer ? PP_FRAME_BY_RBP : 0);
}

// Returns the field `saved` of a NORMAL rule.
uint32_t saved_frame_pointer(const CfaRule& cfa, const RegisterRule& rule) {
  if (rule.kind == RegisterRule::kSame) return 0;
  // At the last instruction of a function that has aligned its stack, the rule is an old one, too.
  if (cfa.reg == kStackPointer && cfa.offset == 8 && rule.is_at(kFramePointer, 0)) return 0;
  if (rule.kind != RegisterRule::kAtCfaPlus || !is_multiple_of_8(rule.offset) || rule.offset > -16)
    return PP_FRAME_RBP_LOST;
  // Nothing is saved below the stack pointer: the register was popped already. gcc's epilogues keep
  // the old rule.
  if (cfa.reg == kStackPointer && rule.offset < -cfa.offset) return 0;
  const int64_t slot = rule.offset / -8;
  return slot < PP_FRAME_RBP_LOST ? static_cast<uint32_t>(slot) : PP_FRAME_RBP_LOST;
}

// Returns A / 8 for a CFA of rsp or rbp + A; 0 if no rule has that.
uint32_t frame_size(const CfaRule& cfa) {
  constexpr int64_t kMost = (int64_t{1} << (32 - PP_FRAME_SIZE_SHIFT)) - 1;
  if (cfa.offset <= 0 || !is_multiple_of_8(cfa.offset) || cfa.offset / 8 > kMost) return 0;
  return static_cast<uint32_t>(cfa.offset / 8);
}

// Returns the field `saved` of a LOADED rule; PP_FRAME_RBP_LOST if none says where rbp is.
uint32_t loaded_frame_pointer(const RegisterRule& rule) {
  if (rule.kind == RegisterRule::kSame) return 0;
  if (rule.kind != RegisterRule::kAtCfaPlus || !is_multiple_of_8(rule.offset) ||
      rule.offset > -16 || rule.offset <= int64_t{-8} * PP_FRAME_RBP_LOST)
    return PP_FRAME_RBP_LOST;
  return static_cast<uint32_t>(rule.offset / -8);
}

uint32_t loaded_rule(const CfaRule& cfa, const RegisterRule& frame_pointer) {
  constexpr int64_t kLeastAt = int64_t{-8} * PP_FRAME_AT_BIAS;
  constexpr int64_t kMostAt = int64_t{8} * (PP_FRAME_AT_MASK - PP_FRAME_AT_BIAS);
  constexpr int64_t kMostPlus = int64_t{8} * PP_FRAME_PLUS_MASK;
  if (cfa.offset < kLeastAt || cfa.offset > kMostAt || !is_multiple_of_8(cfa.offset) ||
      cfa.plus < 0 || cfa.plus > kMostPlus || !is_multiple_of_8(cfa.plus))
    return PP_FRAME_UNKNOWN;
  uint32_t rule = rule_bits(PP_FRAME_LOADED, cfa.reg);
  if (frame_pointer.is_at(kFramePointer, 0))
    rule |= PP_FRAME_RBP_AT_RBP;
  else if (const uint32_t saved = loaded_frame_pointer(frame_pointer); saved != PP_FRAME_RBP_LOST)
    rule |= saved << PP_FRAME_LOADED_SAVED_SHIFT;
  else
    return PP_FRAME_UNKNOWN;
  rule |= static_cast<uint32_t>(cfa.offset / 8 + PP_FRAME_AT_BIAS) << PP_FRAME_AT_SHIFT;
  rule |= static_cast<uint32_t>(cfa.plus / 8) << PP_FRAME_PLUS_SHIFT;
  return rule;
}

// Returns FrameRow::rule for a state of a frame that is not a signal's.
uint32_t call_rule(const FrameState& state) {
  const CfaRule& cfa = state.cfa;
  if (state.return_address.kind == RegisterRule::kUndefined) return PP_FRAME_END;
  if (!state.return_address.is(RegisterRule::kAtCfaPlus, -8)) return PP_FRAME_UNKNOWN;
  if (cfa.reg != kStackPointer && cfa.reg != kFramePointer) return PP_FRAME_UNKNOWN;
  switch (cfa.kind) {
    case CfaRule::kRegisterPlus:
      if (frame_size(cfa) == 0) return PP_FRAME_UNKNOWN;
      return rule_bits(PP_FRAME_NORMAL, cfa.reg) |
             saved_frame_pointer(cfa, state.frame_pointer) << PP_FRAME_SAVED_SHIFT |
             frame_size(cfa) << PP_FRAME_SIZE_SHIFT;
    case CfaRule::kPltEntry:
      if (frame_size(cfa) == 0 || state.frame_pointer.kind != RegisterRule::kSame || cfa.plus < 0 ||
          cfa.plus > PP_FRAME_PUSH_MASK)
        return PP_FRAME_UNKNOWN;
      return PP_FRAME_PLT | static_cast<uint32_t>(cfa.plus) << PP_FRAME_PUSH_SHIFT |
             frame_size(cfa) << PP_FRAME_SIZE_SHIFT;
    case CfaRule::kLoadedPlus:
      return loaded_rule(cfa, state.frame_pointer);
    case CfaRule::kOther:
      break;
  }
  return PP_FRAME_UNKNOWN;
}

uint32_t signal_rule(const FrameState& state) {
  const CfaRule& cfa = state.cfa;
  const bool is_usual = cfa.kind == CfaRule::kLoadedPlus && cfa.reg == kStackPointer &&
                        cfa.offset == kSavedStackPointer && cfa.plus == 0 &&
                        state.frame_pointer.is_at(kStackPointer, kSavedFramePointer) &&
                        state.return_address.is_at(kStackPointer, kSavedInstructionPointer);
  return is_usual ? PP_FRAME_SIGNAL : PP_FRAME_UNKNOWN;
}

uint32_t rule_of(const FrameState& state, const CommonFrameEntry& common) {
  if (common.return_address_register != kReturnAddress) return PP_FRAME_UNKNOWN;
  return common.is_signal_frame ? signal_rule(state) : call_rule(state);
}

// --- Rows

class RowList {
 public:
  explicit RowList(Range code) : code_(code), end_(code.begin) {}

  // Appends a rule for part of the code. Addresses outside the code are ignored, and so are those
  // before end(); a gap after end() becomes UNKNOWN.
  void append(Range range, uint32_t rule) {
    range = {std::max(range.begin, end_), std::min(range.end, code_.end)};
    if (range.empty()) return;
    if (range.begin > end_) append_row(end_, PP_FRAME_UNKNOWN);
    append_row(range.begin, rule);
    end_ = range.end;
  }

  std::vector<layout::FrameRow> finish() {
    if (end_ < code_.end) append_row(end_, PP_FRAME_UNKNOWN);
    if (rows_.size() == 1 && rows_[0].rule == PP_FRAME_UNKNOWN) rows_.clear();
    return std::move(rows_);
  }

  Address end() const { return end_; }

 private:
  void append_row(Address from, uint32_t rule) {
    if (!rows_.empty() && rows_.back().rule == rule) return;
    rows_.push_back({static_cast<uint32_t>(from - code_.begin), rule});
  }

  Range code_;
  Address end_;  // of what the rows cover
  std::vector<layout::FrameRow> rows_;
};

// --- Call frame instructions

constexpr size_t kMostRemembered = 64;

// Interprets the call frame instructions of a CIE, or of an FDE after those of its CIE.
class Interpreter {
 public:
  // `initial`: the state after the CIE's instructions; null for the CIE itself.
  Interpreter(const CommonFrameEntry& common, Address section, const FrameState* initial)
      : common_(common), section_(section), initial_(initial) {}

  // Returns the state after a CIE's instructions; nullopt if they do not parse.
  std::optional<FrameState> run_common() {
    ByteReader reader = common_.instructions;
    while (reader.remaining() > 0)
      if (!step(reader) || location_ != 0) return std::nullopt;
    return state_;
  }

  // Appends the rows of an FDE. From the location at which an instruction does not parse, they are
  // UNKNOWN.
  void run(const CodeFrameEntry& entry, RowList& rows) {
    state_ = *initial_;
    remembered_.clear();
    location_ = entry.code.begin;
    ByteReader reader = entry.instructions;
    while (reader.remaining() > 0) {
      const Address before = location_;
      // Instructions that advance do nothing else.
      if (!step(reader) || location_ < before)
        return rows.append({before, entry.code.end}, PP_FRAME_UNKNOWN);
      if (location_ == before) continue;
      rows.append({before, std::min(location_, entry.code.end)}, rule_of(state_, common_));
      if (location_ >= entry.code.end) return;
    }
    rows.append({location_, entry.code.end}, rule_of(state_, common_));
  }

 private:
  // Interprets an instruction. Returns false if it does not parse.
  bool step(ByteReader& reader) {
    const uint8_t op = reader.u8();
    const uint8_t low = op & 0x3f;
    bool ok = true;
    switch (op & 0xc0) {
      case 0x40:
        ok = advance(low);
        break;
      case 0x80:
        ok = set_offset(low, unsigned_factored(reader));
        break;
      case 0xc0:
        ok = restore(low);
        break;
      default:
        ok = step_extended(low, reader);
    }
    return ok && reader.ok();
  }

  bool step_extended(uint8_t op, ByteReader& reader) {
    switch (op) {
      case 0x00:  // nop
        return true;
      case 0x01:  // set_loc
        if (initial_ == nullptr) return false;
        location_ = read_encoded_pointer(reader, common_.pointer_encoding, section_);
        return true;
      case 0x02:  // advance_loc1
        return advance(reader.u8());
      case 0x03:  // advance_loc2
        return advance(reader.u16());
      case 0x04:  // advance_loc4
        return advance(reader.u32());
      case 0x0a:  // remember_state
        if (remembered_.size() == kMostRemembered) return false;
        remembered_.push_back(state_);
        return true;
      case 0x0b:  // restore_state
        if (remembered_.empty()) return false;
        state_ = remembered_.back();
        remembered_.pop_back();
        return true;
      case 0x0c:    // def_cfa
      case 0x12: {  // def_cfa_sf
        const uint64_t reg = reader.uleb();
        return set_cfa(reg, op == 0x0c ? unsigned_plain(reader) : signed_factored(reader));
      }
      case 0x0d:  // def_cfa_register
        state_.cfa.reg = reader.uleb();
        return state_.cfa.kind == CfaRule::kRegisterPlus;
      case 0x0e:  // def_cfa_offset
        return state_.cfa.kind == CfaRule::kRegisterPlus &&
               set_cfa(state_.cfa.reg, unsigned_plain(reader));
      case 0x13:  // def_cfa_offset_sf
        return state_.cfa.kind == CfaRule::kRegisterPlus &&
               set_cfa(state_.cfa.reg, signed_factored(reader));
      case 0x0f:  // def_cfa_expression
        state_.cfa = parse_cfa(reader.take(reader.uleb()));
        return true;
      case 0x2e:  // GNU_args_size
        reader.uleb();
        return true;
      default:
        return step_register(op, reader);
    }
  }

  // The instructions whose first operand is the register that they are about.
  bool step_register(uint8_t op, ByteReader& reader) {
    const uint64_t reg = reader.uleb();
    switch (op) {
      case 0x05:  // offset_extended
        return set_offset(reg, unsigned_factored(reader));
      case 0x06:  // restore_extended
        return restore(reg);
      case 0x07:  // undefined
        return set_rule(reg, {.kind = RegisterRule::kUndefined});
      case 0x08:  // same_value
        return set_rule(reg, {.kind = RegisterRule::kSame});
      case 0x09:  // register
      case 0x14:  // val_offset
        reader.uleb();
        return set_rule(reg, {.kind = RegisterRule::kElsewhere});
      case 0x10:  // expression
        return set_rule(reg, parse_location(reader.take(reader.uleb())));
      case 0x11:  // offset_extended_sf
        return set_offset(reg, signed_factored(reader));
      case 0x15:  // val_offset_sf
        reader.sleb();
        return set_rule(reg, {.kind = RegisterRule::kElsewhere});
      case 0x16:  // val_expression
        reader.skip(reader.uleb());
        return set_rule(reg, {.kind = RegisterRule::kElsewhere});
      case 0x2f: {  // GNU_negative_offset_extended
        const auto offset = unsigned_factored(reader);
        if (!offset || *offset == INT64_MIN) return false;
        return set_offset(reg, -*offset);
      }
      default:
        return false;
    }
  }

  bool advance(uint64_t delta) {
    return !__builtin_mul_overflow(delta, common_.code_alignment, &delta) &&
           !__builtin_add_overflow(location_, delta, &location_);
  }

  static std::optional<int64_t> unsigned_plain(ByteReader& reader) {
    const uint64_t value = reader.uleb();
    if (value > INT64_MAX) return std::nullopt;
    return static_cast<int64_t>(value);
  }

  template <class Number>
  std::optional<int64_t> factored(Number value) const {
    int64_t product = 0;
    if (__builtin_mul_overflow(value, common_.data_alignment, &product)) return std::nullopt;
    return product;
  }
  std::optional<int64_t> unsigned_factored(ByteReader& reader) const {
    return factored(reader.uleb());
  }
  std::optional<int64_t> signed_factored(ByteReader& reader) const {
    return factored(reader.sleb());
  }

  bool set_cfa(uint64_t reg, std::optional<int64_t> offset) {
    if (!offset) return false;
    state_.cfa = {.kind = CfaRule::kRegisterPlus, .reg = reg, .offset = *offset};
    return true;
  }

  bool set_rule(uint64_t reg, const RegisterRule& rule) {
    if (reg == kFramePointer) state_.frame_pointer = rule;
    if (reg == kReturnAddress) state_.return_address = rule;
    return true;
  }

  bool set_offset(uint64_t reg, std::optional<int64_t> offset) {
    if (!offset) return false;
    return set_rule(reg, {.kind = RegisterRule::kAtCfaPlus, .offset = *offset});
  }

  bool restore(uint64_t reg) {
    if (initial_ == nullptr) return false;
    if (reg == kFramePointer) state_.frame_pointer = initial_->frame_pointer;
    if (reg == kReturnAddress) state_.return_address = initial_->return_address;
    return true;
  }

  const CommonFrameEntry& common_;
  Address section_;
  const FrameState* initial_;
  FrameState state_;
  Address location_ = 0;
  std::vector<FrameState> remembered_;
};

}  // namespace

std::vector<layout::FrameRow> frame_rows(std::span<const uint8_t> bytes, Address address,
                                         Range code) {
  if (code.empty() || code.size() > UINT32_MAX) return {};
  std::vector<CodeFrameEntry> entries;
  FrameEntryReader reader(bytes, address);
  while (const auto entry = reader.next())
    if (entry->code.overlaps(code)) entries.push_back(*entry);
  std::stable_sort(
      entries.begin(), entries.end(),
      [](const CodeFrameEntry& a, const CodeFrameEntry& b) { return a.code.begin < b.code.begin; });

  std::vector<std::optional<FrameState>> initial;
  for (const CommonFrameEntry& common : reader.commons())
    initial.push_back(Interpreter(common, address, nullptr).run_common());
  RowList rows(code);
  for (const CodeFrameEntry& entry : entries) {
    check_cancelled();
    if (entry.code.end <= rows.end()) continue;
    if (const auto& state = initial[entry.common])
      Interpreter(reader.commons()[entry.common], address, &*state).run(entry, rows);
    else
      rows.append(entry.code, PP_FRAME_UNKNOWN);
  }
  return rows.finish();
}

}  // namespace pinprick::image
