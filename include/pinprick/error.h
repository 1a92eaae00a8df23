// Error: why a probe could not be placed, enabled or disabled. A closed list of causes, each with
// what it is about.
#pragma once

#include <cstdint>
#include <string>

#include "pinprick/result.h"

namespace pinprick {

enum class Cause : uint8_t {
  bad_pattern,     // detail: what is wrong with it
  not_found,       // no such function, or no function at that address
  ambiguous,       // a name matches several functions: find_functions() lists them
  refused,         // this instruction cannot be probed; detail: the reason (docs/placing.md)
  blacklisted,     // detail: why (blocked() lists all such functions)
  no_handler,      // the probe has no handler
  too_many,        // too many tracked calls, counters or histograms
  data_too_large,  // data_size is over 4096 bytes
  debugger,        // a debugger is attached, and would take our breakpoints for its own; detail:
                   // why one is needed
  signal_blocked,  // a thread blocks SIGTRAP: a breakpoint, even for a moment, could kill the
                   // process
  system,          // a system call failed; system_error is its errno
  attached,        // the pinprick command has a probe there, or others of which nothing is known;
                   // detail: which
};

struct Error {
  Cause cause = Cause::system;
  // As the caller named it. For an address: the function and +0xoffset, as Probe::name() returns
  // it, if there is a function.
  std::string site;
  std::string detail;  // may be empty
  int system_error = 0;

  std::string message() const;  // one line, with the remedy if there is one
};

}  // namespace pinprick
