// The errors of the interface (pinprick/error.h), as the parts of the library make them.
//
// Any thread; allocates. Nothing can go wrong.
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

// How an error names the place that a probe was asked for.
std::string text_of(const Where& where);

}  // namespace pinprick::library
