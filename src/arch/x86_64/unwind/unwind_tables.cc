#include "arch/unwind_tables.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>
#include <string_view>

#include "arch/elf.h"
#include "arch/jump.h"
#include "layout/runtime_offsets.h"

namespace pinprick::arch {
namespace {

// DWARF, as far as it is used here.
constexpr uint8_t kCfaNop = 0, kCfaAdvance1 = 0x02, kCfaAdvance2 = 0x03, kCfaAdvance4 = 0x04,
                  kCfaUndefined = 0x07, kCfaSameValue = 0x08, kCfaDefinition = 0x0c,
                  kCfaDefinitionByExpression = 0x0f, kCfaDefinitionSigned = 0x12,
                  kCfaValueExpression = 0x16, kCfaOffset = 0x80;
constexpr uint8_t kOpDeref = 0x06, kOpConst1u = 0x08, kOpConst8u = 0x0e, kOpConstu = 0x10,
                  kOpDup = 0x12, kOpDrop = 0x13, kOpOver = 0x14, kOpPick = 0x15, kOpSwap = 0x16,
                  kOpRot = 0x17, kOpAnd = 0x1a, kOpMinus = 0x1c, kOpMul = 0x1e, kOpPlus = 0x22,
                  kOpPlusConstant = 0x23, kOpShl = 0x24, kOpShr = 0x25, kOpShra = 0x26,
                  kOpBranch = 0x28, kOpEqual = 0x29, kOpAtLeast = 0x2a, kOpGreater = 0x2b,
                  kOpAtMost = 0x2c, kOpSkip = 0x2f, kOpLiteral0 = 0x30, kOpRegister0 = 0x70,
                  kOpDerefSize = 0x94;
constexpr uint8_t kRax = 0, kRdx = 1, kRcx = 2, kRbx = 3, kRsi = 4, kRdi = 5, kRbp = 6,
                  kStackPointer = kDwarfStackPointer, kR12 = 12,
                  kReturnAddress = kDwarfReturnAddress;
// Pointer encodings.
constexpr uint8_t kAbsolute = 0, kUnsigned4 = 0x03, kSigned8FromHeader = 0x3c;
constexpr uint8_t kMinusOne = 0x7f;

// A DWARF expression: a program for an unwinder's stack machine.
class FrameExpression {
 public:
  FrameExpression& op(uint8_t value) {
    bytes_.push_back(value);
    return *this;
  }
  FrameExpression& literal(uint8_t value) {
    assert(value < 32);
    return op(kOpLiteral0 + value);
  }
  FrameExpression& byte(uint8_t value) { return op(kOpConst1u).op(value); }
  FrameExpression& word(uint64_t value) {
    op(kOpConst8u);
    for (int i = 0; i < 8; ++i) op(static_cast<uint8_t>(value >> 8 * i));
    return *this;
  }
  FrameExpression& number(uint32_t value) { return op(kOpConstu).unsigned_number(value); }
  // += value
  FrameExpression& plus(uint32_t value) { return op(kOpPlusConstant).unsigned_number(value); }
  // register + offset
  FrameExpression& reg(uint8_t number, int8_t offset = 0) {
    op(kOpRegister0 + number);
    const auto low = static_cast<uint8_t>(offset & 0x7f);
    if (offset >= -64 && offset < 64) return op(low);
    return op(low | 0x80).op(offset < 0 ? 0x7f : 0);
  }
  FrameExpression& pick(uint8_t depth) { return op(kOpPick).op(depth); }
  FrameExpression& deref() { return op(kOpDeref); }
  FrameExpression& deref(uint8_t bytes) { return op(kOpDerefSize).op(bytes); }

