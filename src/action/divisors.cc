#include "action/divisors.h"

#include <utility>

namespace pinprick::action {
namespace {

using select::Expression;
using select::Node;
using select::Operator;

// Inner divisors come first: what is after one is not computed where it is 0.
void add_divisors(const Expression& all, const Node& node, Expression& to) {
  if (select::has_side(node.what)) add_divisors(all, all.nodes[node.left], to);
  if (!select::has_right(node.what)) return;
  const Node& right = all.nodes[node.right];
  add_divisors(all, right, to);
  const bool divides = node.what == Operator::divide || node.what == Operator::remainder;
  if (divides && right.what != Operator::number) select::add_term(all, right, to);
}

}  // namespace

void require_divisors(Action& action) {
  Expression required;
  const auto add = [&](const Computed& one) {
    if (!one.empty()) add_divisors(one.expression, one.expression.nodes.back(), required);
  };
  add(action.value);
  add(action.sum);
  if (action.at_return || !action.times_call()) add(action.key);
  for (const Field& field : action.fields) add(field.value);
  add(action.condition);
  if (required.empty()) return;
  const Expression& condition = action.condition.expression;
  if (!condition.empty()) select::add_term(condition, condition.nodes.back(), required);
  action.condition.expression = std::move(required);
}

}  // namespace pinprick::action
