// `trace -o FOLDER.ctf`: events as a trace for babeltrace2 (export/ctf.h).
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "cli/render/export.h"
#include "export/ctf.h"
#include "recording/header.h"

namespace pinprick::cli {

class CtfRenderer : public ExportRenderer {
 public:
  // `text` writes the stream; the description is written to another file of the folder.
  CtfRenderer(TextRenderer text, const std::string& path, const recording::Header& header);

  void replays(const recording::Header& header) override;
  bool writes_timelines() const override { return true; }
  exports::TraceEvent part_of_timeline(const session::Event& event) const override;
  std::string timeline(const exports::TraceEvent& event) override;
  EventSpans::Event part_of_span(const session::Event& event) const override;
  std::string line_of_span(const EventSpans::Ended& span) const override;
  int error_of_writing() const override;

 private:
  void add(const Report& report) override;
  void finish() override;
  void start(const recording::Header& header);
  // Returns what the stream gets next.
  std::string write(const exports::CtfTrace::Event& event) const;

  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  int error_;  // the errno with which opening it failed; 0: it has not
  std::unique_ptr<Output> metadata_;
  recording::Clocks clocks_;
  std::unique_ptr<exports::CtfTrace> trace_;
  uint64_t dropped_ = 0;
};

}  // namespace pinprick::cli
