// Reads the figures that the sessions of all owners have recorded so far, from their files.
//
// It only reads; nothing is stopped. Files may be other users': what they hold is checked where
// they are found (ledger/discovery.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/render/renderer.h"
#include "ledger/discovery.h"

namespace pinprick::cli {

// Has the process executed another program since its probes came in?
bool is_of_earlier_program(const ledger::FoundSession& found);
// The name of the process, as it was when the probes came in.
std::string command_of(const ledger::FoundSession& found);

// Is it told how many slots are in use? That takes a look at the stacks of the process.
enum class Slots : bool { left_out, included };

// Returns one row for each owner: all that one controller has armed in one process, at once or as
// libraries were loaded. The names in it are those of the sessions, which have to live as long.
std::vector<SessionRow> session_rows(std::span<const ledger::FoundSession> sessions, Slots slots);

}  // namespace pinprick::cli
