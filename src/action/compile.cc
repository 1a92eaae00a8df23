#include "action/compile.h"

#include <bit>
#include <cassert>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace pinprick::action {
namespace {

using arch::Operation;
using arch::Step;
using select::has_right;
using select::Node;
using select::Operator;

static_assert(select::kMostText == arch::kMostText);
static_assert(select::kMostComparedText == arch::kMostComparedText);

constexpr uint64_t kFirstNegative = uint64_t{1} << 63;

Operation operation_of(Operator what) {
  switch (what) {
    case Operator::negate:
      return Operation::negate;
    case Operator::complement:
      return Operation::complement;
    case Operator::is_zero:
      return Operation::is_zero;
    case Operator::multiply:
      return Operation::multiply;
    case Operator::divide:
      return Operation::divide;
    case Operator::remainder:
      return Operation::remainder;
    case Operator::add:
      return Operation::add;
    case Operator::subtract:
      return Operation::subtract;
    case Operator::shift_left:
      return Operation::shift_left;
    case Operator::shift_right:
      return Operation::shift_right;
    case Operator::bit_and:
      return Operation::bit_and;
    case Operator::bit_or:
      return Operation::bit_or;
    case Operator::bit_xor:
      return Operation::bit_xor;
    case Operator::equal:
      return Operation::equal;
    case Operator::not_equal:
      return Operation::not_equal;
    case Operator::less:
    case Operator::greater:
      return Operation::less;
    case Operator::less_or_equal:
    case Operator::greater_or_equal:
      return Operation::less_or_equal;
    case Operator::both:
      return Operation::both;
    case Operator::either:
      return Operation::either;
    case Operator::guarded:
      return Operation::guarded;
    case Operator::pair:
      return Operation::pair;
    case Operator::number:
    case Operator::value:
      return Operation::take;
    case Operator::cast:
      return Operation::narrow;
    case Operator::load:
      return Operation::load;
    // Debug information has made others of them.
    case Operator::member:
    case Operator::pointee:
    case Operator::pointer_to:
    case Operator::element:
      break;
    case Operator::text:
      return Operation::text;
    case Operator::equals_text:
      return Operation::equals_text;
    case Operator::like_text:
      return Operation::like_text;
    case Operator::text_of_length:
      return Operation::text_of_length;
  }
  return Operation::take;
}

bool is_shift(Operator what) {
  return what == Operator::shift_left || what == Operator::shift_right;
}
// Has it a meaning of its own for floating-point numbers?
bool computes_reals(Operator what) {
  switch (what) {
    case Operator::negate:
    case Operator::is_zero:
    case Operator::add:
    case Operator::subtract:
    case Operator::multiply:
    case Operator::divide:
      return true;
    default:
      return what >= Operator::equal && what <= Operator::greater_or_equal;
  }
}
bool is_truth(Operator what) {
  return what == Operator::is_zero || what == Operator::equals_text ||
         what == Operator::like_text || (what >= Operator::equal && what <= Operator::either);
}

// What an operation of two numbers gives, if its code would be worth to be left out.
std::optional<uint64_t> computed(Operation operation, uint64_t left, uint64_t right) {
  switch (operation) {
    case Operation::negate:
      return 0 - left;
    case Operation::complement:
      return ~left;
    case Operation::add:
      return left + right;
    case Operation::subtract:
      return left - right;
    case Operation::multiply:
      return left * right;
    case Operation::shift_left:
      return left << (right & 63);
    case Operation::bit_and:
      return left & right;
    case Operation::bit_or:
      return left | right;
    case Operation::bit_xor:
      return left ^ right;
    default:
      return std::nullopt;
  }
}

class Compiler {
 public:
  Compiler(const select::Expression& expression, const SourceOf& source_of,
           const KeptOf& kept_of = nullptr)
      : from_(expression), source_of_(source_of), kept_of_(kept_of) {}

  // Returns the number of the node's last step, and sets whether its result has a sign.
  uint16_t compile(const Node& node, bool& is_signed);
  arch::Expression take() {
    arch::Expression compiled(std::move(steps_));
    compiled.texts = std::move(texts_);
    return compiled;
  }

