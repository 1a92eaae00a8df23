// Random expressions of what hits compute, random states of the processor, and an interpreter that
// shares nothing with the code under test. For tests; not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "arch/differential.h"
#include "arch/stub.h"

namespace pinprick::arch {

// --- The interpreter

// What the program has when it reaches the instruction, or when the call has returned.
struct Program {
  const MachineState& state;
  Sandbox& sandbox;
  std::array<uint64_t, PP_KEPT_VALUES> kept = {};  // with the call

  uint64_t xmm(uint8_t number) const {
    constexpr size_t kXmm = 160;  // in the layout of xsave
    uint64_t low = 0;
    std::memcpy(&low, state.extended.data() + kXmm + size_t{16} * number, sizeof low);
    return low;
  }
  uint64_t reg(uint8_t number) const { return state.general[number]; }
  // Is there as much in the sandbox? Nothing else is read that is mapped.
  bool has(Address address, unsigned bytes) const {
    return address >= sandbox.data() && address <= sandbox.data() + Sandbox::kDataSize - bytes;
  }
};

inline uint64_t extended(uint64_t value, unsigned bytes, bool is_signed) {
  switch (bytes) {
    case 1:
      return is_signed ? static_cast<uint64_t>(int64_t{static_cast<int8_t>(value)})
                       : static_cast<uint8_t>(value);
    case 2:
      return is_signed ? static_cast<uint64_t>(int64_t{static_cast<int16_t>(value)})
                       : static_cast<uint16_t>(value);
    case 4:
      return is_signed ? static_cast<uint64_t>(int64_t{static_cast<int32_t>(value)})
                       : static_cast<uint32_t>(value);
    default:
      return value;
  }
}

inline uint64_t truncated(uint64_t bits, unsigned bytes) {
  const double number = bytes == 8 ? std::bit_cast<double>(bits)
                                   : double{std::bit_cast<float>(static_cast<uint32_t>(bits))};
  const bool fits = number >= -0x1p63 && number < 0x1p63;  // false of NaN
  return static_cast<uint64_t>(fits ? static_cast<int64_t>(number)
                                    : std::numeric_limits<int64_t>::min());
}

inline uint64_t taken(const Source& source, const Program& program) {
  if (const auto* constant = std::get_if<Source::Constant>(&source.instead)) return constant->value;
  uint64_t bits = program.reg(source.register_number);
  if (const auto* of_call = std::get_if<Source::OfCall>(&source.instead))
    bits = program.kept[*of_call->kept];
  if (source.is_vector) bits = program.xmm(source.register_number);
  if (const auto* memory = std::get_if<Source::Memory>(&source.instead)) {
    Address address = memory->displacement;
    if (memory->base) address += program.reg(*memory->base);
    if (memory->index) address += program.reg(*memory->index) * memory->scale;
    bits = program.sandbox.word(address);
  }
  if (source.is_high_byte) bits = bits >> 8;
  if (source.is_floating_point) return truncated(bits, source.bytes);
  return extended(bits, source.bytes, source.is_signed);
}

inline bool is_real_comparison_true(Operation operation, double left, double right) {
  switch (operation) {
    case Operation::equal:
      return left == right;
    case Operation::not_equal:
      return left != right;
    case Operation::less:
      return left < right;
    default:
      return left <= right;
  }
}

// Of two NaNs the result is the left one, which a compiler that swaps the sides would not know.
inline uint64_t real_result(Operation operation, uint64_t left, uint64_t right) {
  if (operation == Operation::negate) return left ^ uint64_t { 1 } << 63;
  const auto second = std::bit_cast<double>(right);
  auto result = std::bit_cast<double>(left);
  if (operation == Operation::add)
    asm("addsd %1, %0" : "+x"(result) : "x"(second));
  else if (operation == Operation::subtract)
    asm("subsd %1, %0" : "+x"(result) : "x"(second));
  else if (operation == Operation::multiply)
    asm("mulsd %1, %0" : "+x"(result) : "x"(second));
  else if (operation == Operation::divide)
    asm("divsd %1, %0" : "+x"(result) : "x"(second));
  else
    return is_real_comparison_true(operation, result, second) ? 1 : 0;
  return std::bit_cast<uint64_t>(result);
}

inline uint64_t result_of(const Expression& all, const Step& step, const Program& program) {
  const auto left = [&] { return result_of(all, all.steps[step.left], program); };
  const auto right = [&] { return result_of(all, all.steps[step.right], program); };
  const auto signed_left = [&] { return static_cast<int64_t>(left()); };
  const auto signed_right = [&] { return static_cast<int64_t>(right()); };
  if (step.is_real)
    return real_result(step.operation, left(), step.operation == Operation::negate ? 0 : right());
  switch (step.operation) {
    case Operation::take:
      return taken(step.source, program);
    case Operation::narrow:
      return extended(left(), step.bytes, step.is_signed);
    case Operation::negate:
      return 0 - left();
    case Operation::complement:
      return ~left();
    case Operation::is_zero:
      return left() == 0 ? 1 : 0;
    case Operation::to_real:
      return std::bit_cast<uint64_t>(step.is_signed ? static_cast<double>(signed_left())
                                                    : static_cast<double>(left()));
    case Operation::widen:
      return std::bit_cast<uint64_t>(double{std::bit_cast<float>(static_cast<uint32_t>(left()))});
    case Operation::to_integer:
      return truncated(left(), sizeof(uint64_t));
    case Operation::add:
      return left() + right();
    case Operation::subtract:
      return left() - right();
    case Operation::multiply:
      return left() * right();
    case Operation::divide:
      if (right() == 0) return 0;
      if (step.is_signed && signed_right() == -1) return 0 - left();
      return step.is_signed ? static_cast<uint64_t>(signed_left() / signed_right())
                            : left() / right();
    case Operation::remainder:
      if (right() == 0 || (step.is_signed && signed_right() == -1)) return 0;
      return step.is_signed ? static_cast<uint64_t>(signed_left() % signed_right())
                            : left() % right();
    case Operation::bit_and:
      return left() & right();
    case Operation::bit_or:
      return left() | right();
    case Operation::bit_xor:
      return left() ^ right();
    case Operation::shift_left:
      return left() << (right() % 64);
    case Operation::shift_right:
      return step.is_signed ? static_cast<uint64_t>(signed_left() >> (right() % 64))
                            : left() >> (right() % 64);
    case Operation::equal:
      return left() == right() ? 1 : 0;
    case Operation::not_equal:
      return left() != right() ? 1 : 0;
    case Operation::less:
      return (step.is_signed ? signed_left() < signed_right() : left() < right()) ? 1 : 0;
    case Operation::less_or_equal:
      return (step.is_signed ? signed_left() <= signed_right() : left() <= right()) ? 1 : 0;
    case Operation::both:
      return left() != 0 && right() != 0 ? 1 : 0;
    case Operation::either:
      return left() != 0 || right() != 0 ? 1 : 0;
    case Operation::guarded:
      return left() != 0 ? right() : 0;
    case Operation::load: {
      const Address at = left();
      uint64_t bits = 0;
      if (program.has(at, step.bytes))
        std::memcpy(&bits, program.sandbox.memory().data() + (at - program.sandbox.data()),
                    step.bytes);
      return extended(bits, step.bytes, step.is_signed);
    }
    default:
      return 0;  // texts are tested by themselves
  }
}

// Can all be read that its value needs?
inline bool has_value(const Expression& all, const Step& step, const Program& program) {
  if (step.operation == Operation::take) return true;
  const Step& left = all.steps[step.left];
  if (!has_value(all, left, program)) return false;
  const auto value_of_left = [&] { return result_of(all, left, program); };
  switch (step.operation) {
    case Operation::narrow:
    case Operation::negate:
    case Operation::complement:
    case Operation::is_zero:
    case Operation::to_real:
    case Operation::widen:
    case Operation::to_integer:
      return true;
    case Operation::load:
      return program.has(value_of_left(), step.bytes);
    case Operation::both:
    case Operation::guarded:
      if (value_of_left() == 0) return true;
      break;
    case Operation::either:
      if (value_of_left() != 0) return true;
      break;
    default:
      break;
  }
  return has_value(all, all.steps[step.right], program);
}

inline std::string shown(const Expression& all, const Program& program) {
  std::string text;
  for (const Step& step : all.steps) {
    const Source& source = step.source;
    text += "\n" + std::to_string(static_cast<int>(step.operation)) + " left " +
            std::to_string(step.left) + " right " + std::to_string(step.right) +
            (step.is_signed ? " signed " : " ") + (step.is_real ? "real " : "") +
            std::to_string(step.bytes) + " register " + std::to_string(source.register_number) +
            " bytes " + std::to_string(source.bytes) + " instead " +
            std::to_string(source.instead.index()) + (source.is_signed ? " signed" : "") +
            (source.is_high_byte ? " high" : "") + (source.is_floating_point ? " float" : "") +
            (source.is_vector ? " vector" : "") + " = " +
            std::to_string(result_of(all, step, program));
  }
  return text;
}

// --- Random expressions

inline constexpr uint64_t kNotable[] = {0,
                                        1,
                                        2,
                                        7,
                                        64,
                                        127,
                                        128,
                                        255,
                                        256,
                                        0x7fff,
                                        0x8000,
                                        0xffff,
                                        0x10000,
                                        0x7fffffff,
                                        0x80000000,
                                        0xffffffff,
                                        0x1'0000'0000,
                                        ~0ull,
                                        ~0ull - 1,
                                        0x8000000000000000,
                                        0x7fffffffffffffff,
                                        0x3ff8000000000000,  // 1.5, and infinity, NaN
                                        0x7ff0000000000000,
                                        0xfff0000000000000,
                                        0x7ff8000000000000,
                                        0x3fc00000,
                                        0xffffffff80000000};

class Generator {
 public:
  Generator(std::mt19937_64& random, Sandbox& sandbox) : random_(random), sandbox_(sandbox) {}

