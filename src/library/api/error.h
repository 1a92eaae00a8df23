// Makes the errors of the public interface (pinprick/error.h). Any thread may call these functions;
// they allocate and cannot fail.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "pinprick/error.h"
#include "pinprick/probe.h"
#include "plan/tactic.h"

namespace pinprick::library {

Error error_of(Cause cause, std::string site, std::string_view detail = {});
Error refused(std::string site, plan::Reason reason);
Error system_error(const SystemError& error);

// How an error names the location for which a probe was requested.
std::string text_of(const Where& where);

}  // namespace pinprick::library
