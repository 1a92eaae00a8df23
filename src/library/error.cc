#include "pinprick/error.h"

#include <unistd.h>

#include <cstring>

namespace pinprick {

std::string Error::message() const {
  const std::string about = site.empty() ? std::string() : site + ": ";
  switch (cause) {
    case Cause::bad_pattern:
      return about + "not a pattern: " + detail;
    case Cause::not_found:
      return about + "no such function in this process";
    case Cause::ambiguous:
      return about + "means more than one function; name the object too, or use find_functions()";
    case Cause::refused:
      return about + "cannot be probed: " + detail;
    case Cause::blacklisted:
      return about + "must not be probed: " + detail;
    case Cause::no_handler:
      return about + "a probe without a handler";
    case Cause::too_many:
      return about + "too many return probes, counters or calls at once";
    case Cause::data_too_large:
      return about + "more than 4096 bytes of data for a call";
    case Cause::debugger:
      return about + "a debugger holds this process; detach it first";
    case Cause::signal_blocked:
      return about + "a thread blocks SIGTRAP; leave it out of the signal mask";
    case Cause::attached:
      return about + detail + " has probes in this process; end it, or take them out with " +
             "`pinprick detach -p " + std::to_string(::getpid()) + "`";
    case Cause::system:
      return about + "the system refuses: " + std::strerror(system_error);
  }
  return about + "?";
}

}  // namespace pinprick
