// ExpressionBuilder: puts an expression together from others, step by step. Pure.
#pragma once

#include <cstdint>
#include <utility>

#include "select/expression.h"

namespace pinprick::session {

// Adds nodes to an expression, the last of which is its result.
class ExpressionBuilder {
 public:
  explicit ExpressionBuilder(select::Expression expression) : expression_(std::move(expression)) {}

  ExpressionBuilder& add_number(uint64_t number) {
    if (number == 0) return *this;
    const uint16_t left = last();
    const uint16_t right = push({.what = select::Operator::number, .number = number});
    push({.what = select::Operator::add, .left = left, .right = right});
    return *this;
  }
  ExpressionBuilder& load(uint64_t bytes, bool is_signed) {
    push({.what = select::Operator::load,
          .bytes = static_cast<uint8_t>(bytes),
          .is_signed = is_signed,
          .left = last()});
    return *this;
  }
  ExpressionBuilder& is_zero() {
    push({.what = select::Operator::is_zero, .left = last()});
    return *this;
  }
  ExpressionBuilder& text(uint8_t most) {
    push({.what = select::Operator::text, .bytes = most, .tells_null = true, .left = last()});
    return *this;
  }
  // Joins it, as the left side, with the other one.
  ExpressionBuilder& join(select::Operator what, const select::Expression& right,
                          uint8_t bytes = 8) {
    const uint16_t left = last();
    const uint16_t other = select::append_copy(right, right.nodes.back(), expression_);
    push({.what = what, .bytes = bytes, .left = left, .right = other});
    expression_.nodes.back().tells_null = what == select::Operator::text_of_length;
    return *this;
  }
  select::Expression take() { return std::move(expression_); }

 private:
  uint16_t last() const { return static_cast<uint16_t>(expression_.nodes.size() - 1); }
  uint16_t push(select::Node node) {
    expression_.nodes.push_back(std::move(node));
    return last();
  }
  select::Expression expression_;
};

// Returns whether both are not 0. An empty one does not count.
inline select::Expression both_of(const select::Expression& a, const select::Expression& b) {
  if (a.empty() || b.empty()) return a.empty() ? b : a;
  return ExpressionBuilder(a).join(select::Operator::both, b).take();
}

// Returns the value where the guard is not 0, or where it is empty; 0 elsewhere.
inline select::Expression guarded_by(const select::Expression& guard,
                                     const select::Expression& value) {
  if (guard.empty()) return value;
  return ExpressionBuilder(guard).join(select::Operator::guarded, value).take();
}

inline select::Expression number_expression(uint64_t number) {
  return {{{.what = select::Operator::number, .number = number}}};
}

}  // namespace pinprick::session
