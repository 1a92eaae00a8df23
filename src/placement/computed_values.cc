// The part of a probe set that knows what a hit computes, and where it finds the arguments.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "action/at_return.h"
#include "action/compile.h"
#include "placement/probe_set.h"
#include "select/operand.h"

namespace pinprick::placement {
namespace {

arch::Source as_source(const select::Argument& argument) {
  arch::Source source = {.register_number = argument.register_number,
                         .bytes = argument.bytes,
                         .is_signed = argument.is_signed,
                         .is_high_byte = argument.is_high_byte,
                         .is_floating_point = argument.is_floating_point,
                         .is_vector = argument.is_vector};
  if (argument.kind == select::Operand::Kind::in_memory)
    source.instead =
        arch::Source::Memory{argument.base, argument.index, argument.scale, argument.number,
                             static_cast<arch::Source::Segment>(argument.segment)};
  else if (argument.kind == select::Operand::Kind::constant)
    source.instead = arch::Source::Constant{argument.number};
  return source;
}

static_assert(static_cast<int>(select::Segment::fs) == static_cast<int>(arch::Source::Segment::fs));
static_assert(static_cast<int>(select::Segment::gs) == static_cast<int>(arch::Source::Segment::gs));

// The key of a sum without one.
const arch::Expression kOneKey = arch::Source{.instead = arch::Source::Constant{0}};

// Hits read it where it is, as the program does: the set has those alone that lie in its data.
action::Found in_variable(const select::Value& wanted) {
  return {{.bytes = wanted.bytes,
           .instead = arch::Source::Memory{.displacement = wanted.variable},
           .is_signed = wanted.sign == select::Value::Sign::signed_},
          true};
}

action::Found number_of_thread(const select::Value& wanted) {
  return {{.bytes = wanted.bytes,
           .instead = arch::Source::Thread{},
           .is_signed = wanted.sign == select::Value::Sign::signed_},
          true};
}

action::Found error_of_thread(const select::Value& wanted) {
  return {{.bytes = wanted.bytes,
           .instead =
               arch::Source::OfThread{wanted.variable, static_cast<int32_t>(wanted.thread_offset)},
           .is_signed = wanted.sign == select::Value::Sign::signed_},
          true};
}

// A register is as the call has left it.
action::Found at_return(const select::Value& wanted) {
  if (wanted.is_error) return error_of_thread(wanted);
  if (wanted.variable != 0) return in_variable(wanted);
  if (wanted.argument == select::Value::kThread) return number_of_thread(wanted);
  assert(wanted.name.empty() && wanted.argument == 0);
  arch::Source source = {.register_number = wanted.register_number,
                         .bytes = wanted.bytes,
                         .is_signed = wanted.sign == select::Value::Sign::signed_,
                         .is_vector = wanted.is_vector};
  if (wanted.is_latency) source.instead = arch::Source::OfCall{};
  return {source};
}

}  // namespace

action::Found ProbeSet::source_of(const image::Match& match, const select::Value& wanted) const {
  assert(wanted.name.empty());
  if (wanted.is_error) return error_of_thread(wanted);
  if (wanted.variable != 0) return in_variable(wanted);
  if (match.point == nullptr && wanted.argument == select::Value::kCaller)
    return {{.bytes = wanted.bytes,
             .instead = arch::Source::ReturnAddress{},
             .is_signed = wanted.sign == select::Value::Sign::signed_},
            true};
  if (wanted.argument == select::Value::kStack) {
    const bool is_at_entry = match.point == nullptr && !match.each_instruction && match.at_entry();
    return {{.instead = arch::Source::Stack{wanted.frames, is_at_entry}}, true};
  }
  if (wanted.argument == select::Value::kThread) return number_of_thread(wanted);
  if (wanted.argument == select::Value::kSelfTime)
    return {{.instead = arch::Source::AccountedTime{}}, true};
  if (match.point == nullptr || wanted.argument == 0)
    return {{.register_number = wanted.register_number,
             .bytes = wanted.bytes,
             .is_signed = wanted.sign == select::Value::Sign::signed_,
             .is_vector = wanted.is_vector}};
  auto found = select::argument_of(match.point->arguments, wanted);
  assert(found);
  if (!found) return {};
  if (!found->symbol.empty()) {
    const auto variable = variables.find({match.object, std::string(found->symbol)});
    assert(variable != variables.end());
    found->number += variable->second;
  }
  return {as_source(*found), true};
}

arch::Expression ProbeSet::compiled(const Probe& probe, const action::Computed& what) const {
  if (what.empty()) return {};
  const image::Match& match = matches[probe.match];
  return action::compile(what.expression,
                         [&](const select::Value& wanted) { return source_of(match, wanted); });
}

// A histogram has integers.
arch::Expression ProbeSet::value_of(const Probe& probe) const {
  return compiled(probe, {select::as_integer(action_of(probe).value.expression), {}});
}
std::vector<arch::Expression> ProbeSet::fields_of(const Probe& probe) const {
  std::vector<arch::Expression> fields;
  for (const action::Field& one : action_of(probe).fields)
    fields.push_back(compiled(probe, one.value));
  return fields;
}
arch::Expression ProbeSet::condition_of(const Probe& probe) const {
  const image::Match& match = matches[probe.match];
  const action::Action& action = action_of(probe);
  if (action.condition.empty()) return {};
  const auto entry = action.at_return ? entry_of(patches[probe.patch]) : action::Entry::decides;
  const select::Expression condition = action::when_computed(action, entry).at_entry;
  if (condition.empty()) return {};
  return action::compile(condition,
                         [&](const select::Value& wanted) { return source_of(match, wanted); });
}
arch::Expression ProbeSet::sum_of(const Probe& probe) const {
  return compiled(probe, action_of(probe).sum);
}
std::optional<layout::NumberOrder> ProbeSet::order_of_extremes(const Probe& probe) const {
  const action::Action& action = action_of(probe);
  // Floating-point numbers are added up by the routine for extremes.
  if (action.adds_reals()) return layout::NumberOrder::real;
  if (!action.keeps_extremes) return std::nullopt;
  return is_signed(probe, action.sum) ? layout::NumberOrder::with_sign
                                      : layout::NumberOrder::without_sign;
}
arch::Expression ProbeSet::key_of(const Probe& probe) const {
  if (action_of(probe).has_key()) return compiled(probe, action_of(probe).key);
  if (action_of(probe).has_sum()) return kOneKey;
  return {};
}

// An argument is as it was at the entry, and so is what it leads to, unless it is to be read at the
// return.
arch::AtReturn ProbeSet::at_return_of(const Probe& probe,
                                      const std::vector<select::Expression>& kept) const {
  const action::Action& action = action_of(probe);
  const auto kept_of = [&](const select::Expression& all,
                           const select::Node& node) -> std::optional<action::Found> {
    const auto index = action::kept_at(kept, all, node);
    if (!index) return std::nullopt;
    arch::Source place = {.instead = arch::Source::OfCall{.kept = *index}};
    if (node.what == select::Operator::value && node.value.argument == select::Value::kSelfTime) {
      place.instead = arch::Source::SelfTime{*index};
      return action::Found{place, true};
    }
    if (node.what == select::Operator::value) {
      place.bytes = node.value.bytes;
      place.is_signed = node.value.sign == select::Value::Sign::signed_;
      return action::Found{place, node.value.sign != select::Value::Sign::of_site};
    }
    const SitePatch& patch = patches[probe.patch];
    std::get<arch::Source::OfCall>(place.instead).may_be_unread =
        arch::may_be_unread(compiled_at_entry(patch, kept[*index]));
    place.is_signed = action::is_signed(kept[*index], [&](const select::Value& wanted) {
      return source_of(matches[probe.match], wanted);
    });
    return action::Found{place, true};
  };
  const auto compiled_for_return = [&](const select::Expression& expression) {
    return expression.empty() ? arch::Expression()
                              : action::compile(expression, at_return, kept_of);
  };
  if (!action.computes_at_return()) return {};
  const auto entry = entry_of(patches[probe.patch]);
  const select::Expression value =
      action.has_sum() ? action.sum.expression : select::as_integer(action.value.expression);
  arch::AtReturn what = {compiled_for_return(action::when_computed(action, entry).at_return),
                         compiled_for_return(value), compiled_for_return(action.key.expression)};
  if (!action.has_key() && action.has_sum()) what.key = kOneKey;
  if (action.kind == Kind::event) {
    what.event.emplace();
    for (const action::Field& one : action.fields)
      what.event->values.push_back(compiled_for_return(one.value.expression));
  }
  return what;
}

action::Entry ProbeSet::entry_of(const SitePatch& patch) const {
  std::optional<select::Expression> first;
  for (const size_t probe : patch.probes) {
    if (!times_call(probes[probe])) continue;
    auto condition = action::when_computed(action_of(probes[probe])).at_entry;
    if (!first)
      first = std::move(condition);
    else if (condition != *first)
      return action::Entry::does_not_decide;
  }
  return action::Entry::decides;
}

std::vector<select::Expression> ProbeSet::kept_values(const SitePatch& patch) const {
  std::vector<select::Expression> kept;
  const auto entry = entry_of(patch);
  for (const size_t probe : patch.probes) action::add_kept(action_of(probes[probe]), entry, kept);
  return kept;
}

arch::Expression ProbeSet::compiled_at_entry(const SitePatch& patch,
                                             const select::Expression& kept) const {
  const auto timed = std::find_if(patch.probes.begin(), patch.probes.end(),
                                  [&](size_t probe) { return times_call(probes[probe]); });
  const image::Match& match = matches[probes[*timed].match];
  return action::compile(kept,
                         [&](const select::Value& wanted) { return source_of(match, wanted); });
}

bool ProbeSet::has_signed_value(const Probe& probe) const {
  const image::Match& match = matches[probe.match];
  return action::has_sign(select::as_integer(action_of(probe).value.expression),
                          [&](const select::Value& wanted) { return source_of(match, wanted); });
}

layout::KeyParts ProbeSet::key_parts(const Probe& probe) const {
  using Is = layout::KeyParts::Is;
  static_assert(select::kMostParts <= layout::KeyParts::kMost);
  layout::KeyParts parts;
  const action::Computed& key = action_of(probe).key;
  if (!action_of(probe).has_list_key()) return parts;
  for (const select::Expression& one : select::parts_of(key.expression))
    parts.add(select::is_text(one)          ? Is::text
              : select::is_real(one)        ? Is::real
              : select::is_caller(one)      ? Is::code
              : select::is_stack(one)       ? Is::stack
              : is_signed(probe, {one, {}}) ? Is::signed_number
                                            : Is::number);
  return parts;
}

bool ProbeSet::is_signed(const Probe& probe, const action::Computed& what) const {
  const image::Match& match = matches[probe.match];
  return action::is_signed(what.expression,
                           [&](const select::Value& wanted) { return source_of(match, wanted); });
}

}  // namespace pinprick::placement
