#include "library/api/error.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <utility>

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
      return about + "too many counters, histograms or calls at once";
    case Cause::data_too_large:
      return about + "more than 4096 bytes of data for a call";
    case Cause::debugger:
      return about + "a debugger holds this process" + (detail.empty() ? "" : ", " + detail) +
             "; detach it first";
    case Cause::signal_blocked:
      return about + "a thread blocks SIGTRAP; leave it out of the signal mask";
    case Cause::attached:
      return about + detail + "; end it, or take its probes out with `pinprick detach -p " +
             std::to_string(::getpid()) + "`";
    case Cause::system:
      return about + "the system refuses: " + std::strerror(system_error);
  }
  return about + "?";
}

}  // namespace pinprick

namespace pinprick::library {

Error error_of(Cause cause, std::string site, std::string_view detail) {
  return {cause, std::move(site), std::string(detail), 0};
}

Error refused(std::string site, plan::Reason reason) {
  return error_of(Cause::refused, std::move(site), plan::sentence(reason));
}

Error system_error(const SystemError& error) {
  return {Cause::system, {}, {}, error.number};
}

std::string text_of(const Where& where) {
  return where.name() != nullptr ? *where.name() : fmt::format("{}", *where.address());
}

}  // namespace pinprick::library
