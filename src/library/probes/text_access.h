// Checks whether the text of our own process may be changed now, and how.
//
// Three things forbid it: a shadow stack, an attached session that takes the same bytes, and, if
// the change needs a breakpoint, a thread that a breakpoint of ours would kill or a debugger that
// would take it for its own. The caller holds the registry's lock. Each function returns the reason
// as an error. They change nothing of the process but its SIGTRAP handler, and what others are told
// of its probes (own_ledger.h).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "library/points/point_notes.h"
#include "library/probes/site.h"
#include "library/process/attached_sessions.h"
#include "library/process/held_signals.h"
#include "patch/live_edit.h"
#include "pinprick/error.h"
#include "target/memory.h"

namespace pinprick::library {

// Sites that are refused, and why.
using SiteErrors = std::vector<std::pair<Site*, Error>>;

// Fails if this program has a shadow stack: displaced calls push their return addresses themselves.
// Fails if it cannot have probes beside an attached session that is there, or that has left its
// jumps in the text: because nothing is known of its sites, or because the text is not shared
// (OwnLedger::is_shared()).
Result<void, Error> may_have_probes();

// To be called before the text of these sites is changed. Tells attached sessions that the sites
// are taken. Fails if a session has one of them; the caller then settles them (OwnLedger).
// Returns the sessions that are there, or nullopt if all sites were taken already. With `refused`,
// the sites that sessions have are added there, and are no error.
using Taken = Result<std::optional<AttachedSessions>, Error>;
Taken take_sites(const target::Memory& memory, std::span<Site* const> sites,
                 SiteErrors* refused = nullptr);
Taken take_sites(const target::Memory& memory, std::span<const PointSite> points);

// The permission to write text, for as long as it exists.
struct TextTurn {
  patch::Order order = patch::Order::in_steps;
  std::optional<HeldSignals> signals = {};  // with Order::at_once; see patch/live_edit.h
};

// Says why a change cannot be made by whole writes, even if no other thread is there: the end of a
// sentence that begins with the debugger. Returns nullopt if it can. Called at most once, and only
// where a debugger is.
using WhyBreakpoints = std::function<std::optional<std::string_view>()>;
inline std::optional<std::string_view> no_breakpoints() {
  return std::nullopt;
}

// Returns how text can be written now: in steps, if there is no debugger and no thread would die at
// a breakpoint of ours; or at once, if there is a debugger but no other thread, and the change
// needs no breakpoint. To be called before each piece of a change: since the last one the program
// may have set a handler of its own, blocked the signal or started a thread, or a debugger may have
// attached. Fails after 0.6 seconds.
Result<TextTurn, Error> turn_to_write(const WhyBreakpoints& why_breakpoints);
// The same without a wait: could text that needs no breakpoint be written now?
bool could_write_now();

}  // namespace pinprick::library
