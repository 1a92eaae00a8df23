// What text says about probes that were taken out to keep a budget (--budget).
#pragma once

#include <string>
#include <vector>

#include "session/budget_keeper.h"
#include "session/report.h"

namespace pinprick::cli {

// " (partial)", or nothing.
std::string partial_mark(const session::Row& row);

// "from 0.31 s to 1.35 s, from 1.52 s on".
std::string text_of(const std::vector<session::Absence>& absences);

// "31%", "0.5%" of a share.
std::string percentage_text(double share);

// One sentence about probes that were taken out, or are back.
std::string text_of(const session::BudgetEvent& event);

// One sentence about the whole time.
std::string text_of(const session::BudgetFigures& figures);

}  // namespace pinprick::cli