 private:
  uint16_t add(const Step& step) {
    steps_.push_back(step);
    return static_cast<uint16_t>(steps_.size() - 1);
  }
  uint16_t number(uint64_t value) {
    return add({.source = {.instead = arch::Source::Constant{value}}});
  }
  uint16_t value(const Found& place, bool says_sign, bool& is_signed);
  uint16_t real_value(Found place);
  uint16_t kept(const Node& node, const Found& place, bool& is_signed);
  uint16_t integer_of(const Node& node, bool& is_signed);
  uint16_t real_of(const Node& node);
  uint16_t truth_of(const Node& node, bool& is_signed);
  uint16_t combined(const Node& node, bool& is_signed);
  uint16_t combined_reals(const Node& node, bool& is_signed);
  uint16_t followed(const Node& node, bool& is_signed);
  uint16_t cast(const Node& node, bool& is_signed);
  const uint64_t* constant_at(uint16_t step) const;

  const select::Expression& from_;
  const SourceOf& source_of_;
  const KeptOf kept_of_;
  std::vector<Step> steps_;
  std::vector<std::string> texts_;
};

const uint64_t* Compiler::constant_at(uint16_t step) const {
  if (steps_[step].operation != Operation::take) return nullptr;
  const auto* const constant = std::get_if<arch::Source::Constant>(&steps_[step].source.instead);
  return constant != nullptr ? &constant->value : nullptr;
}

uint16_t Compiler::value(const Found& place, bool says_sign, bool& is_signed) {
  // Fewer bytes without a sign are positive numbers of 64 bits.
  is_signed = place.source.bytes < 8 || place.source.is_signed || !(says_sign || place.knows_sign);
  return add({.source = place.source});
}

uint16_t Compiler::followed(const Node& node, bool& is_signed) {
  const uint16_t address = integer_of(from_.nodes[node.left], is_signed);
  Step step = {.operation = operation_of(node.what),
               .is_signed = node.is_signed,
               .tells_null = node.tells_null,
               .bytes = node.bytes,
               .left = address};
  is_signed = node.what != Operator::load || node.bytes < 8 || node.is_signed;
  if (is_truth(node.what)) {
    step.right = static_cast<uint16_t>(texts_.size());
    texts_.push_back(node.text);
  }
  const uint16_t loaded = add(step);
  return node.is_real && node.bytes == sizeof(float)
             ? add({.operation = Operation::widen, .left = loaded})
             : loaded;
}

// A floating-point number of 64 bits. Its place may say that it is to be taken as an integer.
uint16_t Compiler::real_value(Found place) {
  place.source.is_floating_point = place.source.is_signed = false;
  const bool is_narrow = place.source.bytes == sizeof(float);
  const uint16_t taken = add({.source = place.source});
  return is_narrow ? add({.operation = Operation::widen, .left = taken}) : taken;
}

// What was computed at the entry has 64 bits.
uint16_t Compiler::kept(const Node& node, const Found& place, bool& is_signed) {
  if (!select::is_real(from_, node)) return value(place, false, is_signed);
  if (node.what == Operator::value) return real_value(place);
  return add({.source = place.source});
}

uint16_t Compiler::integer_of(const Node& node, bool& is_signed) {
  const uint16_t of = compile(node, is_signed);
  if (!select::is_real(from_, node)) return of;
  is_signed = true;
  return add({.operation = Operation::to_integer, .left = of});
}

uint16_t Compiler::real_of(const Node& node) {
  if (node.what == Operator::number && !node.is_real) {
    const bool has_sign = node.number < kFirstNegative;
    const double real = has_sign ? static_cast<double>(static_cast<int64_t>(node.number))
                                 : static_cast<double>(node.number);
    return number(std::bit_cast<uint64_t>(real));
  }
  bool is_signed = true;
  const uint16_t of = compile(node, is_signed);
  if (select::is_real(from_, node)) return of;
  return add({.operation = Operation::to_real, .is_signed = is_signed, .left = of});
}

// Of what only says whether it is 0.
uint16_t Compiler::truth_of(const Node& node, bool& is_signed) {
  const uint16_t of = compile(node, is_signed);
  if (!select::is_real(from_, node)) return of;
  const uint16_t zero = number(0);
  return add({.operation = Operation::not_equal, .is_real = true, .left = of, .right = zero});
}

// A part of what a register or memory has is taken from there.
uint16_t Compiler::cast(const Node& node, bool& is_signed) {
  if (node.is_real) return real_of(from_.nodes[node.left]);
  const uint16_t of = integer_of(from_.nodes[node.left], is_signed);
  is_signed = node.bytes < 8 || node.is_signed;
  if (node.bytes == 8) return of;
  Step& step = steps_[of];
  const bool is_source = step.operation == Operation::take && constant_at(of) == nullptr &&
                         !step.source.is_floating_point && !step.source.is_high_byte;
  if (is_source && step.source.bytes >= node.bytes) {
    step.source.bytes = node.bytes;
    step.source.is_signed = node.is_signed;
    return of;
  }
  return add({.operation = Operation::narrow,
              .is_signed = node.is_signed,
              .bytes = node.bytes,
              .left = of});
}

uint16_t Compiler::compile(const Node& node, bool& is_signed) {
  if (kept_of_)
    if (const auto place = kept_of_(from_, node)) return kept(node, *place, is_signed);
  switch (node.what) {
    case Operator::number:
      is_signed = node.number < kFirstNegative;
      return number(node.number);
    case Operator::value:
      if (node.value.is_real) return real_value(source_of_(node.value));
      return value(source_of_(node.value), node.value.sign != select::Value::Sign::of_site,
                   is_signed);
    case Operator::cast:
      return cast(node, is_signed);
    case Operator::load:
    case Operator::text:
    case Operator::equals_text:
    case Operator::like_text:
      return followed(node, is_signed);
    default:
      break;
  }
  const bool has_real = select::is_real(from_, from_.nodes[node.left]) ||
                        (has_right(node.what) && select::is_real(from_, from_.nodes[node.right]));
  return has_real && computes_reals(node.what) ? combined_reals(node, is_signed)
                                               : combined(node, is_signed);
}

uint16_t Compiler::combined_reals(const Node& node, bool& is_signed) {
  is_signed = true;
  const uint16_t left = real_of(from_.nodes[node.left]);
  Step step = {.operation = operation_of(node.what), .is_real = true, .left = left};
  if (has_right(node.what)) step.right = real_of(from_.nodes[node.right]);
  if (node.what == Operator::is_zero) {
    step.operation = Operation::equal;
    step.right = number(0);
  }
  if (node.what == Operator::greater || node.what == Operator::greater_or_equal)
    std::swap(step.left, step.right);
  return add(step);
}

uint16_t Compiler::combined(const Node& node, bool& is_signed) {
  const bool swaps = node.what == Operator::greater || node.what == Operator::greater_or_equal;
  const size_t first = steps_.size();
  bool left_is_signed = true, right_is_signed = true;
  const auto side = [&](uint16_t of, bool& has_sign) {
    const Node& one = from_.nodes[of];
    const bool is_truth_alone = node.what == Operator::both || node.what == Operator::either ||
                                (node.what == Operator::guarded && of == node.left);
    const bool is_taken_as_it_is = node.what == Operator::guarded || node.what == Operator::pair;
    return is_truth_alone      ? truth_of(one, has_sign)
           : is_taken_as_it_is ? compile(one, has_sign)
                               : integer_of(one, has_sign);
  };
  uint16_t left = side(node.left, left_is_signed);
  uint16_t right = 0;
  if (has_right(node.what)) right = side(node.right, right_is_signed);
  if (node.what == Operator::guarded) left_is_signed = true;
  if (swaps) std::swap(left, right);
  Step step = {.operation = operation_of(node.what),
               .is_signed = left_is_signed && (right_is_signed || is_shift(node.what)),
               .tells_null = node.tells_null,
               .left = left,
               .right = right};
  is_signed = step.is_signed || is_truth(node.what);
  const uint64_t* const a = constant_at(left);
  const uint64_t* const b = has_right(node.what) ? constant_at(right) : a;
  if (a != nullptr && b != nullptr)
    if (const auto result = computed(step.operation, *a, *b)) {
      steps_.resize(first);
      return number(*result);
    }
  return add(step);
}

}  // namespace

arch::Expression compile(const select::Expression& expression, const SourceOf& source_of) {
  return compile(expression, source_of, nullptr);
}

arch::Expression compile(const select::Expression& expression, const SourceOf& source_of,
                         const KeptOf& kept_of) {
  assert(!expression.empty());
  Compiler compiler(expression, source_of, kept_of);
  bool is_signed = true;
  compiler.compile(expression.nodes.back(), is_signed);
  return compiler.take();
}

bool is_signed(const select::Expression& expression, const SourceOf& source_of) {
  Compiler compiler(expression, source_of);
  bool is_signed = true;
  compiler.compile(expression.nodes.back(), is_signed);
  return is_signed;
}

bool has_sign(const select::Expression& expression, const SourceOf& source_of) {
  const Node& last = expression.nodes.back();
  if (last.what == Operator::value) return source_of(last.value).source.is_signed;
  return is_signed(expression, source_of);
}

}  // namespace pinprick::action
