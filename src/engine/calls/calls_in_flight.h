// The calls and spans of a process that are being timed at this moment, of all owners, read from
// the outside: from the slots (runtime/slots.S), the tables of calls that are timed by exits
// (runtime/open_call.inc), and those of threads with spans (runtime/span.inc).
//
// Nothing is stopped, written or locked, so it works on a process that hangs, that is stopped, or
// that has lost its controllers. While it is read, calls start and end, and their slots get other
// calls. So each table is read twice, and the stacks of the calls in between:
//
//     before = the tables
//     is the call on its stack?      the slot's code has put its own address there
//     after  = the tables            the same: that call had the slot all the time in between
//
// The start time tells the calls of a slot apart: no two have the same. A slot's fields are written
// before its call is made, and the address is put on the stack by making it. So a call whose slot
// is half written is not on its stack yet, and is not taken for one in flight. An entry of the
// table for exits is marked until it is complete (PP_OPEN_CALL_FILLING). A call that returned, and
// was made again before the second copy, has another start there, and is left out.
//
// Each call that is returned was in flight at one moment at least of the look. Each call that was
// in flight during all of the look is returned. A call that was left by longjmp may still be on its
// stack, below what its thread uses. If that thread waits in the kernel or is stopped, its stack
// pointer tells, and the call is left out. If it runs, nothing tells.
//
// The process can write all of this. Its numbers are checked: no more is read than the session's
// mapping has, or than there can be slots. Nothing can fail; memory that cannot be read has no
// calls. Any thread may call this.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/address.h"
#include "image/maps.h"
#include "layout/session_file.h"
#include "target/memory.h"

namespace pinprick::engine {

struct CallInFlight {
  static constexpr size_t kProgram = SIZE_MAX;
  size_t session = 0;  // its number, or kProgram: the program times it itself, by libpinprick
  size_t metric = 0;   // the number of the probe, or of the span; not of the program's own
  bool is_span = false;
  Address site = 0;    // the probed instruction; of a span, that of its start
  Address stack = 0;   // where its return address lies; 0 for a span
  Address caller = 0;  // the program's return address; 0 for a span
  pid_t thread = 0;    // 0: not known
  uint64_t tsc = 0;    // at its start
};

struct CallsInFlight {
  bool is_timed = false;            // there is something that times calls or spans
  std::vector<CallInFlight> calls;  // in no order; once for each owner that times it
  uint64_t now = 0;                 // the TSC after the look
  // What the program calls its own probes, by the probed instruction; of those in `calls`.
  std::map<Address, std::string> program_names;
};

// `sessions` are those of the process that its program has in its memory, and `maps` were read
// before.
CallsInFlight look_at_calls(pid_t pid, const target::Memory& memory,
                            const std::vector<image::Mapping>& maps,
                            std::span<const layout::Session* const> sessions);

}  // namespace pinprick::engine
