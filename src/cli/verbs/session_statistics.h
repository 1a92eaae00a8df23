// Implements the interface of control/statistics.h on session::Statistics, and has an errno and a
// sentence for each cause of a StatisticError.
#pragma once

#include <sys/types.h>

#include <memory>

#include "cli/exit_code.h"
#include "control/statistics.h"
#include "session/statistics.h"

namespace pinprick::cli {

control::ControlError control_error(const session::StatisticError& error);
// How pinprick exits after such an error.
ExitCode exit_code(const control::ControlError& error);
// The same, as the other verbs exit for this cause.
ExitCode exit_code(const session::StatisticError& error);

// Does a trace, remove, start, stop or reset; for `list` and `show`, nothing. `force`:
// session::StatisticSpec.
Result<void, session::StatisticError> change_statistic(session::Statistics& statistics,
                                                       const control::Command& command,
                                                       bool force = false);

// All processes of this machine that have statistics and may be looked at.
std::unique_ptr<control::Processes> session_statistics();

// The lines of kstats.
std::string text_of(const session::StatisticFigures& figures);
// What the figures lack, one line for each cause; empty if nothing does.
std::vector<std::string> shortfalls(const session::StatisticFigures& figures);

}  // namespace pinprick::cli
