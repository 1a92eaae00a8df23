#include "action/action.h"

#include <algorithm>

namespace pinprick::action {

void tell_null(select::Expression& expression) {
  for (select::Node& node : expression.nodes)
    if (node.what == select::Operator::text || node.what == select::Operator::text_of_length)
      node.tells_null = true;
}

void tell_real(Field& field) {
  select::Expression& expression = field.value.expression;
  if (field.layout || field.shown != Field::Shown::as_it_is || !select::is_real(expression)) return;
  field.layout = ValueLayout{.kind = ValueLayout::Kind::floating};
  if (!select::follows_pointer(expression) || expression.nodes.size() + 2 > select::kMostNodes)
    return;
  const auto last = static_cast<uint16_t>(expression.nodes.size() - 1);
  expression.nodes.push_back({.what = select::Operator::number, .is_real = true});
  expression.nodes.push_back(
      {.what = select::Operator::add, .left = last, .right = static_cast<uint16_t>(last + 1)});
}

Actions::Actions(Kind of_all) : all_(1) {
  all_.front().kind = of_all;
}

Actions::Actions(std::vector<Action> all, std::vector<uint32_t> by_pattern)
    : all_(std::move(all)), by_pattern_(std::move(by_pattern)) {
  if (all_.empty()) all_.emplace_back();
}

// Most scopes have the same action as one before. With debug information each may have its own.
void Actions::add_in(const Scope& scope, uint32_t pattern, Action here) {
  constexpr size_t kCompared = 64;
  const size_t first = all_.size() - std::min(all_.size(), kCompared);
  const auto same = std::find(all_.begin() + static_cast<ptrdiff_t>(first), all_.end(), here);
  const auto number = static_cast<uint32_t>(same - all_.begin());
  if (same == all_.end()) all_.push_back(std::move(here));
  in_scopes_[{number_of(pattern), scope}] = number;
}

bool Actions::has(Kind kind) const {
  return std::any_of(all_.begin(), all_.end(), [&](const Action& one) { return one.kind == kind; });
}

bool Action::follows_pointers() const {
  bool follows = tells_arguments || tells_variables;
  for_each_expression(
      [&](const Computed& one) { follows = follows || select::follows_pointer(one.expression); });
  return follows;
}

bool Action::reads_texts() const {
  return tells_arguments || tells_variables || has_text_key() || has_list_key() ||
         std::any_of(fields.begin(), fields.end(),
                     [](const Field& field) { return select::is_text(field.value.expression); }) ||
         tells_stack();
}

bool Action::tells_stack() const {
  bool tells = false;
  for_each_expression(
      [&](const Computed& one) { tells = tells || select::has_stack(one.expression); });
  return tells;
}

bool Action::tells_thread() const {
  bool tells = false;
  for_each_expression(
      [&](const Computed& one) { tells = tells || select::has_thread(one.expression); });
  return tells;
}

bool Action::tells_self_time() const {
  return select::is_self_time(value.expression);
}

bool Actions::tell_self_times() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Action& one) { return one.tells_self_time(); });
}

bool Actions::tell_errors() const {
  return std::any_of(all_.begin(), all_.end(), [](const Action& one) {
    bool tells = false;
    one.for_each_expression(
        [&](const Computed& computed) { tells = tells || select::has_error(computed.expression); });
    return tells;
  });
}

bool Actions::follows_pointers() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Action& one) { return one.follows_pointers(); });
}

bool Actions::reads_texts() const {
  return std::any_of(all_.begin(), all_.end(), [](const Action& one) { return one.reads_texts(); });
}

bool Actions::has_lists() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Action& one) { return one.has_list_key(); });
}

bool Actions::tell_stacks() const {
  return std::any_of(all_.begin(), all_.end(), [](const Action& one) { return one.tells_stack(); });
}

bool Actions::tell_threads() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Action& one) { return one.tells_thread(); });
}

static bool shows_code(const ValueLayout& layout) {
  return layout.kind == ValueLayout::Kind::symbol ||
         std::any_of(layout.inner.begin(), layout.inner.end(), shows_code);
}

bool Actions::name_code() const {
  return std::any_of(all_.begin(), all_.end(), [](const Action& one) {
    bool names = one.tells_stack();
    one.for_each_expression([&](const Computed& computed) {
      names = names || select::has_caller(computed.expression);
    });
    for (const Field& field : one.fields)
      names = names || field.shown == Field::Shown::symbol ||
              (field.layout && shows_code(*field.layout));
    return names;
  });
}

bool Actions::uses_keys() const {
  return std::any_of(all_.begin(), all_.end(), [](const Action& one) { return one.uses_keys(); });
}

bool Actions::has_sums() const {
  return std::any_of(all_.begin(), all_.end(), [](const Action& one) { return one.has_sum(); });
}

bool Actions::have_extremes() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Action& one) { return one.keeps_extremes || one.adds_reals(); });
}

bool Actions::records_by_keys() const {
  return std::any_of(all_.begin(), all_.end(),
                     [](const Action& one) { return one.records_by_key(); });
}

bool Actions::has_others_than(Kind kind) const {
  return std::any_of(all_.begin(), all_.end(), [&](const Action& one) { return one.kind != kind; });
}

bool Actions::times_calls() const {
  return std::any_of(all_.begin(), all_.end(), [](const Action& one) { return one.times_call(); });
}

bool Actions::only_times_calls() const {
  return std::all_of(all_.begin(), all_.end(), [](const Action& one) { return one.times_call(); });
}

bool Actions::only_counts() const {
  return std::all_of(all_.begin(), all_.end(), [](const Action& one) { return one.counts(); });
}

}  // namespace pinprick::action