  size_t here() const { return bytes_.size(); }
  // Emits a branch, or a jump, to a later operation; land() sets its target.
  size_t forward(uint8_t operation) {
    op(operation).op(0).op(0);
    return here();
  }
  void land(size_t branch) { put_distance(branch, here()); }
  void jump_back(size_t to) { put_distance(forward(kOpSkip), to); }

  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  FrameExpression& unsigned_number(uint32_t value) {
    for (; value >= 0x80; value >>= 7) op(static_cast<uint8_t>(value | 0x80));
    return op(static_cast<uint8_t>(value));
  }
  void put_distance(size_t from, size_t to) {
    const auto distance = static_cast<int16_t>(static_cast<ptrdiff_t>(to - from));
    std::memcpy(bytes_.data() + from - sizeof distance, &distance, sizeof distance);
  }

  std::vector<uint8_t> bytes_;
};

void unsigned_number(Assembler& at, uint64_t value) {
  for (; value >= 0x80; value >>= 7) at.u8(static_cast<uint8_t>(value | 0x80));
  at.u8(static_cast<uint8_t>(value));
}

void put(Assembler& at, const FrameExpression& expression) {
  unsigned_number(at, expression.bytes().size());
  at.raw(expression.bytes());
}

void return_address_is(Assembler& at, const FrameExpression& expression) {
  at.u8(kCfaValueExpression);
  at.u8(kReturnAddress);
  put(at, expression);
}

void stack_before_is(Assembler& at, const FrameExpression& expression) {
  at.u8(kCfaDefinitionByExpression);
  put(at, expression);
}

// Emits the length of what `fill` emits, then that, then padding.
template <class F>
void emit_entry(Assembler& code, F&& fill) {
  Assembler inner(code.here() + 4);
  fill(inner);
  inner.align(8, kCfaNop);
  const auto bytes = inner.finish();
  code.u32(static_cast<uint32_t>(bytes->size()));
  code.raw(*bytes);
}

// Why a frame's caller is suspended.
enum class CameBy : bool { call, signal };

// Emits a CIE whose default is that the stack pointer is unchanged. Returns its address.
Address emit_cie(Assembler& code, Address personality, std::initializer_list<uint8_t> not_kept,
                 CameBy came_by = CameBy::call) {
  const Address begin = code.here();
  emit_entry(code, [&](Assembler& at) {
    at.u32(0);  // a CIE
    at.u8(1);   // version
    const std::string_view letters = personality != 0            ? "zPR"
                                     : came_by == CameBy::signal ? "zRS"
                                                                 : "zR";
    for (char c : letters) at.u8(static_cast<uint8_t>(c));
    at.u8(0);
    at.u8(1);          // alignment of code
    at.u8(kMinusOne);  // of data
    at.u8(kReturnAddress);
    // Size and contents of what the letters announce.
    at.u8(personality != 0 ? 10 : 1);
    if (personality != 0) {
      at.u8(kAbsolute);
      at.u64(personality);
    }
    at.u8(kAbsolute);
    at.u8(kCfaDefinition);
    at.u8(kStackPointer);
    at.u8(0);
    for (uint8_t one : not_kept) {
      at.u8(kCfaUndefined);
      at.u8(one);
    }
  });
  return begin;
}

template <class F>
Address emit_fde(Assembler& code, Address cie, Range range, F&& rules) {
  const Address begin = code.here();
  emit_entry(code, [&](Assembler& at) {
    at.u32(static_cast<uint32_t>(at.here() - cie));
    at.u64(range.begin);
    at.u64(range.size());
    at.u8(0);
    rules(at);
  });
  return begin;
}

// Finds the slot whose code contains the address on the expression's stack.
void find_slot(FrameExpression& at, const SlotFrames& slots) {
  at.word(slots.code.begin).op(kOpMinus);
  at.literal(PP_SLOT_CODE_SIZE_LOG2).op(kOpShr).literal(PP_SLOT_SIZE_LOG2).op(kOpShl);
  at.word(slots.slots).op(kOpPlus);
}

// Added to the address of the program's next instruction: unwinders look up the instruction before
// the address, as for a return address.
constexpr uint8_t kAsIfCalled = 1;

// A slot's code: call; push the return address; push %rax; lea; jmp. Before the call the function
// has not been entered yet, and its return address is where the call will put another one.
void slot_rules(Assembler& at, const SlotFrames& slots, CameBy came_by = CameBy::call) {
  constexpr uint8_t kMask = (1 << PP_SLOT_CODE_SIZE_LOG2) - 1;
  constexpr uint8_t kReturned = PP_SLOT_CODE_RETURN, kPushed = 12, kPushedRax = 13;
  FrameExpression stack;
  stack.reg(kReturnAddress).word(slots.code.begin).op(kOpMinus).literal(kMask).op(kOpAnd);
  const bool has_site = slots.site_in_record != SlotFrames::kNoSite;
  stack.op(kOpDup).literal(has_site ? kReturned : 0).op(kOpAtLeast);
  stack.op(kOpOver).literal(kPushed).op(kOpAtLeast).op(kOpPlus);
  stack.op(kOpSwap).literal(kPushedRax).op(kOpAtLeast).op(kOpPlus);
  stack.literal(1).op(kOpMinus).literal(3).op(kOpShl).reg(kStackPointer).op(kOpPlus);
  stack_before_is(at, stack);

  FrameExpression address;
  address.reg(kReturnAddress);
  find_slot(address, slots);
  if (has_site) {
    address.reg(kReturnAddress).word(slots.code.begin).op(kOpMinus).literal(kMask).op(kOpAnd);
    const size_t after = address.forward(kOpBranch);
    address.plus(PP_SLOT_RECORD).deref().plus(slots.site_in_record).deref().plus(kAsIfCalled);
    const size_t end = address.forward(kOpSkip);
    address.land(after);
    address.plus(PP_SLOT_RETURN_ADDRESS).deref();
    address.land(end);
  } else {
    address.plus(PP_SLOT_RETURN_ADDRESS).deref();
  }
  if (came_by == CameBy::signal) {
    // A function that ended in a tail call has its own slot in between: with the same stack pointer
    // again, and nothing else to find there. The caller has not.
    const size_t again = address.here();
    address.op(kOpDup).word(slots.code.begin).op(kOpAtLeast);
    address.op(kOpOver).word(slots.code.end - 1).op(kOpAtMost).op(kOpAnd);
    const size_t is_slot = address.forward(kOpBranch);
    const size_t end = address.forward(kOpSkip);
    address.land(is_slot);
    find_slot(address, slots);
    address.plus(PP_SLOT_RETURN_ADDRESS).deref();
    address.jump_back(again);
    address.land(end);
    address.literal(kAsIfCalled).op(kOpMinus);
  }
  return_address_is(at, address);
}

// --- Shared routines

void advance_location(Assembler& at, uint64_t distance) {
  if (distance <= UINT8_MAX) {
    at.u8(kCfaAdvance1);
    at.u8(static_cast<uint8_t>(distance));
  } else if (distance <= UINT16_MAX) {
    at.u8(kCfaAdvance2);
    at.u8(static_cast<uint8_t>(distance));
    at.u8(static_cast<uint8_t>(distance >> 8));
  } else {
    at.u8(kCfaAdvance4);
    at.u32(static_cast<uint32_t>(distance));
  }
}

void caller_of(Assembler& at, const CodeRow& row, const SlotFrames& slots) {
  using Caller = CodeRow::Caller;
  FrameExpression address;
  switch (row.caller) {
    case Caller::nowhere:
      at.u8(kCfaUndefined);
      at.u8(kReturnAddress);
      return;
    case Caller::returned_to:
    case Caller::returned_to_with_rbp:
      at.u8(kCfaOffset | kReturnAddress);
      at.u8(8);
      return;
    case Caller::inside_call:  // the return address on its stack is the end of the frame
      address.literal(8).op(kOpMinus).deref().literal(1).op(kOpMinus);
      break;
    case Caller::slot_in_rdx:
      address.reg(kRdx, PP_SLOT_RETURN_ADDRESS).deref();
      break;
    case Caller::record_in_rax:
      address.reg(kRax, PP_RECORD_SITE).deref().plus(kAsIfCalled);
      break;
    case Caller::record_in_rdx:
      address.reg(kRdx, PP_RECORD_SITE).deref().plus(kAsIfCalled);
      break;
    case Caller::record_on_stack:
      address.reg(kStackPointer, row.argument).deref();
      address.plus(PP_RECORD_SITE).deref().plus(kAsIfCalled);
      break;
    case Caller::slot_code_on_stack:
      address.reg(kStackPointer, row.argument).deref();
      find_slot(address, slots);
      address.plus(PP_SLOT_RECORD).deref().plus(PP_RECORD_SITE).deref().plus(kAsIfCalled);
      break;
  }
  return_address_is(at, address);
}

void code_rules(Assembler& at, const std::vector<CodeRow>& rows, const SlotFrames& slots) {
  struct Kept {
    uint8_t number;
    CodeRow::Saved when;
    uint8_t word;
  };
  constexpr Kept kKept[] = {{kRbx, CodeRow::rbx_second, 2},
                            {kRbx, CodeRow::rbx_third, 3},
                            {kRbp, CodeRow::rbp_second, 2},
                            {kRbp, CodeRow::rbp_third, 3},
                            {kR12, CodeRow::r12_fourth, 4}};
  uint8_t saved = 0;
  for (size_t i = 0; i + 1 < rows.size(); ++i) {
    const CodeRow& row = rows[i];
    if (i != 0) advance_location(at, row.from - rows[i - 1].from);
    at.u8(kCfaDefinitionSigned);
    at.u8(row.caller == CodeRow::Caller::returned_to_with_rbp ? kRbp : kStackPointer);
    // DWARF's signed numbers are in units of -1 here.
    const auto units = -row.words * 8;
    at.u8(static_cast<uint8_t>(units & 0x7f) | (units < -64 || units >= 64 ? 0x80 : 0));
    if (units < -64 || units >= 64) at.u8(static_cast<uint8_t>(units >> 7) & 0x7f);
    caller_of(at, row, slots);
    for (const Kept& kept : kKept)
      if ((saved & ~row.saved & kept.when) != 0) {
        at.u8(kCfaSameValue);
        at.u8(kept.number);
      }
    for (const Kept& kept : kKept)
      if ((row.saved & kept.when) != 0) {
        at.u8(kCfaOffset | kept.number);
        at.u8(kept.word * 8);
      }
    saved = row.saved;
  }
}

// --- Stubs

// A shape starts with the stub's size (2 bytes) and the offset of the continuation's distance (2).
// Then come rows: the offset at which the row ends (2), how far the end of the program's
// instruction lies before the end of the first byte after the displaced instructions (1), and the
// words on the stack plus a bias (1).
//
// An unwinder looks up the byte before the address that it is given. Nearly any byte of the
// instruction will do. The last byte is never a trampoline's, unless the instruction has no other.
constexpr uint8_t kBackNowhere = 0xff;
// The last of the words on the stack is a return address.
constexpr uint8_t kBackCalled = 0xfe;
constexpr uint8_t kWordsBias = 8;
constexpr uint16_t kLastEnd = 0xffff;
constexpr size_t kShapeUnit = 8;
constexpr size_t kMostShapes = 0xf000;  // above, there is room for all shapes that say nothing
constexpr uint8_t kGroupLog2 = std::countr_zero(StubTables::kGroup);

template <class T>
void append(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

void append_row(std::string& to, uint64_t end, uint8_t back, uint8_t words) {
  append(to, uint32_t{static_cast<uint16_t>(end)} | uint32_t{back} << 16 | uint32_t{words} << 24);
}

std::string unknown_shape(uint64_t room) {
  std::string shape;
  append(shape, static_cast<uint16_t>(room));
  append(shape, uint16_t{0});
  append_row(shape, kLastEnd, kBackNowhere, kWordsBias);
  return shape;
}

// Leaves on the stack: the offset of the address in its stub, the stub's shape, and the row for
// that offset.
void find_stub(FrameExpression& at, const StubTables& tables) {
  at.reg(kReturnAddress).word(tables.begin).op(kOpMinus);  // offset
  // The last group that starts at or before it.
  at.literal(0);
  for (uint32_t step = tables.groups / 2; step != 0; step /= 2) {
    at.op(kOpDup).number(step).op(kOpPlus).literal(2).op(kOpShl);
    at.word(tables.group_starts).op(kOpPlus).deref(4);
    at.pick(2).op(kOpAtMost).number(step).op(kOpMul).op(kOpPlus);
  }  // offset, group
  at.op(kOpDup).literal(2).op(kOpShl).word(tables.group_starts).op(kOpPlus).deref(4);
  at.op(kOpSwap).literal(kGroupLog2 + 1).op(kOpShl).word(tables.shape_numbers).op(kOpPlus);
  at.op(kOpRot).op(kOpMinus);  // index in shape_numbers, offset in group
  const size_t again = at.here();
  at.op(kOpOver).deref(2).literal(std::countr_zero(kShapeUnit)).op(kOpShl);
  at.word(tables.shapes).op(kOpPlus);  // ..., shape
  at.op(kOpDup).deref(2).pick(2).op(kOpGreater);
  const size_t found = at.forward(kOpBranch);
  at.deref(2).op(kOpMinus).op(kOpSwap).plus(2).op(kOpSwap);
  at.jump_back(again);
  at.land(found);
  at.op(kOpDup).plus(4);  // index, offset in stub, shape, row
  const size_t next = at.here();
  at.op(kOpDup).deref(2).pick(3).op(kOpGreater);
  const size_t here = at.forward(kOpBranch);
  at.plus(4);
  at.jump_back(next);
  at.land(here);
}

void stub_rules(Assembler& at, const StubTables& tables) {
  FrameExpression stack;
  find_stub(stack, tables);
  stack.plus(3).deref(1).literal(kWordsBias).op(kOpMinus).literal(3).op(kOpShl);
  stack.reg(kStackPointer).op(kOpPlus);
  stack_before_is(at, stack);

  FrameExpression address;
  find_stub(address, tables);
  address.plus(2).deref(1);  // the stack before, index, offset in stub, shape, back
  address.op(kOpDup).byte(kBackNowhere).op(kOpEqual);
  const size_t nowhere = address.forward(kOpBranch);
  address.op(kOpDup).byte(kBackCalled).op(kOpEqual);
  const size_t called = address.forward(kOpBranch);
  address.op(kOpSwap).plus(2).deref(2);
  address.reg(kReturnAddress).op(kOpPlus).pick(2).op(kOpMinus);  // offset, back, distance's address
  address.op(kOpDup).deref(4).byte(32).op(kOpShl).byte(32).op(kOpShra).op(kOpPlus);
  address.plus(sizeof(int32_t) + kAsIfCalled).op(kOpSwap).op(kOpMinus);
  const size_t end = address.forward(kOpSkip);
  // libgcc does not pick the last entry of its stack.
  address.land(called);
  for (int i = 0; i < 4; ++i) address.op(kOpDrop);
  address.literal(8).op(kOpMinus).deref();
  const size_t end_of_called = address.forward(kOpSkip);
  address.land(nowhere);
  address.literal(0);
  address.land(end);
  address.land(end_of_called);
  return_address_is(at, address);
}

void align(Assembler& code, uint64_t alignment) {
  code.align(alignment, 0);
}

// A condition that divides changes rdx.
constexpr std::initializer_list<uint8_t> kNotKeptInStubs = {kRax, kRdx, kRcx};
constexpr std::initializer_list<uint8_t> kNotKeptInRoutines = {kRax, kRdx, kRcx, kRsi, kRdi};

template <class F>
UnwindTable emit_table(Assembler& code, std::initializer_list<uint8_t> not_kept, Range range,
                       F&& rules) {
  UnwindTable table;
  table.begin = emit_cie(code, 0, not_kept);
  table.fde = emit_fde(code, table.begin, range, rules);
  code.u32(0);  // no more
  return table;
}

void emit_range_header(Assembler& code, Address range_begin, Address entry) {
  const RangeHeader header = range_header(code.here(), range_begin, entry);
  code.raw({reinterpret_cast<const uint8_t*>(&header), sizeof header});
}

}  // namespace

UnwindTable emit_slot_unwind_table(Assembler& code, const SlotFrames& spec, Address personality) {
  UnwindTable table;
  const CameBy came_by = personality != 0 ? CameBy::call : CameBy::signal;
  table.begin = emit_cie(code, personality, {}, came_by);
  table.fde =
      emit_fde(code, table.begin, spec.code, [&](Assembler& at) { slot_rules(at, spec, came_by); });
  code.u32(0);  // no more
  return table;
}

UnwindTable emit_code_unwind_table(Assembler& code, const std::vector<CodeRow>& rows,
                                   const SlotFrames& slots) {
  return emit_table(code, kNotKeptInRoutines, {rows.front().from, rows.back().from},
                    [&](Assembler& at) { code_rules(at, rows, slots); });
}

UnwindTable emit_stub_unwind_table(Assembler& code, Range stubs, const StubTables& tables) {
  return emit_table(code, kNotKeptInStubs, stubs, [&](Assembler& at) { stub_rules(at, tables); });
}

UnwindTable emit_trampoline_unwind_table(Assembler& code, Range chunk) {
  FrameExpression site;
  site.reg(kReturnAddress).plus(kIndirectJumpLength - sizeof(int32_t));
  site.op(kOpDup).deref(4).byte(32).op(kOpShl).byte(32).op(kOpShra).op(kOpPlus);
  site.plus(sizeof(int32_t) + sizeof(Address)).deref().plus(kAsIfCalled);
  return emit_table(code, kNotKeptInStubs, chunk,
                    [&](Assembler& at) { return_address_is(at, site); });
}

RangeHeader range_header(Address at, Address range_begin, Address entry) {
  RangeHeader header = {.encodings = {1, kAbsolute, kUnsigned4, kSigned8FromHeader},
                        .count = {1},
                        .start_distance = range_begin - at,
                        .entry_distance = entry - at};
  std::memcpy(header.entry, &entry, sizeof header.entry);
  return header;
}

Address emit_slot_header(Assembler& code, const SlotFrames& spec, Address personality) {
  code.align(8, 0);
  const Address header = code.here();
  // Sizes do not depend on addresses.
  Assembler entry(header + sizeof(RangeHeader));
  const UnwindTable table = emit_slot_unwind_table(entry, spec, personality);
  emit_range_header(code, spec.code.begin, table.fde);
  code.raw(*entry.finish());
  return header;
}

std::string StubShapes::shape_of(const StubFrames& frames, Address begin, uint64_t room,
                                 std::span<const uint8_t> hidden) {
  const uint64_t continuation = frames.continuation - begin;
  if (frames.continuation == 0 || continuation >= kLastEnd || room >= kLastEnd) return {};
  constexpr size_t kRowSize = 4;
  std::array<uint8_t, 256> length_at{};  // by offset
  for (const StubRow& row : frames.rows)
    length_at[row.offset] = std::max(length_at[row.offset], row.length);
  std::string shape;
  shape.reserve(kRowSize * (frames.rows.size() + 2));
  append(shape, static_cast<uint16_t>(room));
  append(shape, static_cast<uint16_t>(continuation));
  if (frames.rows.empty() || frames.rows.front().from != begin)
    append_row(shape, frames.rows.empty() ? kLastEnd : frames.rows.front().from - begin,
               kBackNowhere, kWordsBias);
  for (size_t i = 0; i < frames.rows.size(); ++i) {
    const StubRow& row = frames.rows[i];
    const uint64_t end =
        i + 1 < frames.rows.size() ? frames.rows[i + 1].from - begin : uint64_t{kLastEnd};
    const int words = row.words + kWordsBias;
    const int length = length_at[row.offset];
    const int back = frames.displaced + 1 - (row.offset + length);
    const auto last_byte = static_cast<uint8_t>(row.offset + length - 1);
    const bool known = row.offset != StubRow::kNowhere && back >= 0 && back < kBackCalled &&
                       std::find(hidden.begin(), hidden.end(), last_byte) == hidden.end();
    if (words < 0 || words > UINT8_MAX) return {};
    append_row(shape, end,
               row.offset == StubRow::kCalled ? kBackCalled
               : known                        ? static_cast<uint8_t>(back)
                                              : kBackNowhere,
               static_cast<uint8_t>(words));
  }
  return shape;
}

uint16_t StubShapes::add(const std::string& shape, uint64_t room) {
  if (const auto known = known_.find(shape); known != known_.end()) return known->second;
  const bool is_known = !shape.empty() && bytes_.size() / kShapeUnit < kMostShapes;
  const auto& wanted = is_known ? shape : unknown_shape(room);
  const auto [entry, is_new] = known_.try_emplace(wanted, 0);
  if (!is_new) return entry->second;
  const size_t number = bytes_.size() / kShapeUnit;
  assert(number <= UINT16_MAX);
  entry->second = static_cast<uint16_t>(number);
  bytes_ += wanted;
  bytes_.resize(align_up(bytes_.size(), kShapeUnit));
  return entry->second;
}

uint16_t StubShapes::of_end() {
  return add({}, kLastEnd);
}

UnwindTablesHeader emit_unwind_tables(Assembler& code, const UnwindSpec& spec) {
  constexpr uint32_t kGroup = StubTables::kGroup;
  struct Entry {
    Range range;
    RangeKind kind = RangeKind::stubs;
    Address fde = 0;
    size_t index = 0;  // in what it is of
  };
  using Kind = RangeKind;
  std::vector<Entry> entries;
  std::vector<StubTables> tables(spec.arenas.size());
  if (!spec.slots.code.empty()) entries.push_back({spec.slots.code, Kind::slots});
  const size_t first_routine = entries.size();
  for (const auto& rows : spec.code)
    entries.push_back({{rows.front().from, rows.back().from}, Kind::stubs});
  const size_t first_arena = entries.size();
  for (const StubArena& arena : spec.arenas)
    entries.push_back({{arena.begin, arena.begin + arena.size}, Kind::stubs});
  const size_t first_board = entries.size();
  for (const Trampoline& board : spec.trampolines)
    entries.push_back({{board.address, board.address + 1}, Kind::trampoline});

  const Address begin = code.here();
  UnwindTablesHeader header;
  header.magic = kUnwindTablesMagic;
  header.range_count = std::bit_ceil(entries.size());
  header.ranges = begin + sizeof header;
  const Address headers = header.ranges + header.range_count * sizeof(CoveredRange);
  const Address kinds = headers + header.range_count * sizeof(RangeHeader);
  header.frames = align_up(kinds + header.range_count * sizeof(RangeKind), 8);

  // The entries contain the addresses of the tables after them, which depend on the sizes of the
  // entries; these sizes do not depend on the addresses. So the entries are emitted twice.
  const auto emit_frames = [&](Assembler& at) {
    const Address stub_cie = emit_cie(at, 0, kNotKeptInStubs);
    const Address routine_cie = emit_cie(at, 0, kNotKeptInRoutines);
    if (first_routine != 0)
      entries[0].fde = emit_fde(at, stub_cie, spec.slots.code,
                                [&](Assembler& rules) { slot_rules(rules, spec.slots); });
    for (size_t i = 0; i < spec.code.size(); ++i) {
      Entry& entry = entries[first_routine + i];
      entry.fde = emit_fde(at, routine_cie, entry.range,
                           [&](Assembler& rules) { code_rules(rules, spec.code[i], spec.slots); });
    }
    for (size_t i = 0; i < spec.arenas.size(); ++i) {
      Entry& entry = entries[first_arena + i];
      entry.fde = emit_fde(at, stub_cie, entry.range,
                           [&](Assembler& rules) { stub_rules(rules, tables[i]); });
    }
    for (size_t i = 0; i < spec.trampolines.size(); ++i) {
      Entry& entry = entries[first_board + i];
      FrameExpression site;
      site.word(spec.trampolines[i].site + kAsIfCalled);
      entry.fde = emit_fde(at, stub_cie, entry.range,
                           [&](Assembler& rules) { return_address_is(rules, site); });
    }
    at.u32(0);
  };
  for (size_t i = 0; i < tables.size(); ++i) {
    const size_t groups = spec.arenas[i].shapes.size() / kGroup + 1;
    tables[i].begin = spec.arenas[i].begin;
    tables[i].groups = static_cast<uint32_t>(std::bit_ceil(groups));
  }
  Assembler trial(header.frames);
  emit_frames(trial);
  header.frames_size = trial.size();
  const auto room_of = [](const StubShapes& shapes, uint16_t number) {
    uint16_t room = 0;
    std::memcpy(&room, shapes.bytes().data() + number * kShapeUnit, sizeof room);
    return room;
  };
  Address at = align_up(header.frames + header.frames_size, 8);
  for (StubTables& one : tables) {
    one.group_starts = at;
    one.shape_numbers = one.group_starts + one.groups * sizeof(uint32_t);
    const auto& shapes = spec.arenas[static_cast<size_t>(&one - tables.data())].shapes;
    at = align_up(one.shape_numbers + (shapes.size() / kGroup + 1) * kGroup * sizeof(uint16_t), 8);
  }
  for (StubTables& one : tables) one.shapes = at;
  const std::string end_of_stubs = unknown_shape(kLastEnd);
  if (spec.shapes != nullptr) at += spec.shapes->bytes().size();
  const Address end_shape = at;
  header.size = end_shape + end_of_stubs.size() - begin;

  Assembler frames(header.frames);
  emit_frames(frames);
  assert(frames.size() == header.frames_size);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.range.begin < b.range.begin; });

