// The points of spans: which probe begins or ends which span, and what its stub does for that.
//
// Pure; any thread, and several at once. Nothing can fail.
#pragma once

#include <vector>

#include "arch/stub.h"
#include "engine/plan/arming_plan.h"
#include "engine/session.h"
#include "layout/session_file.h"
#include "placement/probe_set.h"

namespace pinprick::engine {

// The histogram, of a session whose file has that header.
arch::Metric metric_of(const layout::FileHeader& header, size_t histogram);

// Adds to `actions` what the stub does at that probe, each time as `action` says where. A point
// that ends a span and begins the same one, or another, ends it first. A gap ends before spans, and
// begins after them, so that no span includes the recording of another time.
void add_span_actions(const ArmingPlan& plan, const layout::FileHeader& header, size_t probe,
                      arch::StubAction action, std::vector<arch::StubAction>& actions);
// How many those are.
size_t count_span_actions(const ArmingPlan& plan, size_t probe);

// What begins and what ends the gaps of a session, if it has gaps.
arch::PassSpan gap_starts(const ArmingPlan& plan, const layout::FileHeader& header);
arch::PassSpan gap_ends(const ArmingPlan& plan, const layout::FileHeader& header);

// In the order of the set's spans, with the first site of each point; without their names.
std::vector<layout::SpanEntry> span_entries(const placement::ProbeSet& set);

// Those whose points have their probes at all sites.
std::vector<ArmedProbe> armed_spans(const ArmingPlan& plan);

}  // namespace pinprick::engine
