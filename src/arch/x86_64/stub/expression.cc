#include "arch/x86_64/stub/expression.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <optional>
#include <variant>

#include "layout/runtime_offsets.h"

namespace pinprick::arch {
namespace {

bool fits_in_32(uint64_t value) {
  return static_cast<uint64_t>(int64_t{static_cast<int32_t>(value)}) == value;
}

Condition opposite(Condition condition) {
  return static_cast<Condition>(static_cast<uint8_t>(condition) ^ 1);
}

bool is_comparison(Operation operation) {
  return operation >= Operation::equal && operation <= Operation::less_or_equal;
}

// What holds after `cmp left, right`, or after `cmp right, left` if they are swapped.
Condition condition_of(Operation operation, bool is_signed, bool swapped) {
  switch (operation) {
    case Operation::equal:
      return Condition::equal;
    case Operation::not_equal:
      return Condition::not_equal;
    case Operation::less:
      if (swapped) return is_signed ? Condition::greater : Condition::above;
      return is_signed ? Condition::less : Condition::below;
    default:
      if (swapped) return is_signed ? Condition::greater_or_equal : Condition::above_or_equal;
      return is_signed ? Condition::less_or_equal : Condition::below_or_equal;
  }
}

const uint64_t* constant_of(const Step& step) {
  if (step.operation != Operation::take) return nullptr;
  const auto* const constant = std::get_if<Source::Constant>(&step.source.instead);
  return constant != nullptr ? &constant->value : nullptr;
}

int saved_word(const ExpressionFrame& frame, Reg reg) {
  switch (reg) {
    case Reg::rax:
      return frame.rax;
    case Reg::rcx:
      return frame.rcx;
    case Reg::rdx:
      return frame.rdx;
    case Reg::rsi:
      return frame.rsi;
    case Reg::rdi:
      return frame.rdi;
    case Reg::r8:
      return frame.r8;
    default:
      return 0;
  }
}

// A general register, whole or in part, that has what the program has there.
std::optional<Reg> plain_register(const ExpressionFrame& frame, const Step& step) {
  const Source& source = step.source;
  if (step.operation != Operation::take || source.instead.index() != 0 || source.is_high_byte ||
      source.is_floating_point || source.is_vector)
    return std::nullopt;
  const auto reg = static_cast<Reg>(source.register_number);
  if (reg == Reg::rsp || reg == Reg::rax || saved_word(frame, reg) != 0) return std::nullopt;
  return reg;
}

// A comparison of a register and a number that is one instruction.
struct Compared {
  Reg reg = Reg::rax;
  bool has_32_bits = false;
  uint64_t with = 0;
  Condition holds = Condition::equal;
};

std::optional<Compared> as_one_comparison(const ExpressionFrame& frame, const Expression& all,
                                          const Step& step) {
  if (!is_comparison(step.operation) || step.is_real) return std::nullopt;
  const Step& left = all.steps[step.left];
  const Step& right = all.steps[step.right];
  const bool swapped = constant_of(left) != nullptr;
  const uint64_t* const with = constant_of(swapped ? left : right);
  const Step& what = swapped ? right : left;
  const auto reg = plain_register(frame, what);
  if (with == nullptr || !reg) return std::nullopt;
  const Source& source = what.source;
  if (source.bytes == 8 && fits_in_32(*with))
    return Compared{*reg, false, *with, condition_of(step.operation, step.is_signed, swapped)};
  if (source.bytes != 4) return std::nullopt;
  // All numbers of 32 bits without a sign are positive ones of 64 bits with a sign.
  const bool is_less = step.operation >= Operation::less;
  if (source.is_signed ? !fits_in_32(*with) || (is_less && !step.is_signed) : *with > UINT32_MAX)
    return std::nullopt;
  return Compared{*reg, true, *with, condition_of(step.operation, source.is_signed, swapped)};
}

// A register whose value as a whole is the condition.
std::optional<Reg> as_one_test(const ExpressionFrame& frame, const Step& step) {
  return step.source.bytes >= 4 ? plain_register(frame, step) : std::nullopt;
}

bool tests_flags_only(const Expression& all, const Step& step) {
  switch (step.operation) {
    case Operation::both:
    case Operation::either:
      return tests_flags_only(all, all.steps[step.left]) &&
             tests_flags_only(all, all.steps[step.right]);
    case Operation::is_zero:
      return tests_flags_only(all, all.steps[step.left]);
    default:
      return as_one_comparison({}, all, step) || as_one_test({}, step) ||
             constant_of(step) != nullptr;
  }
}

// Where floating-point numbers are computed, below the stack pointer: the program's control word
// and ours, a number, and the vector register.
constexpr int32_t kOfProgram = -8, kOfOurs = -16, kBits = -24, kVector = -40;
constexpr uint64_t kSignBit = uint64_t{1} << 63;

class ExpressionWriter {
 public:
  ExpressionWriter(Assembler& code, StubFrames& frames, const Expression& expression,
                   const ExpressionFrame& frame)
      : code_(code), frames_(frames), all_(expression), frame_(frame), words_(frame.words) {}

