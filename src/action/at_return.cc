#include "action/at_return.h"

#include <algorithm>
#include <utility>

namespace pinprick::action {
namespace {

using select::Expression;
using select::Node;
using select::Operator;

bool is_of_entry(const Expression& all, const Node& node) {
  if (node.what == Operator::value) return node.value.argument != 0;
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

}  // namespace

WhenComputed when_computed(const Action& action, Entry entry) {
  const Expression& condition = action.condition.expression;
  if (!action.at_return) return {condition, {}};
  if (entry == Entry::does_not_decide) return {{}, condition};
  WhenComputed when;
  if (!condition.empty()) split(condition, condition.nodes.back(), when);
  return when;
}

void add_kept_arguments(const Action& action, Entry entry, std::vector<uint8_t>& arguments) {
  if (!action.computes_at_return()) return;
  const WhenComputed when = when_computed(action, entry);
  for (const Expression* one :
       {&when.at_return, &action.value.expression, &action.key.expression, &action.sum.expression})
    for (const Node& node : one->nodes)
      if (node.what == Operator::value && node.value.argument != 0 &&
          std::find(arguments.begin(), arguments.end(), node.value.argument) == arguments.end())
        arguments.push_back(node.value.argument);
}

}  // namespace pinprick::action
