// How a probe can be placed, and why it cannot.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/address.h"

namespace pinprick::plan {

// In order of cost. docs/placing.md shows the bytes of each.
enum class Tactic : uint8_t {
  nop,     // over nops that the compiler or the assembler left there
  insn,    // over one instruction of 5 bytes or more
  window,  // over several instructions, which run relocated
  pad,     // over a function's last instructions and the padding behind it
  hop,     // two bytes, to padding nearby that holds the jump
  evict,   // two bytes, to where instructions nearby were, which make room for the jump; or as a
           // pun that ends in the next instruction's own jump
  pun,     // one to four bytes; what follows says where the jump leads, and there is room made
};

// The closed list of reasons for not placing a probe.
enum class Reason : uint8_t {
  unreadable,            // the code cannot be read
  undecodable,           // no instruction, or only a part of one
  mid_instruction,       // the address lies inside an instruction
  outside,               // the address lies outside of the function
  foreign_breakpoint,    // int3: somebody else's, or a trap of the program's own
  privileged,            // faults in user space
  inexact,               // an instruction that cannot be moved exactly
  branch_inside,         // something jumps to where the probe's jump would lie
  call_inside,           // a call would come back to where the probe's jump lies
  too_short,             // the function ends, and what follows is no padding
  indirect_jumps,        // computed jumps could lead to where the probe's jump would lie
  page_edge,             // the jump would lie in two pages, and could be written by half
  reserved,              // restartable sequences, the signal restorer, pinprick's own code
  neighbour,             // another probe's jump lies there
  out_of_reach,          // no free address within 2 GB for the stub
  unresolved_ifunc,      // nobody in the process has used it yet, so there is no implementation
  not_called,            // return probes: not entered by a call (a .cold part, _start)
  reads_return_address,  // return probes: it looks at, or keeps, its own return address
  returns_otherwise,     // return probes: setjmp and the like
  goroutine,             // Go: its runtime may suspend a goroutine, or make a fault a panic, there
  runtime_reads_stack,   // return probes: a language runtime looks at return addresses on the stack
  stack_moves,           // return probes: Go's runtime moves the stacks of its functions
  may_be_unwound,        // return probes: an exception may pass, and its unwinder was not found
  text_changed,          // at arming: memory is not what was planned for
  thread_inside,         // at arming: a thread stands, or will return to, where the jump would lie
};

struct Refusal {
  Reason reason = Reason::unreadable;
  Address where = 0;              // the instruction at fault, or the site
  std::string_view runtime = {};  // of runtime_reads_stack: its name, which lives for ever
};

// Could a breakpoint be there, for which one byte is enough?
bool leaves_room_for_breakpoint(Reason reason);

std::string_view name(Tactic tactic);
std::string_view name(Reason reason);          // as in JSON: branch_inside
std::string_view sentence(Reason reason);      // as for people, lower case, no full stop
std::string sentence(const Refusal& refusal);  // the same, with the runtime's name

}  // namespace pinprick::plan