  for (uint64_t word : {header.magic, header.size, header.range_count, header.ranges, header.frames,
                        header.frames_size})
    code.u64(word);
  for (size_t i = 0; i < header.range_count; ++i) {
    code.u64(i < entries.size() ? entries[i].range.begin : ~uint64_t{0});
    code.u64(i < entries.size() ? entries[i].range.size() : 0);
  }
  entries.resize(header.range_count);
  for (const Entry& entry : entries) emit_range_header(code, entry.range.begin, entry.fde);
  for (const Entry& entry : entries) code.u32(static_cast<uint32_t>(entry.kind));
  align(code, 8);
  assert(code.here() == header.frames);
  code.raw(*frames.finish());
  align(code, 8);
  for (size_t i = 0; i < tables.size(); ++i) {
    assert(code.here() == tables[i].group_starts);
    const auto& shapes = spec.arenas[i].shapes;
    uint32_t offset = 0;
    for (size_t group = 0; group < tables[i].groups; ++group) {
      code.u32(group * kGroup <= shapes.size() ? offset : StubTables::kNoGroup);
      for (size_t j = group * kGroup; j < std::min(shapes.size(), (group + 1) * kGroup); ++j)
        offset += room_of(*spec.shapes, shapes[j]);
    }
    const auto end_number = static_cast<uint16_t>((end_shape - tables[i].shapes) / kShapeUnit);
    for (size_t j = 0; j < (shapes.size() / kGroup + 1) * kGroup; ++j) {
      const uint16_t number = j < shapes.size() ? shapes[j] : end_number;
      code.u8(static_cast<uint8_t>(number));
      code.u8(static_cast<uint8_t>(number >> 8));
    }
    align(code, 8);
  }
  if (spec.shapes != nullptr)
    for (char c : spec.shapes->bytes()) code.u8(static_cast<uint8_t>(c));
  for (char c : end_of_stubs) code.u8(static_cast<uint8_t>(c));
  assert(code.here() == begin + header.size);
  return header;
}

}  // namespace pinprick::arch
