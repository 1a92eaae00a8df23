// `trace -o FILE.rec`: events as they are, for `pinprick report` (docs/recordings.md).
#pragma once

#include <memory>
#include <string>

#include "cli/render/export.h"
#include "recording/writer.h"

namespace pinprick::cli {

class RecordingRenderer : public ExportRenderer {
 public:
  RecordingRenderer(TextRenderer text, const std::string& path, const recording::Header& header)
      : ExportRenderer(std::move(text), exports::Format::recording, path),
        writer_(std::make_unique<recording::Writer>(header)) {}

  recording::Writer* recorder() override { return writer_.get(); }

 private:
  void add(const Report& report) override {
    if (report.kind == placement::Kind::event) writer_->add(report);
  }
  void finish() override { event_lines(writer_->finish()); }

  std::unique_ptr<recording::Writer> writer_;
};

}  // namespace pinprick::cli
