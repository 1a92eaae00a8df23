// How a probe can be placed, and why it cannot. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/address.h"

namespace pinprick::plan {

// Ascending by cost. docs/placing.md shows the bytes of each.
enum class Tactic : uint8_t {
  nop,     // over nops from the compiler or the assembler
  insn,    // over one instruction of 5 bytes or more
  window,  // over several instructions, which run out of line
  pad,     // over a function's last instructions and the padding after it
  hop,     // two bytes: a short jump to padding nearby that holds the long jump
  evict,   // two bytes: a short jump to where instructions nearby were, which are displaced to make
           // room; or a pun that ends in the next instruction's jump
  pun,     // one to four bytes: the bytes that follow determine the jump's target, and an island is
           // put there
};

// The closed list of reasons why a probe is not placed.
enum class Reason : uint8_t {
  unreadable,            // the code cannot be read
  undecodable,           // not an instruction, or only part of one
  mid_instruction,       // the address is inside an instruction
  outside,               // the address is outside the function
  foreign_breakpoint,    // int3: another's breakpoint, or a trap of the program
  privileged,            // faults in user space
  inexact,               // an instruction that cannot be moved exactly
  branch_inside,         // a branch leads into the bytes of the probe's jump
  call_inside,           // a call would return into the bytes of the probe's jump
  too_short,             // the function ends, and no padding follows
  indirect_jumps,        // computed jumps could lead into the bytes of the probe's jump
  page_edge,             // the jump would cross a page boundary, and could be half written
  reserved,              // rseq, the signal restorer, code known by its address or copied, our own
  neighbour,             // another probe's jump is there
  out_of_reach,          // no free address within 2 GB for the stub
  unresolved_ifunc,      // not used in the process yet, so there is no implementation
  not_called,            // return probes: the code is not entered by a call (a .cold part, _start)
  entered_again,         // return probes: jumps to its entry with data below the stack pointer
  reads_return_address,  // return probes: the function reads, or keeps, its own return address
  returns_otherwise,     // return probes: setjmp and the like
  unresolved_import,     // return probes: it may jump to a function that is not loaded yet
  goroutine,             // Go's runtime may suspend a goroutine there, or turn a fault into a panic
  tables_inside,       // GHC has tables between instructions: only the first one is known to be one
  runtime_reads_code,  // .NET's runtime, or Mono's, decodes it, or looks up faults by address
  runtime_reads_stack,  // return probes: a language runtime reads return addresses on the stack
  stack_moves,          // return probes: Go's runtime moves the stacks of its functions
  may_be_unwound,       // return probes: an exception may pass, and its unwinder was not found
  exits_unknown,        // calls timed by exits: the function may be left in an unknown way
  exits_without_room,   // calls timed by exits: there is no room for a probe at one of them
  needs_slot,           // calls timed by exits: something is computed at the return
  no_such_argument,     // values: the site of the SDT point has fewer arguments
  argument_no_integer,  // values: the argument is a floating-point number
  argument_elsewhere,   // values: the argument is where a hit cannot read it
  arguments_unknown,    // values: the site's note describes its arguments in an unknown way
  unknown_name,         // values: there is neither a parameter nor a variable of that name
  argument_at_offset,   // values: the name of a parameter, at an instruction after the entry
  other_condition,      // return probes: the function's calls are timed under another condition
  too_many_kept,        // return probes: with others of the function, it needs too many arguments
  text_changed,         // at arming: memory differs from the plan
  thread_inside,        // at arming: a thread is, or will return to, under the jump
  probed_by_program,    // the program has a probe of its own there, or has had one
};

struct Refusal {
  Reason reason = Reason::unreadable;
  Address where = 0;              // the instruction at fault, or the site
  std::string_view runtime = {};  // for runtime_reads_stack: its name, a literal
};

// Returns whether a breakpoint, which needs only one byte, may be possible instead.
bool leaves_room_for_breakpoint(Reason reason);

std::string_view name(Tactic tactic);
std::string_view name(Reason reason);          // as in JSON: branch_inside
std::string_view sentence(Reason reason);      // for people: lower case, no full stop
std::string sentence(const Refusal& refusal);  // the same, with the runtime's name

}  // namespace pinprick::plan
