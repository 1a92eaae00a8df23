#include "engine/span_points.h"

namespace pinprick::engine {

using placement::ProbeSet;
using placement::Span;

arch::Metric metric_of(const layout::FileHeader& header, size_t histogram) {
  return {layout::time_cells_offset(header, histogram), header.fraction_bits};
}

void add_span_actions(const ProbeSet& set, const layout::FileHeader& header, size_t probe,
                      arch::StubAction action, std::vector<arch::StubAction>& actions) {
  for (const bool ends : {true, false})
    for (size_t i = 0; i < set.spans.size(); ++i) {
      const Span& span = set.spans[i];
      if ((ends ? span.end : span.start) != set.probes[probe].match) continue;
      action.what = arch::PassSpan{metric_of(header, i), layout::span_start_offset(i), ends};
      actions.push_back(action);
    }
}

size_t count_span_actions(const ProbeSet& set, size_t probe) {
  const size_t match = set.probes[probe].match;
  size_t n = 0;
  for (const Span& span : set.spans) n += (span.start == match) + (span.end == match);
  return n;
}

std::vector<layout::SpanEntry> span_entries(const ProbeSet& set) {
  std::vector<layout::SpanEntry> entries(set.spans.size());
  for (uint32_t i = 0; i < set.probes.size(); ++i)
    for (size_t span = 0; span < entries.size(); ++span) {
      if (set.spans[span].start == set.probes[i].match) entries[span].start = i;
      if (set.spans[span].end == set.probes[i].match) entries[span].end = i;
    }
  return entries;
}

std::vector<ArmedProbe> armed_spans(const ArmingPlan& plan,
                                    const std::vector<layout::SpanEntry>& entries) {
  std::vector<ArmedProbe> spans;
  const auto is_armed = [&](uint32_t probe) { return plan.is_armed(plan.set.probes[probe].patch); };
  for (uint32_t i = 0; i < entries.size(); ++i)
    if (is_armed(entries[i].start) && is_armed(entries[i].end))
      spans.push_back({static_cast<uint32_t>(plan.set.spans[i].start), i});
  return spans;
}

}  // namespace pinprick::engine
