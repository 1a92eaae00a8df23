// Checks whether the text of our own process may be changed now.
//
// Three things forbid it: a shadow stack, an attached session that takes the same bytes, and a
// thread that a breakpoint of ours would kill. The caller holds the registry's lock. Each function
// returns the reason as an error. They change nothing of the process but its SIGTRAP handler, and
// what others are told of its probes (own_ledger.h).
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "library/attached_sessions.h"
#include "library/point_notes.h"
#include "library/site.h"
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

// Makes sure that no thread would die at a breakpoint of ours. To be called before each piece of a
// change: since the last one the program may have set a handler of its own or blocked the signal,
// or a debugger may have attached. Takes 0.6 seconds if a thread keeps SIGTRAP blocked.
Result<void, Error> ready_for_breakpoints();

}  // namespace pinprick::library
