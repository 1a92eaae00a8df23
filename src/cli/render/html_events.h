// `report FILE.rec -o FILE.html`, and `trace`: a recording as a page with the functions, a flame
// graph of its calls, and a timeline of its threads.
#pragma once

#include <memory>
#include <string>

#include "cli/render/html.h"
#include "recording/header.h"

namespace pinprick::cli {

class HtmlEventsRenderer : public HtmlRenderer {
 public:
  HtmlEventsRenderer(TextRenderer text, const std::string& path, const recording::Header& header);
  ~HtmlEventsRenderer() override;

  void replays(const recording::Header& header) override;
  bool writes_timelines() const override { return true; }
  exports::TraceEvent part_of_timeline(const session::Event& event) const override;
  std::string timeline(const exports::TraceEvent& event) override;
  EventSpans::Event part_of_span(const session::Event& event) const override;
  std::string line_of_span(const EventSpans::Ended& span) const override;
  // The page is written at the end.
  void event_lines(const std::string&) override {}

 private:
  class Collected;
  void add(const Report& report) override;
  void fill_page() override;

  bool is_tree_;
  recording::Clocks clocks_;
  std::unique_ptr<Collected> collected_;
};

}  // namespace pinprick::cli
