// A session file's tables, from what is planned: names, objects, sites with what they hold, probes,
// functions, spans and switches. What is mapped where, and the areas, are not among them
// (address_choice.h, area_sizes.h).
//
// Pure, except that a cancelled task ends it (base/task.h). Arming calls it once it is certain
// which patches of the plan will be written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "engine/plan/arming_modes.h"
#include "engine/plan/arming_plan.h"
#include "engine/stubs/arena_layout.h"
#include "layout/session_file.h"

namespace pinprick::engine {

// Returns what the events of a probe tell (action/event_form.h); empty if no other pinprick has to
// know.
using EventText = std::function<std::string(const placement::Probe&)>;

// Fills the tables, and notes in the plan which site entry is whose. Returns the offset in names of
// `statistic`, what the session is called if it is kept.
uint32_t fill_tables(ArmingPlan& plan, std::span<const Arena> arenas, Switches switches,
                     std::string_view statistic, const EventText& text_of_events,
                     layout::Session& journal);

// How large the tables are; without the areas' sizes, and with room for as many mappings.
layout::SessionCounts count_tables(const ArmingPlan& plan, const layout::Session& journal,
                                   size_t mappings);

// As much of the text as fits, and a 0.
template <size_t N>
void copy_text(char (&to)[N], std::string_view from) {
  const size_t n = std::min(from.size(), N - 1);
  std::copy_n(from.data(), n, to);
  to[n] = '\0';
}

}  // namespace pinprick::engine
