#include "select/expression.h"

#include <algorithm>

#include "select/words.h"

namespace pinprick::select {

uint16_t append_copy(const Expression& from, const Node& node, Expression& to) {
  Node copy = node;
  if (has_side(node.what)) copy.left = append_copy(from, from.nodes[node.left], to);
  if (has_right(node.what)) copy.right = append_copy(from, from.nodes[node.right], to);
  to.nodes.push_back(copy);
  return static_cast<uint16_t>(to.nodes.size() - 1);
}

Expression list_of(const std::vector<Expression>& parts) {
  Expression list;
  for (const Expression& part : parts) {
    const bool is_first = list.empty();
    const auto before = static_cast<uint16_t>(is_first ? 0 : list.nodes.size() - 1);
    const uint16_t added = append_copy(part, part.nodes.back(), list);
    if (!is_first) list.nodes.push_back({.what = Operator::pair, .left = before, .right = added});
  }
  return list;
}

std::vector<Expression> parts_of(const Expression& expression) {
  std::vector<Expression> parts;
  const auto add = [&](const Node& node) { append_copy(expression, node, parts.emplace_back()); };
  const Node* rest = &expression.nodes.back();
  for (; rest->what == Operator::pair; rest = &expression.nodes[rest->left])
    add(expression.nodes[rest->right]);
  add(*rest);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

void add_term(const Expression& from, const Node& node, Expression& to) {
  const bool is_first = to.empty();
  const auto before = static_cast<uint16_t>(is_first ? 0 : to.nodes.size() - 1);
  const uint16_t added = append_copy(from, node, to);
  if (!is_first) to.nodes.push_back({.what = Operator::both, .left = before, .right = added});
}

bool has_argument(const Expression& expression) {
  return std::any_of(expression.nodes.begin(), expression.nodes.end(), [](const Node& node) {
    return node.what == Operator::value && node.value.argument != 0 && !node.value.is_of_any_hit();
  });
}

bool has_register(const Expression& expression) {
  return std::any_of(expression.nodes.begin(), expression.nodes.end(), [](const Node& node) {
    return node.what == Operator::value && node.value.is_register();
  });
}

bool has_caller(const Expression& expression) {
  return std::any_of(expression.nodes.begin(), expression.nodes.end(), [](const Node& node) {
    return node.what == Operator::value && node.value.argument == Value::kCaller;
  });
}

bool is_caller(const Expression& expression) {
  return expression.nodes.size() == 1 &&
         expression.nodes.front().value.argument == Value::kCaller &&
         expression.nodes.front().value.bytes == sizeof(uint64_t);
}

bool is_real(const Expression& all, const Node& node) {
  const auto left = [&] { return is_real(all, all.nodes[node.left]); };
  const auto right = [&] { return is_real(all, all.nodes[node.right]); };
  switch (node.what) {
    case Operator::number:
    case Operator::cast:
    case Operator::load:
      return node.is_real;
    case Operator::value:
      return node.value.is_real;
    case Operator::negate:
      return left();
    case Operator::guarded:
      return right();
    case Operator::add:
    case Operator::subtract:
    case Operator::multiply:
    case Operator::divide:
      return left() || right();
    default:
      return false;
  }
}

bool is_real(const Expression& expression) {
  return !expression.empty() && is_real(expression, expression.nodes.back());
}

Expression as_integer(const Expression& expression) {
  if (!is_real(expression)) return expression;
  Expression integer = expression;
  const auto last = static_cast<uint16_t>(integer.nodes.size() - 1);
  integer.nodes.push_back({.what = Operator::cast, .is_signed = true, .left = last});
  return integer;
}

bool has_stack(const Expression& expression) {
  return std::any_of(expression.nodes.begin(), expression.nodes.end(), [](const Node& node) {
    return node.what == Operator::value && node.value.argument == Value::kStack;
  });
}

bool has_error(const Expression& expression) {
  return std::any_of(expression.nodes.begin(), expression.nodes.end(),
                     [](const Node& node) { return node.value.is_error; });
}

bool has_thread(const Expression& expression) {
  return std::any_of(expression.nodes.begin(), expression.nodes.end(), [](const Node& node) {
    return node.what == Operator::value && node.value.argument == Value::kThread;
  });
}

bool is_stack(const Expression& expression) {
  return expression.nodes.size() == 1 && expression.nodes.front().value.argument == Value::kStack;
}

bool is_self_time(const Expression& expression) {
  return expression.nodes.size() == 1 &&
         expression.nodes.front().value.argument == Value::kSelfTime;
}

Expression self_time() {
  Value value;
  value.argument = Value::kSelfTime;
  value.sign = Value::Sign::none;
  return {{{.what = Operator::value, .value = value}}};
}

bool is_text(const Expression& expression) {
  if (expression.empty()) return false;
  const Node& last = expression.nodes.back();
  return is_text(last.what == Operator::guarded ? expression.nodes[last.right] : last);
}

bool follows_pointer(const Expression& all, const Node& node) {
  const bool itself = (node.what >= Operator::load && node.what <= Operator::like_text) ||
                      node.what == Operator::text_of_length || node.what == Operator::element ||
                      node.value.argument == Value::kStack;
  return itself || (has_side(node.what) && follows_pointer(all, all.nodes[node.left])) ||
         (has_right(node.what) && follows_pointer(all, all.nodes[node.right]));
}

bool follows_pointer(const Expression& expression) {
  return !expression.empty() && follows_pointer(expression, expression.nodes.back());
}

bool has_name(const Expression& expression) {
  return std::ranges::any_of(expression.nodes, names_something);
}

size_t position_of_name(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool starts = at == 0 || (!is_word(text[at - 1]) && text[at - 1] != '$' &&
                                    text[at - 1] != '%' && text[at - 1] != ':');
    if (starts && (end == text.size() || !is_word(text[end]))) return at;
  }
  return text.npos;
}

}  // namespace pinprick::select
