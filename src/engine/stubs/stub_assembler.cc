#include "engine/stubs/stub_assembler.h"

#include <fmt/format.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "action/compile.h"

#include "arch/jump.h"
#include "engine/memory/kept_memory.h"
#include "engine/plan/span_points.h"
#include "engine/stubs/known_stubs.h"
#include "engine/text/read_permission.h"
#include "runtime/image.h"
#include "select/expression.h"

namespace pinprick::engine {

using layout::SiteEntry;
using placement::Hook;
using placement::SitePatch;

std::optional<arch::Stub> StubAssembler::assemble(size_t patch, arch::Assembler& code,
                                                  const arch::ArenaEntries& entries,
                                                  StubActions& actions) const {
  const SitePatch& planned = plan_.set.patches[patch];
  const auto link = plan_.link_of(patch);
  if (plan_.is_hook(patch, Hook::Kind::vfork))
    return placement::place_vfork_hook(code, planned, facts_.rseq.value_or(arch::RseqArea{}), link);
  if (plan_.serves_unwinding(patch))
    return placement::place_unwinder_hook(code, planned, entries, facts_.hook, link);
  actions.list.clear();
  actions.metrics.clear();
  actions.at_return.clear();
  add_actions(patch, actions);
  const bool has_switches = facts_.switches == Switches::for_each_probe && !planned.hook;
  return placement::place_stub(
      code, planned, entries,
      {.rseq = facts_.rseq, .has_switches = has_switches, .actions = actions.list}, link);
}

void StubAssembler::add_actions(size_t patch, StubActions& actions) const {
  using arch::StackUse;
  const SitePatch& planned = plan_.set.patches[patch];
  if (planned.hook) return add_hook_action(patch, actions);
  const bool is_go = planned.object->elf().is_go();
  // An end comes before what others do there, which is no part of the call; but after its start, if
  // the function's first instruction is an exit.
  const bool is_at_start =
      planned.plan.end_offset == 0 && planned.plan.start && *planned.plan.start == patch;
  bool has_end = planned.plan.ends_calls();
  for (size_t i : planned.probes) {
    const placement::Probe& probe = plan_.set.probes[i];
    const uint64_t first_after = planned.plan.end_offset + (is_at_start ? 1 : 0);
    if (probe.offset >= first_after && std::exchange(has_end, false)) add_end(planned, actions);
    arch::StubAction action = {.offset = static_cast<uint8_t>(probe.offset),
                               .probe = static_cast<uint16_t>(i - planned.probes.first),
                               .stack = is_go ? StackUse::none : probe.stack(),
                               .condition = plan_.set.condition_of(probe),
                               .unread = layout::unread_offset(header_, i),
                               .what = {}};
    if (plan_.set.times_call(probe)) {
      // Nothing is below the stack pointer there, nor after a call of __fentry__.
      action.stack = arch::StackUse::at_entry;
      if (actions.metrics.empty()) add_timing(patch, action, actions);
      continue;
    }
    switch (plan_.set.kind_of(probe)) {
      case placement::Kind::latency:
        break;
      case placement::Kind::span:
        add_span_actions(plan_, header_, i, action, actions.list);
        break;
      case placement::Kind::value:
        action.what = arch::RecordValue{metric_of(header_, plan_.cell_of(i)),
                                        plan_.set.value_of(probe), plan_.set.key_of(probe)};
        actions.list.push_back(action);
        break;
      case placement::Kind::event:
        action.what = event_of(i, plan_.set.fields_of(probe));
        actions.list.push_back(action);
        break;
      case placement::Kind::count:
        add_count(i, action, actions);
        break;
    }
  }
  if (has_end) add_end(planned, actions);
}

void StubAssembler::add_end(const SitePatch& planned, StubActions& actions) const {
  const SitePatch& start = plan_.set.patches[*planned.plan.start];
  const auto timed = std::ranges::find_if(
      start.probes, [&](size_t probe) { return plan_.set.times_call(plan_.set.probes[probe]); });
  assert(timed != start.probes.end());
  // Nothing of a call is below the stack pointer when it is left.
  actions.list.push_back({.offset = planned.plan.end_offset,
                          .probe = static_cast<uint16_t>(planned.probes.size()),
                          .stack = arch::StackUse::at_entry,
                          .what = arch::PassSpan{metric_of(header_, plan_.cell_of(*timed)), 0,
                                                 layout::Pass::ends_call}});
}

arch::RecordEvent StubAssembler::event_of(size_t probe,
                                          std::vector<arch::Expression> values) const {
  const action::Action& action = plan_.set.action_of(plan_.set.probes[probe]);
  const bool triggers = action.triggers_end && header_.rings != layout::EventRings::oldest;
  const uint32_t mark = triggers ? 1U << PP_EVENT_TRIGGERS_BIT : 0;
  return {static_cast<uint32_t>(probe) | mark, std::move(values), action.every,
          layout::passed_offset(header_, probe)};
}

void StubAssembler::add_count(size_t probe, arch::StubAction action, StubActions& actions) const {
  const auto counter = static_cast<uint32_t>(layout::counter_offset(plan_.cell_of(probe)));
  const placement::Probe& counted = plan_.set.probes[probe];
  if (plan_.set.action_of(counted).uses_keys())
    action.what = arch::CountByKey{counter, plan_.set.key_of(counted), plan_.set.sum_of(counted),
                                   plan_.set.order_of_extremes(counted)};
  else
    action.what = arch::CountHit{counter};
  actions.list.push_back(std::move(action));
}

// Does a call of the function install a filter of system calls, have them dispatched to the
// program, or have its page faults handled?
static arch::Expression before_filters(Hook::Call call) {
  const std::string of_prctl = fmt::format("in {{{}}}", fmt::join(kFilterOptions, ","));
  const std::string of_ioctl = fmt::format("in {{{}}}", fmt::join(kFaultCommands, ","));
  std::string text;
  switch (call) {
    case Hook::Call::prctl:
      text = fmt::format("$arg1:u32 {}", of_prctl);
      break;
    case Hook::Call::ioctl:
      text = fmt::format("$arg2:u32 {}", of_ioctl);
      break;
    case Hook::Call::syscall:
      text = fmt::format(
          "$arg1:u32 in {{{},{}}} || ($arg1:u32=={} && $arg2:u32 {}) || ($arg1:u32=={} && "
          "$arg3:u32 {})",
          SYS_seccomp, SYS_userfaultfd, SYS_prctl, of_prctl, SYS_ioctl, of_ioctl);
      break;
  }
  const auto parsed = select::parse_expression(text, select::Arguments::of_function);
  assert(parsed);
  return action::compile(*parsed, [](const select::Value& wanted) {
    return action::Found{{.register_number = wanted.register_number, .bytes = wanted.bytes}, true};
  });
}

arch::CallRoutine StubAssembler::before_unmap(size_t starts_at) const {
  return {
      .routine = runtime::before_call_code(), .argument = facts_.regions, .starts_at = starts_at};
}

void StubAssembler::add_hook_action(size_t patch, StubActions& actions) const {
  const Hook& hook = *plan_.set.patches[patch].hook;
  const auto call = [&](std::span<const uint8_t> routine, Address argument) {
    return arch::StubAction{.what = arch::CallRoutine{.routine = routine, .argument = argument}};
  };
  switch (hook.kind) {
    case Hook::Kind::exec:
      actions.list.push_back(call(runtime::exec_handshake_code(), facts_.exec_handshake));
      actions.list.back().stack = arch::StackUse::keep_red_zone;
      return;
    case Hook::Kind::unmap:
      actions.list.push_back({.stack = arch::StackUse::keep_red_zone, .what = before_unmap(0)});
      if (hook.number != 0) {
        auto& what = std::get<arch::CallRoutine>(actions.list.back().what);
        what.routine = runtime::before_call_code(hook.number);
        what.starts_at = runtime::before_number();
      }
      return;
    case Hook::Kind::filter: {
      if (hook.call == Hook::Call::syscall)
        actions.list.push_back({.what = before_unmap(runtime::before_syscall_function())});
      const size_t first = actions.list.size();
      actions.list.push_back(call(runtime::stop_reads_code(), facts_.reads));
      actions.list.push_back({.what = before_unmap(runtime::before_ending_reads())});
      for (size_t i = first; i < actions.list.size(); ++i)
        actions.list[i].condition = before_filters(hook.call);
      return;
    }
    default:
      actions.list.push_back(call(runtime::loader_handshake_code(), facts_.loader_handshake));
  }
}

// Of all probes of the patch that time calls: one measurement is recorded for each of them.
void StubAssembler::add_timing(size_t patch, arch::StubAction action, StubActions& actions) const {
  const auto add = [&](decltype(action.what) what) {
    action.what = std::move(what);
    actions.list.push_back(action);
  };
  add_metrics_of_calls(patch, actions);
  if (plan_.set.patches[patch].plan.is_timed_by_exits()) {
    if (!action.condition.empty()) {
      arch::StubAction always = action;
      always.condition = {};
      always.what = arch::PassSpan{actions.metrics.front(), 0, layout::Pass::leaves_call};
      actions.list.push_back(std::move(always));
    }
    add(arch::PassSpan{actions.metrics.front(), 0, layout::Pass::starts_call});
    return;
  }
  arch::TimeCall call = {.metrics = actions.metrics};
  const SitePatch& planned = plan_.set.patches[patch];
  const auto kept = plan_.set.kept_values(planned);
  add_at_return(patch, kept, actions);
  call.at_return = actions.at_return;
  call.kept = facts_.kept;
  for (const select::Expression& one : kept)
    call.kept.values.push_back(plan_.set.compiled_at_entry(planned, one));
  if (plan_.gap != layout::Gap::none) {
    call.gap = gap_starts(plan_, header_);
    add(gap_ends(plan_, header_));
  }
  add(call);
}

void StubAssembler::add_metrics_of_calls(size_t patch, StubActions& actions) const {
  for (const size_t probe : plan_.set.patches[patch].probes)
    if (plan_.set.times_call(plan_.set.probes[probe]))
      actions.metrics.push_back(metric_of(header_, plan_.cell_of(probe)));
  assert(!actions.metrics.empty());
}

void StubAssembler::add_at_return(size_t patch, const std::vector<select::Expression>& kept,
                                  StubActions& actions) const {
  const SitePatch& planned = plan_.set.patches[patch];
  bool computes = false;
  for (const size_t probe : planned.probes)
    computes = computes || plan_.set.action_of(plan_.set.probes[probe]).computes_at_return();
  if (!computes) return;
  for (const size_t probe : planned.probes) {
    const placement::Probe& timed = plan_.set.probes[probe];
    if (!plan_.set.times_call(timed)) continue;
    arch::AtReturn what = plan_.set.at_return_of(timed, kept);
    const bool counts = plan_.set.kind_of(timed) == placement::Kind::count && !what.key.empty();
    if (counts) what.rest = layout::rest_offset(header_, plan_.cell_of(probe));
    what.extremes = plan_.set.order_of_extremes(timed);
    what.unread = layout::unread_offset(header_, probe);
    if (what.event) what.event = event_of(probe, std::move(what.event->values));
    actions.at_return.push_back(std::move(what));
  }
}

uint64_t StubAssembler::most_room(size_t patch) const {
  const SitePatch& planned = plan_.set.patches[patch];
  if (!planned.hook) return most_room_of_probes(patch);
  const Address at = align_up(planned.site(), kStubAlignment);
  arch::Assembler code(at);
  StubActions actions;
  const arch::ArenaEntries entries = {.cpu_table = at,
                                      .locked_count = at,
                                      .count_for_probe = at,
                                      .count_for_probe_in_red_zone = at,
                                      .tells_of_tables = at,
                                      .pointers = {at, at, at, at, at, at, at, at, at, at, at},
                                      .frames = {}};
  assemble(patch, code, entries, actions);
  return align_up(code.size(), kStubAlignment);
}

// Besides that of a part that records a value as it is.
static uint64_t room_of(const arch::Expression& value) {
  return value.is_source() ? 0 : arch::most_expression_bytes(value);
}

uint64_t StubAssembler::room_of_values(const placement::Probe& probe) const {
  const action::Action& action = plan_.set.action_of(probe);
  uint64_t room = 0;
  if (action.times_call()) return room;
  if (!action.value.empty()) room += room_of(plan_.set.value_of(probe));
  if (action.has_key()) room += room_of(plan_.set.key_of(probe));
  // A second expression comes beside the key, whatever it consists of.
  if (action.has_sum()) room += arch::most_expression_bytes(plan_.set.sum_of(probe));
  if (action.records_by_key()) room += arch::most_expression_bytes(plan_.set.value_of(probe));
  for (const arch::Expression& one : plan_.set.fields_of(probe))
    room += arch::most_event_value_bytes(one);
  if (action.every > 1) room += arch::kMostEveryBytes;
  return room;
}

// Returns the room that the expressions of a timed call's return need.
uint64_t StubAssembler::room_at_return(const SitePatch& patch,
                                       const placement::Probe& probe) const {
  const auto kept = plan_.set.kept_values(patch);
  const arch::AtReturn what = plan_.set.at_return_of(probe, kept);
  uint64_t room = 0;
  for (const select::Expression& one : kept)
    room += arch::most_expression_bytes(plan_.set.compiled_at_entry(patch, one));
  for (const arch::Expression* one : {&what.condition, &what.value, &what.key})
    if (!one->empty()) room += arch::most_expression_bytes(*one);
  if (what.event && plan_.set.action_of(probe).every > 1) room += arch::kMostEveryBytes;
  if (what.event)
    for (const arch::Expression& one : what.event->values)
      room += arch::most_event_value_bytes(one);
  return room;
}

uint64_t StubAssembler::most_room_of_probes(size_t patch) const {
  const SitePatch& planned = plan_.set.patches[patch];
  const size_t ends = planned.plan.ends_calls() ? 1 : 0;
  size_t parts = ends;
  uint64_t of_expressions = 0;
  for (size_t i : planned.probes) {
    const placement::Probe& probe = plan_.set.probes[i];
    const placement::Kind kind = plan_.set.kind_of(probe);
    const bool times = plan_.set.times_call(probe);
    of_expressions += room_of_values(probe);
    if (times) of_expressions += room_at_return(planned, probe);
    const bool has_gap = times && plan_.gap != layout::Gap::none;
    // The end of a gap is an action of its own.
    if (const auto condition = plan_.set.condition_of(probe); !condition.empty())
      of_expressions += arch::most_expression_bytes(condition) * (has_gap ? 2 : 1);
    parts += kind == placement::Kind::span ? count_span_actions(plan_, i) : 1;
    if (has_gap) parts += 2;
    if (times && planned.plan.is_timed_by_exits()) ++parts;
  }
  const size_t switches = planned.probes.size() + ends;
  // Few stubs lie at a page's end, but each may.
  const size_t edits = (may_be_known(planned) ? 1 : 0) +
                       (plan_.kind_of_link(patch) != SiteEntry::Link::none ? 1 : 0) +
                       (facts_.switches == Switches::none ? 0 : switches);
  return align_up(arch::most_stub_bytes(parts, planned.plan.patch.displaced) + of_expressions,
                  kStubAlignment) +
         edits * kStubAlignment;
}

bool StubAssembler::has_edit_across_pages(size_t patch, const arch::Stub& stub) const {
  const auto is_across = [](Address begin, uint64_t length) {
    return align_down(begin, kPageSize) != align_down(begin + length - 1, kPageSize);
  };
  using Link = SiteEntry::Link;
  const Link link = plan_.kind_of_link(patch);
  // What may have to lie there later (kept_memory.h).
  if (may_be_known(plan_.set.patches[patch]) && is_across(stub.begin, kKeptJumpLength)) return true;
  if (link == Link::at_start && is_across(stub.begin, arch::kLinkLength)) return true;
  if (link == Link::before_copy && is_across(stub.copy - arch::kLinkLength, arch::kLinkLength))
    return true;
  return std::any_of(stub.switches.begin(), stub.switches.end(),
                     [&](const arch::Switch& one) { return is_across(one.at, arch::kLinkLength); });
}

}  // namespace pinprick::engine
