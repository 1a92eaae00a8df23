// Why a probe could not be placed: a closed list of causes, with what they are about.
#pragma once

#include <cstdint>
#include <string>

#include "pinprick/result.h"

namespace pinprick {

enum class Cause : uint8_t {
  bad_pattern,     // detail: what is wrong with it
  not_found,       // no such function, or no function at that address
  ambiguous,       // a name means more than one function: find_functions() lists them
  refused,         // this instruction cannot be probed; detail: the reason (docs/placing.md)
  blacklisted,     // detail: why (blocked() lists all such functions)
  no_handler,      // a probe without any
  too_many,        // return probes at one address, or calls that are to be followed at once
  data_too_large,  // over 4096 bytes for a call
  debugger,        // a debugger holds the process, and would take our breakpoints for its own
  signal_blocked,  // a thread blocks SIGTRAP: a breakpoint, even for a moment, could end the
                   // process
  system,          // a system call failed; system_error is its errno
  attached,        // pinprick has probes in this process from outside; detail: which
};

struct Error {
  Cause cause = Cause::system;
  std::string site;    // as it was asked for
  std::string detail;  // may be empty
  int system_error = 0;

  std::string message() const;  // one line, with the remedy where there is one
};

}  // namespace pinprick