  void value(const Step& step);
  void jump(const Step& step, bool when, Assembler::Label to);

 private:
  const Step& left_of(const Step& step) const { return all_.steps[step.left]; }
  const Step& right_of(const Step& step) const { return all_.steps[step.right]; }
  void words_are(int words) {
    words_ = words;
    frames_.note(code_.here(), frame_.offset, static_cast<int8_t>(words - frame_.of_runtime));
  }
  int32_t where(int word) const { return 8 * (words_ - word); }  // from the stack pointer

  Reg in_register(uint8_t number, Reg other);
  MemoryOperand operand_of(const Source::Memory& from);
  MemoryOperand operand_of(Source::OfCall from);
  void take(const Source& source);
  void take_kept(Source::OfCall from);
  void take_return_address();
  void take_stack(const Source::Stack& stack);
  void take_of_thread(const Source::OfThread& variable);
  void take_self_time(Source::SelfTime of);
  void leave_if_null(Assembler::Label none);
  void text_of_length(const Step& step);
  void load(const Step& step);
  void pair(const Step& step);
  void compare_text(const Step& step);
  void leave_if_unread();
  void take_integer(const Source& source);
  void take_floating_point(const Source& source);
  template <class F>
  void under_own_float_control(F&& compute);
  template <class F>
  void in_vector(F&& compute);
  void compute_real(const Step& step);
  void negate(const Step& step);
  void to_real(const Step& step);
  void widen(const Step& step);
  void to_integer(const Step& step);
  void order_by_bits(Reg number);
  Condition compare_real(const Step& step);
  void narrow(unsigned bytes, bool is_signed);

  void guarded(const Step& step);
  Reg both_values(const Step& step);
  void combine(const Step& step);
  void combine_with(const Step& step, uint64_t constant);
  void combine_with(const Step& step, Reg right);
  void shift(const Step& step, uint8_t bits);
  void divide(const Step& step);
  void divide_by_rcx(const Step& step);
  Condition compare(const Step& step);

