#include "action/at_return.h"

#include <algorithm>
#include <utility>

namespace pinprick::action {
namespace {

using select::Expression;
using select::Node;
using select::Operator;

bool has_value(const Expression& all, const Node& node) {
  return node.what == Operator::value ||
         (select::has_side(node.what) && has_value(all, all.nodes[node.left])) ||
         (select::has_right(node.what) && has_value(all, all.nodes[node.right]));
}

bool is_of_entry(const Expression& all, const Node& node) {
  if (node.what == Operator::value) return node.value.argument != 0 && !node.at_return;
  if (node.what == Operator::number) return !node.at_return;
  // If the address needs no value of the entry, the load is made at the return, as for variables.
  if (node.what == Operator::load && !has_value(all, all.nodes[node.left])) return false;
  return (!select::has_side(node.what) || is_of_entry(all, all.nodes[node.left])) &&
         (!select::has_right(node.what) || is_of_entry(all, all.nodes[node.right]));
}

void split(const Expression& all, const Node& node, WhenComputed& when) {
  if (node.what == Operator::both) {
    split(all, all.nodes[node.left], when);
    split(all, all.nodes[node.right], when);
  } else {
    select::add_term(all, node, is_of_entry(all, node) ? when.at_entry : when.at_return);
  }
}

// What is kept of a part of an expression, so that the return need not compute it.
std::optional<Expression> what_is_kept(const Expression& all, const Node& node) {
  if (node.what == Operator::value && node.value.argument == select::Value::kThread)
    return std::nullopt;
  if (node.what == Operator::value && node.value.argument != 0)
    return Expression{{{.what = Operator::value,
                        .value = {.register_number = node.value.register_number,
                                  .argument = node.value.argument,
                                  .frames = node.value.frames,
                                  .is_vector = node.value.is_vector}}}};
  if (!select::follows_pointer(all, node) || !is_of_entry(all, node)) return std::nullopt;
  Expression kept;
  select::append_copy(all, node, kept);
  return kept;
}

void add_kept_of(const Expression& all, const Node& node, std::vector<Expression>& values) {
  if (auto kept = what_is_kept(all, node)) {
    if (std::find(values.begin(), values.end(), *kept) == values.end())
      values.push_back(*std::move(kept));
    return;
  }
  if (select::has_side(node.what)) add_kept_of(all, all.nodes[node.left], values);
  if (select::has_right(node.what)) add_kept_of(all, all.nodes[node.right], values);
}

}  // namespace

WhenComputed when_computed(const Action& action, Entry entry) {
  const Expression& condition = action.condition.expression;
  if (!action.at_return) return {condition, {}};
  if (entry == Entry::does_not_decide) return {{}, condition};
  WhenComputed when;
  if (!condition.empty()) split(condition, condition.nodes.back(), when);
  return when;
}

void add_kept(const Action& action, Entry entry, std::vector<Expression>& values) {
  if (!action.computes_at_return()) return;
  const WhenComputed when = when_computed(action, entry);
  for (const Expression* one :
       {&when.at_return, &action.value.expression, &action.key.expression, &action.sum.expression})
    if (!one->empty()) add_kept_of(*one, one->nodes.back(), values);
  for (const Field& field : action.fields)
    add_kept_of(field.value.expression, field.value.expression.nodes.back(), values);
}

std::optional<uint8_t> kept_at(const std::vector<Expression>& values, const Expression& all,
                               const Node& node) {
  const auto kept = what_is_kept(all, node);
  if (!kept) return std::nullopt;
  const auto found = std::find(values.begin(), values.end(), *kept);
  if (found == values.end()) return std::nullopt;
  return static_cast<uint8_t>(found - values.begin());
}

}  // namespace pinprick::action