  // A state in which comparisons may well hold, and two registers lead to memory.
  MachineState state() {
    MachineState start = random_state(random_, sandbox_);
    for (uint64_t& reg : start.general)
      if (&reg != &start[Reg::rsp] && below(3) != 0)
        reg = below(4) == 0 ? random_() : kNotable[below(std::size(kNotable))];
    start[Reg::r12] = data() + 512 + below(512);
    has_address_in_rcx_ = below(2) == 0;
    if (has_address_in_rcx_) start[Reg::rcx] = data() + 512 + below(512);
    start[Reg::r13] = below(16);
    start[Reg::rax] = below(2) == 0 ? start[Reg::rax] : below(16);
    if (below(2) == 0) {
      // Floating-point numbers that are some integer's neighbours.
      const double real = static_cast<double>(static_cast<int64_t>(random_())) / 4096;
      constexpr size_t kXmm = 160;
      for (size_t i = 0; i < 16; ++i)
        std::memcpy(start.extended.data() + kXmm + 16 * i, &real, sizeof real);
    }
    return start;
  }

  // From now on, expressions read through pointers, too.
  void follow_pointers() { follows_ = true; }

  // With `at_return`, of what a call keeps, too.
  Expression expression(const MachineState& start, StackUse stack, size_t most_steps,
                        bool at_return = false) {
    start_ = &start;
    stack_ = stack;
    at_return_ = at_return;
    Expression all;
    add(all, 1 + below(most_steps));
    return all;
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  // Above all that is on the stack.
  Address data() const { return sandbox_.data_middle() + 1024; }

  uint64_t number() { return below(8) == 0 ? random_() : kNotable[below(std::size(kNotable))]; }

  // Adds at most this many steps. Returns the number of the last one.
  uint16_t add(Expression& all, size_t most) {
    Step step;
    step.is_signed = below(2) == 0;
    if (most < 2 || below(8) == 0) {
      step.source = source();
    } else if (follows_ && below(6) == 0) {
      step.operation = Operation::load;
      step.bytes = width();
      step.left = add_pointer(all);
    } else if (most == 2 || below(5) == 0) {
      constexpr Operation kOfOne[] = {
          Operation::narrow,  Operation::negate, Operation::complement, Operation::is_zero,
          Operation::to_real, Operation::widen,  Operation::to_integer};
      step.operation = kOfOne[below(std::size(kOfOne))];
      step.bytes = width();
      step.left = add(all, most - 1);
      step.is_real = step.operation == Operation::negate && below(2) == 0;
    } else {
      const auto first = static_cast<uint64_t>(Operation::add);
      const auto end = static_cast<uint64_t>(Operation::guarded) + 1;
      step.operation = static_cast<Operation>(first + below(end - first));
      const size_t of_left = 1 + below(most - 2);
      step.left = add(all, of_left);
      step.right = add(all, most - 1 - of_left);
      step.is_real = below(3) == 0 && has_reals(step.operation);
    }
    all.steps.push_back(step);
    return static_cast<uint16_t>(all.steps.size() - 1);
  }

  // To the data, to its end, or to nothing.
  uint16_t add_pointer(Expression& all) {
    constexpr uint64_t kNothing[] = {0, 4096, ~0ull, ~0ull - 6, 0x8000000000000000, 0x800000000000};
    Step step;
    if (below(3) == 0) {
      step.source.register_number = static_cast<uint8_t>(Reg::r12);
    } else {
      uint64_t at = data() + below(512);
      if (below(8) == 0) at = sandbox_.data() + Sandbox::kDataSize - 8 + below(16);
      if (below(8) == 0) at = kNothing[below(std::size(kNothing))];
      step.source.instead = Source::Constant{at};
    }
    all.steps.push_back(step);
    return static_cast<uint16_t>(all.steps.size() - 1);
  }

  static bool has_reals(Operation operation) {
    constexpr Operation kOfReals[] = {
        Operation::add,   Operation::subtract,  Operation::multiply, Operation::divide,
        Operation::equal, Operation::not_equal, Operation::less,     Operation::less_or_equal};
    return std::find(std::begin(kOfReals), std::end(kOfReals), operation) != std::end(kOfReals);
  }

  uint8_t width() { return static_cast<uint8_t>(1 << below(4)); }

  Source source() {
    Source source;
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        source.instead = Source::Constant{number()};
        return source;
      case 3:
        source.instead = memory();
        break;
      case 4:
        source.is_floating_point = source.is_vector = true;
        break;
      case 5:
        source.register_number = static_cast<uint8_t>(below(4));
        source.is_high_byte = true;
        source.bytes = 1;
        source.is_signed = below(2) == 0;
        return source;
      default:
        break;
    }
    if (at_return_ && source.instead.index() == 0 && !source.is_vector && below(3) == 0) {
      source.instead = Source::OfCall{.kept = static_cast<uint8_t>(below(2))};
      source.bytes = width();
      source.is_signed = below(2) == 0;
      return source;
    }
    source.register_number = static_cast<uint8_t>(below(16));
    source.bytes = width();
    source.is_signed = below(2) == 0;
    if (below(16) == 0) source.is_floating_point = true;
    if (source.is_floating_point) source.bytes = source.bytes < 8 ? 4 : 8;
    return source;
  }

  // Nothing below the stack pointer, but in the red zone if that is kept.
  Source::Memory memory() {
    const auto number = [](Reg reg) { return static_cast<uint8_t>(reg); };
    Source::Memory from;
    from.displacement = below(512);
    switch (below(4)) {
      case 0:
        from.base = number(Reg::rsp);
        if (stack_ == StackUse::keep_red_zone && below(2) == 0)
          from.displacement = 0 - (8 + below(kRedZone - 7));
        break;
      case 1:
        from.displacement += data();
        return from;
      default:
        from.base = number(has_address_in_rcx_ && below(2) == 0 ? Reg::rcx : Reg::r12);
        if (below(2) == 0) from.displacement = 0 - from.displacement;
        break;
    }
    if (below(3) == 0) {
      const bool takes_rax = (*start_)[Reg::rax] < 16;
      from.index = number(takes_rax ? Reg::rax : Reg::r13);
      from.scale = width();
    }
    return from;
  }

  std::mt19937_64& random_;
  Sandbox& sandbox_;
  const MachineState* start_ = nullptr;
  StackUse stack_ = StackUse::at_entry;
  bool has_address_in_rcx_ = false;
  bool at_return_ = false;
  bool follows_ = false;
};

}  // namespace pinprick::arch
