// `trace -o FILE.pftrace`: events as a trace for Perfetto (export/perfetto.h).
#pragma once

#include <memory>
#include <string>

#include "cli/render/export.h"
#include "export/perfetto.h"
#include "recording/header.h"

namespace pinprick::cli {

class PerfettoRenderer : public ExportRenderer {
 public:
  // `makes_tree`: each call has an event at its entry, and one at its return.
  PerfettoRenderer(TextRenderer text, const std::string& path, bool makes_tree);

  void replays(const recording::Header& header) override;
  bool writes_timelines() const override { return true; }
  exports::TraceEvent part_of_timeline(const session::Event& event) const override;
  std::string timeline(const exports::TraceEvent& event) override { return trace_->add(event); }
  EventSpans::Event part_of_span(const session::Event& event) const override;
  std::string line_of_span(const EventSpans::Ended& span) const override;

 private:
  void add(const Report& report) override;
  void finish() override { event_lines(trace_->finish()); }

  bool makes_tree_;
  recording::Clocks clocks_;
  std::unique_ptr<exports::PerfettoTrace> trace_;
};

}  // namespace pinprick::cli
