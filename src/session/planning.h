// Plans the probes of a measurement, without changing the process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/session.h"
#include "image/match.h"
#include "image/process.h"
#include "placement/probe_set.h"
#include "session/budget_keeper.h"
#include "session/matching.h"
#include "session/measurement_error.h"
#include "session/selection.h"
#include "session/subject.h"

namespace pinprick::session {

// What a measurement does when its process executes another program.
enum class Exec : uint8_t { ends, followed };

// What is measured, and how.
struct MeasurementSpec {
  Selection selection;
  Unmatched unmatched = Unmatched::refuse;
  placement::Risk risk = placement::Risk::none;
  placement::Ends ends = placement::Ends::automatic;
  Exec exec = Exec::ends;
  Loads loads = Loads::tracked;           // if the process lets us
  bool hooks_execs = false;               // by hooks where it executes programs
  bool once = false;                      // a probe is taken out when it was hit (hit_removal.h)
  engine::ArmOptions arming;              // the measurement sets `callers`
  std::optional<BudgetSpec> budget = {};  // needs arming.has_switches
};

// Plans probes in all present objects. Adds a hook in the loader if patterns may match in objects
// that are loaded later, and if loads can be tracked. Spans are not looked for in objects that are
// loaded later. A span with a point that cannot be probed is left out if unmatched spans are
// accepted, and an error otherwise.
//
// Before its objects are relocated, matches that have to wait for that are left out: IFUNCs, and
// objects with relocations in their code. `waits`, if not null, is set if there are any, and then
// spans are not planned at all; otherwise the set's matches are in `sites`.
//
// At Progress::at_exec, only the program and its loader are mapped. If calls are timed, an unwinder
// may still come, so nothing is planned but the hook: what awaits_loader() says.
struct Unrelocated {
  bool waits = false;
  std::set<Address> sites;
};
Result<placement::ProbeSet, MeasurementError> plan(const Subject& subject,
                                                   const MeasurementSpec& spec,
                                                   Progress progress = Progress::runs,
                                                   Unrelocated* unrelocated = nullptr);

// Will all probes of a process be armed only when its loader has mapped the libraries?
bool awaits_loader(const Subject& subject, const MeasurementSpec& spec);

// Returns what the patterns match in the objects for which `is_new` returns true.
std::vector<image::Match> match_loaded(image::ProcessImage& image, const Selection& selection,
                                       const std::function<bool(const image::Object&)>& is_new);
placement::ProbeSet plan_loaded(const image::ProcessImage& image, std::vector<image::Match> matches,
                                const MeasurementSpec& spec,
                                std::span<const placement::HookSite> hooks = {});

}  // namespace pinprick::session
