#include "engine/plan/span_points.h"

#include <algorithm>

namespace pinprick::engine {

using placement::ProbeSet;
using placement::Span;

arch::Metric metric_of(const layout::FileHeader& header, size_t histogram) {
  return {layout::time_counters_offset(header, histogram), header.fraction_bits};
}

namespace {

bool is_start(const ProbeSet& set, size_t probe) {
  return std::any_of(set.spans.begin(), set.spans.end(),
                     [&](const Span& span) { return span.starts_at(set.probes[probe].match); });
}

bool is_end(const ProbeSet& set, size_t probe) {
  return std::any_of(set.spans.begin(), set.spans.end(),
                     [&](const Span& span) { return span.ends_at(set.probes[probe].match); });
}

arch::PassSpan gap(const ArmingPlan& plan, const layout::FileHeader& header, layout::Pass of_cpu,
                   layout::Pass of_thread) {
  const arch::Metric metric = metric_of(header, layout::metric_count(header));
  if (plan.gap == layout::Gap::cpu) return {metric, 0, of_cpu};
  return {metric, layout::span_start_offset(plan.set.spans.size()), of_thread};
}

}  // namespace

arch::PassSpan gap_starts(const ArmingPlan& plan, const layout::FileHeader& header) {
  return gap(plan, header, layout::Pass::starts_gap_of_cpu, layout::Pass::starts_gap_of_thread);
}

arch::PassSpan gap_ends(const ArmingPlan& plan, const layout::FileHeader& header) {
  return gap(plan, header, layout::Pass::ends_gap_of_cpu, layout::Pass::ends);
}

void add_span_actions(const ArmingPlan& plan, const layout::FileHeader& header, size_t probe,
                      arch::StubAction action, std::vector<arch::StubAction>& actions) {
  using layout::Pass;
  const ProbeSet& set = plan.set;
  const auto add = [&](const arch::PassSpan& what) {
    action.what = what;
    actions.push_back(action);
  };
  const bool has_gap = plan.gap != layout::Gap::none;
  if (has_gap && is_start(set, probe)) add(gap_ends(plan, header));
  for (const Pass pass : {Pass::ends, Pass::starts})
    for (size_t i = 0; i < set.spans.size(); ++i) {
      const Span& span = set.spans[i];
      const size_t match = set.probes[probe].match;
      if (!(pass == Pass::ends ? span.ends_at(match) : span.starts_at(match))) continue;
      add({metric_of(header, layout::first_span_of(header) + i), layout::span_start_offset(i),
           pass});
    }
  if (has_gap && is_end(set, probe)) add(gap_starts(plan, header));
}

size_t count_span_actions(const ArmingPlan& plan, size_t probe) {
  const ProbeSet& set = plan.set;
  const size_t match = set.probes[probe].match;
  size_t n = 0;
  for (const Span& span : set.spans) n += span.starts_at(match) + span.ends_at(match);
  if (plan.gap != layout::Gap::none) n += is_start(set, probe) + is_end(set, probe);
  return n;
}

std::vector<layout::SpanEntry> span_entries(const ProbeSet& set) {
  std::vector<layout::SpanEntry> entries(set.spans.size());
  for (uint32_t i = 0; i < set.probes.size(); ++i)
    for (size_t span = 0; span < entries.size(); ++span) {
      if (set.spans[span].starts.front() == set.probes[i].match) entries[span].start = i;
      if (set.spans[span].ends.front() == set.probes[i].match) entries[span].end = i;
    }
  return entries;
}

std::vector<ArmedProbe> armed_spans(const ArmingPlan& plan) {
  const ProbeSet& set = plan.set;
  std::vector<bool> lacks_one(set.spans.size());
  for (const placement::Probe& probe : set.probes) {
    if (plan.is_armed(probe.patch)) continue;
    for (size_t i = 0; i < set.spans.size(); ++i)
      if (set.spans[i].starts_at(probe.match) || set.spans[i].ends_at(probe.match))
        lacks_one[i] = true;
  }
  std::vector<ArmedProbe> spans;
  for (uint32_t i = 0; i < set.spans.size(); ++i)
    if (!lacks_one[i]) spans.push_back({static_cast<uint32_t>(set.spans[i].starts.front()), i});
  return spans;
}

}  // namespace pinprick::engine