  Assembler& code_;
  StubFrames& frames_;
  const Expression& all_;
  const ExpressionFrame& frame_;
  int words_;
};

// Returns a register with what the program has in that one: itself, or `other`.
Reg ExpressionWriter::in_register(uint8_t number, Reg other) {
  const auto reg = static_cast<Reg>(number);
  if (const int word = saved_word(frame_, reg); word != 0) {
    code_.load(other, Reg::rsp, where(word));
    return other;
  }
  if (reg != Reg::rsp) return reg;
  code_.lea(other, Reg::rsp, where(0));
  return other;
}

// May change rax, and rcx if that is saved.
MemoryOperand ExpressionWriter::operand_of(const Source::Memory& from) {
  const bool is_address = !from.base && !from.index && from.segment == Source::Segment::none;
  if (is_address) {
    code_.mov_imm64(Reg::rax, from.displacement);
    return {.base = Reg::rax};
  }
  MemoryOperand operand = {.scale = static_cast<Scale>(std::countr_zero(from.scale)),
                           .offset = static_cast<int32_t>(from.displacement),
                           .segment = static_cast<Segment>(from.segment)};
  if (from.base && static_cast<Reg>(*from.base) == Reg::rsp) {
    operand.base = Reg::rsp;
    operand.offset += where(0);
  } else if (from.base) {
    operand.base = in_register(*from.base, Reg::rax);
  }
  if (from.index) operand.index = in_register(*from.index, Reg::rcx);
  return operand;
}

// In the slot at rdi, or in the entry at a distance from it.
MemoryOperand ExpressionWriter::operand_of(Source::OfCall from) {
  assert(frame_.rdi != 0);
  if (!from.kept) return {.base = Reg::rdi, .offset = PP_SLOT_TSC};
  return {.base = Reg::rdi, .offset = frame_.kept + *from.kept * int32_t{sizeof(uint64_t)}};
}

void ExpressionWriter::take(const Source& source) {
  const auto* const of_call = std::get_if<Source::OfCall>(&source.instead);
  if (of_call != nullptr && of_call->may_be_unread) {
    take_kept(*of_call);
  } else if (const auto* const stack = std::get_if<Source::Stack>(&source.instead)) {
    take_stack(*stack);
  } else if (std::holds_alternative<Source::Thread>(source.instead)) {
    code_.call_memory(frame_.pointers->thread);
    if (source.bytes != sizeof(uint64_t)) narrow(source.bytes, source.is_signed);
  } else if (const auto* const of_thread = std::get_if<Source::OfThread>(&source.instead)) {
    take_of_thread(*of_thread);
    narrow(source.bytes, source.is_signed);
  } else if (std::holds_alternative<Source::AccountedTime>(source.instead)) {
    code_.call_memory(frame_.pointers->accounted);
  } else if (const auto* const self = std::get_if<Source::SelfTime>(&source.instead)) {
    take_self_time(*self);
  } else if (std::holds_alternative<Source::ReturnAddress>(source.instead)) {
    take_return_address();
    narrow(source.bytes, source.is_signed);
  } else if (source.is_floating_point) {
    take_floating_point(source);
  } else {
    take_integer(source);
  }
}

// It lies where the stack pointer of the program points, or in the slot: codes are half as far from
// each other as slots are.
void ExpressionWriter::take_return_address() {
  code_.load(Reg::rax, Reg::rsp, where(0));
  if (frame_.in_slot == nullptr) return;
  code_.mov_imm64(Reg::rcx, frame_.in_slot->slot - 2 * (frame_.in_slot->code + kSlotReturn));
  code_.lea_indexed(Reg::rax, Reg::rcx, Reg::rax, Scale::by_2);
  code_.load(Reg::rax, Reg::rax, PP_SLOT_RETURN_ADDRESS);
}

// The routine finds beside the call how many frames are wanted, and the address of the instruction.
void ExpressionWriter::take_stack(const Source::Stack& stack) {
  const auto record = code_.new_label(), after = code_.new_label();
  code_.jmp_short(after);
  code_.bind(record);
  code_.u64(stack.frames);
  code_.u64(stack.is_at_entry ? 0 : frame_.instruction);
  code_.bind(after);
  code_.lea(Reg::rax, Reg::rsp, where(0));
  code_.lea(Reg::rcx, record);
  code_.call_memory(frame_.pointers->stack);
}

// A thread whose TID the routine knows has a control block of the C library, and its variables.
void ExpressionWriter::take_of_thread(const Source::OfThread& variable) {
  constexpr unsigned kInt = 4;
  const auto unknown = code_.new_label();
  MemoryOperand there = {.offset = variable.offset, .segment = Segment::fs};
  code_.call_memory(frame_.pointers->thread);
  code_.test(Reg::rax);
  code_.jump_if(Condition::equal, unknown);
  if (variable.offset_at != 0) {
    code_.mov_imm64(Reg::rax, variable.offset_at);
    code_.load(Reg::rax, Reg::rax, 0);
    there = {.base = Reg::rax, .segment = Segment::fs};
  }
  code_.load_zero_extended(Reg::rax, there, kInt);
  narrow(kInt, true);
  code_.bind(unknown);
}

void ExpressionWriter::take_self_time(Source::SelfTime of) {
  code_.load_zero_extended(Reg::rax, operand_of(Source::OfCall{.kept = of.kept}), sizeof(uint64_t));
  code_.load_zero_extended(Reg::rcx, operand_of(Source::OfCall{}), sizeof(uint64_t));
  code_.call_memory(frame_.pointers->self_time);
}

void ExpressionWriter::take_kept(Source::OfCall from) {
  code_.load_zero_extended(Reg::rax, operand_of(from), sizeof(uint64_t));
  code_.mov_imm64(Reg::rcx, PP_KEPT_UNREAD);
  code_.cmp(Reg::rax, Reg::rcx);
  leave_if_unread();
}

// Goes on where the expression has no value, if the flags say so (equal).
void ExpressionWriter::leave_if_unread() {
  if (words_ == frame_.words) return code_.jump_far_if(Condition::equal, frame_.unread);
  const auto was_read = code_.new_label();
  code_.jump_if(Condition::not_equal, was_read);
  const int words = words_;
  code_.lea(Reg::rsp, Reg::rsp, 8 * (words - frame_.words));
  words_are(frame_.words);
  code_.jmp(frame_.unread);
  code_.bind(was_read);
  words_are(words);
}

void ExpressionWriter::pair(const Step& step) {
  const Reg right = both_values(step);
  if (right != Reg::rcx) code_.mov(Reg::rcx, right);
  code_.call_memory(frame_.pointers->pair);
}

// If the address in rax is 0, goes on at `none` with the number that stands for no text.
void ExpressionWriter::leave_if_null(Assembler::Label none) {
  const auto read = code_.new_label();
  code_.test(Reg::rax);
  code_.jump_if(Condition::not_equal, read);
  code_.mov_imm64(Reg::rax, static_cast<uint64_t>(PP_TEXT_NULL));
  code_.jmp_short(none);
  code_.bind(read);
}

// The routines take the address in rax, and return 0 in rcx if nothing could be read.
void ExpressionWriter::load(const Step& step) {
  value(left_of(step));
  const auto none = code_.new_label();
  if (step.tells_null) leave_if_null(none);
  code_.mov_imm32(Reg::rcx, step.bytes);
  if (step.operation == Operation::text) {
    code_.call_memory(frame_.pointers->text);
    if (step.tells_null) code_.bind(none);
    return;
  }
  code_.call_memory(frame_.pointers->load);
  code_.test(Reg::rcx);
  leave_if_unread();
  if (step.is_signed) narrow(step.bytes, true);
}

// The routine takes the complement of the length, since a positive number would be the most bytes
// of a text that ends with a 0. A negative length becomes 0. A length that is too large becomes one
// more than a text can have, so that the text counts as cut.
void ExpressionWriter::text_of_length(const Step& step) {
  const Reg right = both_values(step);
  if (right != Reg::rcx) code_.mov(Reg::rcx, right);
  const auto none = code_.new_label();
  if (step.tells_null) leave_if_null(none);
  const auto is_positive = code_.new_label(), fits = code_.new_label();
  code_.test(Reg::rcx);
  code_.jump_if(Condition::greater_or_equal, is_positive);
  code_.mov_imm32(Reg::rcx, 0);
  code_.bind(is_positive);
  code_.cmp_imm32(Reg::rcx, kMostText);
  code_.jump_if(Condition::less_or_equal, fits);
  code_.mov_imm32(Reg::rcx, kMostText + 1);
  code_.bind(fits);
  code_.complement(Reg::rcx);
  code_.call_memory(frame_.pointers->text);
  if (step.tells_null) code_.bind(none);
}

// What it is compared with lies in the code: its length, whether it is a pattern, and the text with
// a 0.
void ExpressionWriter::compare_text(const Step& step) {
  const std::string& text = all_.texts[step.right];
  assert(text.size() <= kMostComparedText);
  value(left_of(step));
  const auto with = code_.new_label(), after = code_.new_label();
  code_.jmp(after);
  code_.bind(with);
  code_.u8(static_cast<uint8_t>(text.size()));
  code_.u8(step.operation == Operation::like_text ? 1 : 0);
  code_.string(text);
  code_.bind(after);
  code_.lea(Reg::rcx, with);
  code_.call_memory(frame_.pointers->compare);
  code_.test(Reg::rcx);
  leave_if_unread();
}

void ExpressionWriter::take_integer(const Source& source) {
  if (const auto* const constant = std::get_if<Source::Constant>(&source.instead)) {
    code_.mov_imm64(Reg::rax, constant->value);
    return;
  }
  const auto reg = static_cast<Reg>(source.register_number);
  bool has_upper_bytes = false;
  if (const auto* const memory = std::get_if<Source::Memory>(&source.instead)) {
    code_.load_zero_extended(Reg::rax, operand_of(*memory), source.bytes);
  } else if (const auto* const of_call = std::get_if<Source::OfCall>(&source.instead)) {
    code_.load_zero_extended(Reg::rax, operand_of(*of_call), source.bytes);
  } else if (source.is_high_byte && saved_word(frame_, reg) != 0) {
    const MemoryOperand second = {.base = Reg::rsp, .offset = where(saved_word(frame_, reg)) + 1};
    code_.load_zero_extended(Reg::rax, second, 1);
  } else if (source.is_high_byte) {
    code_.mov_high_byte(Reg::rax, reg);
  } else if (source.is_vector) {
    code_.move_from_vector(Reg::rax, source.register_number);
    has_upper_bytes = true;
  } else {
    const Reg from = in_register(source.register_number, Reg::rax);
    if (from != Reg::rax) code_.mov(Reg::rax, from);
    has_upper_bytes = true;
  }
  if (source.is_signed || has_upper_bytes) narrow(source.bytes, source.is_signed);
}

// A floating-point number is converted under a control word of our own, below the stack pointer:
//
//     [rsp - 8] = the program's control word
//     load the one that masks all exceptions
//     rax = the number, truncated      sets flags in our control word only
//     load [rsp - 8]
void ExpressionWriter::take_floating_point(const Source& source) {
  under_own_float_control([&] {
    if (const auto* const memory = std::get_if<Source::Memory>(&source.instead)) {
      code_.truncate(Reg::rax, operand_of(*memory), source.bytes);
    } else if (source.is_vector) {
      code_.truncate(Reg::rax, source.register_number, source.bytes);
    } else {
      code_.store(Reg::rsp, kBits, in_register(source.register_number, Reg::rax));
      code_.truncate(Reg::rax, MemoryOperand{.base = Reg::rsp, .offset = kBits}, source.bytes);
    }
  });
}

template <class F>
void ExpressionWriter::under_own_float_control(F&& compute) {
  constexpr int32_t kAllMasked = 0x1f80;
  code_.store_float_control(Reg::rsp, kOfProgram);
  code_.store_imm32(Reg::rsp, kOfOurs, kAllMasked);
  code_.load_float_control(Reg::rsp, kOfOurs);
  compute();
  code_.load_float_control(Reg::rsp, kOfProgram);
}

// Arithmetic of floating-point numbers has to be done in a vector register. It is xmm0, of which
// the lowest 16 bytes are below the stack pointer meanwhile; these instructions change no others. A
// signal that comes in between has its handler find both registers as the kernel sets them up for
// any handler, and brings ours back. A handler that leaves by longjmp never comes back here: it
// leaves with the control word that the kernel has given it, as it would have without us.
//
//     [rsp - 40] = xmm0; xmm0 = rax; compute; rax = xmm0; xmm0 = [rsp - 40]
template <class F>
void ExpressionWriter::in_vector(F&& compute) {
  under_own_float_control([&] {
    code_.store_vector(Reg::rsp, kVector);
    compute();
    code_.move_from_vector(Reg::rax, 0);
    code_.load_vector(Reg::rsp, kVector);
  });
}

void ExpressionWriter::compute_real(const Step& step) {
  using Real = Assembler::RealOperation;
  const Reg right = both_values(step);
  code_.store(Reg::rsp, kBits, right);
  in_vector([&] {
    code_.move_to_vector(Reg::rax);
    code_.compute_real(step.operation == Operation::add        ? Real::add
                       : step.operation == Operation::subtract ? Real::subtract
                       : step.operation == Operation::multiply ? Real::multiply
                                                               : Real::divide,
                       Reg::rsp, kBits);
  });
}

void ExpressionWriter::negate(const Step& step) {
  value(left_of(step));
  if (!step.is_real) return code_.negate(Reg::rax);
  code_.mov_imm64(Reg::rcx, kSignBit);
  code_.xor_(Reg::rax, Reg::rcx);
}

// The processor converts integers with a sign. A larger one is halved, which keeps whether anything
// is beyond the last bit of the result, and doubled again, which is exact.
void ExpressionWriter::to_real(const Step& step) {
  value(left_of(step));
  in_vector([&] {
    if (step.is_signed) return code_.convert_to_real(Reg::rax);
    const auto is_small = code_.new_label(), end = code_.new_label();
    code_.test(Reg::rax);
    code_.jump_if(Condition::greater_or_equal, is_small);
    code_.mov(Reg::rcx, Reg::rax);
    code_.and_imm32(Reg::rcx, 1);
    code_.shift_right(Reg::rax, 1);
    code_.or_(Reg::rax, Reg::rcx);
    code_.convert_to_real(Reg::rax);
    code_.move_from_vector(Reg::rax, 0);
    code_.store(Reg::rsp, kBits, Reg::rax);
    code_.compute_real(Assembler::RealOperation::add, Reg::rsp, kBits);
    code_.jmp_short(end);
    code_.bind(is_small);
    code_.convert_to_real(Reg::rax);
    code_.bind(end);
  });
}

void ExpressionWriter::widen(const Step& step) {
  value(left_of(step));
  code_.store(Reg::rsp, kBits, Reg::rax);
  in_vector([&] { code_.widen_real(Reg::rsp, kBits); });
}

void ExpressionWriter::to_integer(const Step& step) {
  value(left_of(step));
  code_.store(Reg::rsp, kBits, Reg::rax);
  under_own_float_control([&] {
    code_.truncate(Reg::rax, MemoryOperand{.base = Reg::rsp, .offset = kBits}, sizeof(uint64_t));
  });
}

// Makes of the bits of a number, which are its sign and its size, an integer with a sign that is in
// the same order; both zeros become 0. Clobbers rdx.
void ExpressionWriter::order_by_bits(Reg number) {
  const auto is_positive = code_.new_label();
  code_.test(number);
  code_.jump_if(Condition::greater_or_equal, is_positive);
  code_.mov_imm64(Reg::rdx, kSignBit);
  code_.sub(Reg::rdx, number);
  code_.mov(number, Reg::rdx);
  code_.bind(is_positive);
}

// Compared by their bits, without any register of the floating-point unit:
//
//     push rdx
//     rax, rcx = the order of their bits
//     rax, rcx += infinity                  from 0 for -infinity up to 2 infinity for infinity
//     if either > 2 infinity: rax, rcx = 1, 0     it is NaN: neither less nor equal
//     pop rdx
//     compare rax with rcx, which have no sign
Condition ExpressionWriter::compare_real(const Step& step) {
  constexpr uint64_t kInfinity = uint64_t{0x7ff} << 52;
  const Reg right = both_values(step);
  if (right != Reg::rcx) code_.mov(Reg::rcx, right);
  code_.push(Reg::rdx);
  words_are(words_ + 1);
  order_by_bits(Reg::rax);
  order_by_bits(Reg::rcx);
  code_.mov_imm64(Reg::rdx, kInfinity);
  code_.add(Reg::rax, Reg::rdx);
  code_.add(Reg::rcx, Reg::rdx);
  code_.add(Reg::rdx, Reg::rdx);
  const auto unordered = code_.new_label(), ordered = code_.new_label();
  code_.cmp(Reg::rax, Reg::rdx);
  code_.jump_if(Condition::above, unordered);
  code_.cmp(Reg::rcx, Reg::rdx);
  code_.jump_if(Condition::below_or_equal, ordered);
  code_.bind(unordered);
  code_.mov_imm32(Reg::rax, 1);
  code_.mov_imm32(Reg::rcx, 0);
  code_.bind(ordered);
  code_.pop(Reg::rdx);
  words_are(words_ - 1);
  code_.cmp(Reg::rax, Reg::rcx);
  return condition_of(step.operation, false, false);
}

void ExpressionWriter::narrow(unsigned bytes, bool is_signed) {
  if (bytes == 8) return;
  if (is_signed)
    code_.sign_extend(Reg::rax, bytes);
  else
    code_.zero_extend(Reg::rax, bytes);
}

void ExpressionWriter::value(const Step& step) {
  switch (step.operation) {
    case Operation::take:
      return take(step.source);
    case Operation::narrow:
      value(left_of(step));
      return narrow(step.bytes, step.is_signed);
    case Operation::negate:
      return negate(step);
    case Operation::to_real:
      return to_real(step);
    case Operation::widen:
      return widen(step);
    case Operation::to_integer:
      return to_integer(step);
    case Operation::complement:
      value(left_of(step));
      return code_.complement(Reg::rax);
    case Operation::add:
    case Operation::subtract:
    case Operation::multiply:
    case Operation::divide:
    case Operation::remainder:
    case Operation::bit_and:
    case Operation::bit_or:
    case Operation::bit_xor:
    case Operation::shift_left:
    case Operation::shift_right:
      return combine(step);
    case Operation::pair:
      return pair(step);
    case Operation::load:
    case Operation::text:
      return load(step);
    case Operation::equals_text:
    case Operation::like_text:
      return compare_text(step);
    case Operation::text_of_length:
      return text_of_length(step);
    case Operation::guarded:
      return guarded(step);
    default:
      break;
  }
  const auto is_true = code_.new_label(), end = code_.new_label();
  jump(step, true, is_true);
  code_.mov_imm32(Reg::rax, 0);
  code_.jmp_short(end);
  code_.bind(is_true);
  code_.mov_imm32(Reg::rax, 1);
  code_.bind(end);
}

void ExpressionWriter::guarded(const Step& step) {
  const auto none = code_.new_label(), end = code_.new_label();
  jump(left_of(step), false, none);
  value(right_of(step));
  code_.jmp(end);
  code_.bind(none);
  code_.mov_imm32(Reg::rax, 0);
  code_.bind(end);
}

// Computes the left value into rax. Returns the register that has the right one.
Reg ExpressionWriter::both_values(const Step& step) {
  const Step& right = right_of(step);
  if (const auto reg = plain_register(frame_, right); reg && right.source.bytes == 8) {
    value(left_of(step));
    return *reg;
  }
  if (const uint64_t* const constant = constant_of(right)) {
    value(left_of(step));
    code_.mov_imm64(Reg::rcx, *constant);
    return Reg::rcx;
  }
  value(left_of(step));
  code_.push(Reg::rax);
  words_are(words_ + 1);
  value(right);
  code_.mov(Reg::rcx, Reg::rax);
  code_.pop(Reg::rax);
  words_are(words_ - 1);
  return Reg::rcx;
}

void ExpressionWriter::combine(const Step& step) {
  if (step.is_real) return compute_real(step);
  if (step.operation == Operation::divide || step.operation == Operation::remainder)
    return divide(step);
  const uint64_t* const constant = constant_of(right_of(step));
  if (constant != nullptr && (fits_in_32(*constant) || step.operation == Operation::shift_left ||
                              step.operation == Operation::shift_right)) {
    value(left_of(step));
    combine_with(step, *constant);
  } else {
    combine_with(step, both_values(step));
  }
}

void ExpressionWriter::combine_with(const Step& step, uint64_t constant) {
  const auto number = static_cast<int32_t>(constant);
  switch (step.operation) {
    case Operation::add:
      return code_.add_imm32(Reg::rax, number);
    case Operation::subtract:
      return code_.sub_imm32(Reg::rax, number);
    case Operation::multiply:
      return code_.multiply_imm32(Reg::rax, number);
    case Operation::bit_and:
      return code_.and_imm32(Reg::rax, number);
    case Operation::bit_or:
      return code_.or_imm32(Reg::rax, number);
    case Operation::bit_xor:
      return code_.xor_imm32(Reg::rax, number);
    default:
      return shift(step, constant & 63);
  }
}

void ExpressionWriter::shift(const Step& step, uint8_t bits) {
  if (step.operation == Operation::shift_left)
    code_.shift_left(Reg::rax, bits);
  else if (step.is_signed)
    code_.shift_right_signed(Reg::rax, bits);
  else
    code_.shift_right(Reg::rax, bits);
}

void ExpressionWriter::combine_with(const Step& step, Reg right) {
  switch (step.operation) {
    case Operation::add:
      return code_.add(Reg::rax, right);
    case Operation::subtract:
      return code_.sub(Reg::rax, right);
    case Operation::multiply:
      return code_.multiply(Reg::rax, right);
    case Operation::bit_and:
      return code_.and_(Reg::rax, right);
    case Operation::bit_or:
      return code_.or_(Reg::rax, right);
    case Operation::bit_xor:
      return code_.xor_(Reg::rax, right);
    default:
      break;
  }
  if (right != Reg::rcx) code_.mov(Reg::rcx, right);
  if (step.operation == Operation::shift_left)
    code_.shift_left_by_cl(Reg::rax);
  else if (step.is_signed)
    code_.shift_right_signed_by_cl(Reg::rax);
  else
    code_.shift_right_by_cl(Reg::rax);
}

// Nothing faults: a fault would be the program's. Divided by 0, all gives 0; and the smallest
// number divided by -1 is what its negative wraps to, itself.
void ExpressionWriter::divide(const Step& step) {
  const uint64_t* const by = constant_of(right_of(step));
  const bool may_fault = by == nullptr || *by == 0 || (step.is_signed && *by == UINT64_MAX);
  const Reg right = both_values(step);
  if (right != Reg::rcx) code_.mov(Reg::rcx, right);
  if (!may_fault) return divide_by_rcx(step);
  const auto by_zero = code_.new_label(), by_minus_one = code_.new_label(), end = code_.new_label();
  code_.test(Reg::rcx);
  code_.jump_far_if(Condition::equal, by_zero);
  if (step.is_signed) {
    code_.cmp_imm32(Reg::rcx, -1);
    code_.jump_far_if(Condition::equal, by_minus_one);
  }
  divide_by_rcx(step);
  code_.jmp_short(end);
  if (step.is_signed) {
    code_.bind(by_minus_one);
    if (step.operation == Operation::divide) {
      code_.negate(Reg::rax);
      code_.jmp_short(end);
    }
  }
  code_.bind(by_zero);
  code_.mov_imm32(Reg::rax, 0);
  code_.bind(end);
}

void ExpressionWriter::divide_by_rcx(const Step& step) {
  if (step.is_signed) {
    code_.sign_into_rdx();
    code_.divide_signed(Reg::rcx);
  } else {
    code_.xor_(Reg::rdx, Reg::rdx);
    code_.divide(Reg::rcx);
  }
  if (step.operation == Operation::remainder) code_.mov(Reg::rax, Reg::rdx);
}

// Returns what holds then if the comparison does.
Condition ExpressionWriter::compare(const Step& step) {
  if (const auto one = as_one_comparison(frame_, all_, step)) {
    if (one->has_32_bits)
      code_.cmp32_imm32(one->reg, static_cast<uint32_t>(one->with));
    else
      code_.cmp_imm32(one->reg, static_cast<int32_t>(one->with));
    return one->holds;
  }
  if (step.is_real) return compare_real(step);
  const uint64_t* const constant = constant_of(right_of(step));
  if (constant != nullptr && fits_in_32(*constant)) {
    value(left_of(step));
    code_.cmp_imm32(Reg::rax, static_cast<int32_t>(*constant));
  } else {
    const Reg right = both_values(step);
    code_.cmp(Reg::rax, right);
  }
  return condition_of(step.operation, step.is_signed, false);
}

// Goes to `to` if the step is not 0, or if it is 0.
void ExpressionWriter::jump(const Step& step, bool when, Assembler::Label to) {
  if (step.operation == Operation::is_zero) return jump(left_of(step), !when, to);
  if (step.operation == Operation::both || step.operation == Operation::either) {
    // The left one alone decides if it is this.
    const bool decides = step.operation == Operation::either;
    if (when == decides) {
      jump(left_of(step), decides, to);
      return jump(right_of(step), when, to);
    }
    const auto decided = code_.new_label();
    jump(left_of(step), decides, decided);
    jump(right_of(step), when, to);
    return code_.bind(decided);
  }
  Condition holds = Condition::not_equal;
  if (const uint64_t* const constant = constant_of(step)) {
    if ((*constant != 0) == when) code_.jmp(to);
    return;
  }
  if (is_comparison(step.operation)) {
    holds = compare(step);
  } else if (const auto reg = as_one_test(frame_, step)) {
    if (step.source.bytes == 4)
      code_.test32(*reg);
    else
      code_.test(*reg);
  } else {
    value(step);
    code_.test(Reg::rax);
  }
  code_.jump_far_if(when ? holds : opposite(holds), to);
}

}  // namespace

bool needs_flags_only(const Expression& condition) {
  return tests_flags_only(condition, condition.steps.back());
}

bool may_be_unread(const Expression& expression) {
  return std::any_of(expression.steps.begin(), expression.steps.end(), [](const Step& step) {
    const auto* const of_call = std::get_if<Source::OfCall>(&step.source.instead);
    const bool is_text =
        step.operation == Operation::text || step.operation == Operation::text_of_length;
    return (follows(step.operation) && !is_text) || (of_call != nullptr && of_call->may_be_unread);
  });
}

static bool computes_real(const Step& step) {
  return step.is_real || step.operation == Operation::to_real ||
         step.operation == Operation::widen || step.operation == Operation::to_integer;
}

uint64_t most_expression_bytes(const Expression& expression) {
  constexpr uint64_t kAlone = 96, kSaving = 128, kStep = 64, kOfReal = 96;
  uint64_t bytes = expression.is_source() ? kAlone : kSaving + kStep * expression.steps.size();
  for (const Step& step : expression.steps)
    if (computes_real(step)) bytes += kOfReal;
  for (const std::string& text : expression.texts) bytes += text.size() + 1;
  return bytes;
}

bool divides(const Expression& expression) {
  return std::any_of(expression.steps.begin(), expression.steps.end(), [](const Step& step) {
    return (step.operation == Operation::divide && !step.is_real) ||
           step.operation == Operation::remainder;
  });
}

void emit_value(Assembler& code, StubFrames& frames, const Expression& expression,
                const ExpressionFrame& frame) {
  ExpressionWriter(code, frames, expression, frame).value(expression.steps.back());
}

void emit_jump_if_true(Assembler& code, StubFrames& frames, const Expression& condition,
                       const ExpressionFrame& frame, Assembler::Label to) {
  ExpressionWriter(code, frames, condition, frame).jump(condition.steps.back(), true, to);
}

}  // namespace pinprick::arch
