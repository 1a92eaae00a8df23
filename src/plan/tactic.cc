#include "plan/tactic.h"

namespace pinprick::plan {

std::string_view name(Tactic tactic) {
  switch (tactic) {
    case Tactic::nop:
      return "nop";
    case Tactic::insn:
      return "insn";
    case Tactic::window:
      return "window";
    case Tactic::pad:
      return "pad";
    case Tactic::hop:
      return "hop";
    case Tactic::evict:
      return "evict";
    case Tactic::pun:
      return "pun";
  }
  return "?";
}

bool leaves_room_for_breakpoint(Reason reason) {
  switch (reason) {
    case Reason::inexact:
    case Reason::branch_inside:
    case Reason::call_inside:
    case Reason::too_short:
    case Reason::indirect_jumps:
    case Reason::page_edge:
    case Reason::neighbour:
    case Reason::out_of_reach:
    case Reason::goroutine:
    case Reason::thread_inside:
      return true;
    default:
      return false;
  }
}

std::string_view name(Reason reason) {
  switch (reason) {
    case Reason::unreadable:
      return "unreadable";
    case Reason::undecodable:
      return "undecodable";
    case Reason::mid_instruction:
      return "mid_instruction";
    case Reason::outside:
      return "outside";
    case Reason::foreign_breakpoint:
      return "foreign_breakpoint";
    case Reason::privileged:
      return "privileged";
    case Reason::inexact:
      return "inexact";
    case Reason::branch_inside:
      return "branch_inside";
    case Reason::call_inside:
      return "call_inside";
    case Reason::too_short:
      return "too_short";
    case Reason::indirect_jumps:
      return "indirect_jumps";
    case Reason::page_edge:
      return "page_edge";
    case Reason::reserved:
      return "reserved";
    case Reason::neighbour:
      return "neighbour";
    case Reason::out_of_reach:
      return "out_of_reach";
    case Reason::unresolved_ifunc:
      return "unresolved_ifunc";
    case Reason::not_called:
      return "not_called";
    case Reason::entered_again:
      return "entered_again";
    case Reason::reads_return_address:
      return "reads_return_address";
    case Reason::returns_otherwise:
      return "returns_otherwise";
    case Reason::unresolved_import:
      return "unresolved_import";
    case Reason::goroutine:
      return "goroutine";
    case Reason::tables_inside:
      return "tables_inside";
    case Reason::runtime_reads_code:
      return "runtime_reads_code";
    case Reason::runtime_reads_stack:
      return "runtime_reads_stack";
    case Reason::stack_moves:
      return "stack_moves";
    case Reason::may_be_unwound:
      return "may_be_unwound";
    case Reason::exits_unknown:
      return "exits_unknown";
    case Reason::exits_without_room:
      return "exits_without_room";
    case Reason::needs_slot:
      return "needs_slot";
    case Reason::no_such_argument:
      return "no_such_argument";
    case Reason::argument_no_integer:
      return "argument_no_integer";
    case Reason::argument_elsewhere:
      return "argument_elsewhere";
    case Reason::arguments_unknown:
      return "arguments_unknown";
    case Reason::unknown_name:
      return "unknown_name";
    case Reason::argument_at_offset:
      return "argument_at_offset";
    case Reason::other_condition:
      return "other_condition";
    case Reason::too_many_kept:
      return "too_many_kept";
    case Reason::text_changed:
      return "text_changed";
    case Reason::thread_inside:
      return "thread_inside";
    case Reason::probed_by_program:
      return "probed_by_program";
  }
  return "?";
}

std::string_view sentence(Reason reason) {
  switch (reason) {
    case Reason::unreadable:
      return "its code cannot be read";
    case Reason::undecodable:
      return "its bytes are not an instruction that pinprick knows";
    case Reason::mid_instruction:
      return "the address lies inside an instruction";
    case Reason::outside:
      return "the address lies outside of the function";
    case Reason::foreign_breakpoint:
      return "a breakpoint of the program or of another tool is there";
    case Reason::privileged:
      return "it is a privileged instruction, which faults in a program";
    case Reason::inexact:
      return "the instruction would do something else if it were moved";
    case Reason::branch_inside:
      return "the program jumps into its first bytes";
    case Reason::call_inside:
      return "a call returns into its first bytes";
    case Reason::too_short:
      return "it is shorter than a jump, and no padding follows";
    case Reason::indirect_jumps:
      return "computed jumps may lead into its first bytes";
    case Reason::page_edge:
      return "the jump would lie in two pages, which cannot be written at once";
    case Reason::reserved:
      return "its code must not be changed (restartable sequence, signal return, or the program "
             "copies it, checks it, or knows it by its address)";
    case Reason::neighbour:
      return "the jump of another probe lies there";
    case Reason::out_of_reach:
      return "there is no free memory within 2 GB of it";
    case Reason::unresolved_ifunc:
      return "it is an IFUNC that the process has not resolved yet";
    case Reason::not_called:
      return "it is not entered by a call, so it does not return";
    case Reason::entered_again:
      return "it jumps back to its entry, with data below the stack pointer";
    case Reason::reads_return_address:
      return "it, or a function that it jumps to, uses its return address";
    case Reason::returns_otherwise:
      return "it, or a function that it jumps to, does not return the way it was called";
    case Reason::unresolved_import:
      return "it jumps to a function that is not loaded, and that may use its return address";
    case Reason::goroutine:
      return "a goroutine may be suspended, or panic, in its first instructions";
    case Reason::tables_inside:
      return "between the instructions of this function its compiler puts tables, at unknown "
             "places";
    case Reason::runtime_reads_code:
      return "its language runtime decodes its instructions, or looks up faults by their address";
    case Reason::runtime_reads_stack:
      return "its language runtime looks at the return addresses on the stack";
    case Reason::stack_moves:
      return "its stack may move during a call, as Go's do";
    case Reason::may_be_unwound:
      return "an exception may pass through it, and the program's unwinder was not found";
    case Reason::exits_unknown:
      return "not all ways out of it are known";
    case Reason::exits_without_room:
      return "there is no room for a probe at one of its exits";
    case Reason::needs_slot:
      return "it can only be timed by exits: by one measure, without gaps, and with nothing "
             "computed at the "
             "return";
    case Reason::no_such_argument:
      return "it has fewer arguments";
    case Reason::argument_no_integer:
      return "that argument is a floating-point number that pinprick does not read";
    case Reason::argument_elsewhere:
      return "that argument is in a place that pinprick does not read";
    case Reason::arguments_unknown:
      return "its note describes the arguments in a way that pinprick does not know";
    case Reason::unknown_name:
      return "it has no parameter or variable of that name; arguments are $arg1 to $arg6";
    case Reason::argument_at_offset:
      return "an argument is in its register at the function's entry only";
    case Reason::other_condition:
      return "its calls are timed already, under another condition";
    case Reason::too_many_kept:
      return "its calls keep as many values for their return as they can, and this needs others";
    case Reason::text_changed:
      return "its code changed during the attach";
    case Reason::thread_inside:
      return "a thread is about to continue inside its first bytes";
    case Reason::probed_by_program:
      return "the program has, or had, a probe of its own there";
  }
  return "?";
}

std::string sentence(const Refusal& refusal) {
  std::string text(sentence(refusal.reason));
  if (!refusal.runtime.empty()) text.append(" (").append(refusal.runtime).append(")");
  return text;
}

}  // namespace pinprick::plan
