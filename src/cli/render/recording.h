// `trace -o FILE.rec`: events as they are, for `pinprick report` (docs/recordings.md).
#pragma once

#include <memory>
#include <string>

#include "cli/render/export.h"
#include "recording/writer.h"

namespace pinprick::cli {

class RecordingRenderer : public ExportRenderer {
 public:
  // `starts_command`: pinprick starts the program that is recorded.
  RecordingRenderer(TextRenderer text, const std::string& path, const recording::Header& header,
                    bool starts_command)
      : ExportRenderer(std::move(text), exports::Format::recording, path),
        writer_(std::make_unique<recording::Writer>(header)),
        starts_command_(starts_command) {}

  void detached(const ProcessName& process, const engine::DisarmReport& report) override {
    has_ended_ = report.target_gone && !report.replaced;
    TextRenderer::detached(process, report);
  }

  recording::Writer* recorder() override { return writer_.get(); }

 private:
  void add(const Report& report) override {
    if (report.kind == placement::Kind::event) writer_->add(report);
  }
  void finish() override {
    using Of = recording::Writer::Of;
    event_lines(writer_->finish(starts_command_ && has_ended_ ? Of::whole_program : Of::part));
  }

  std::unique_ptr<recording::Writer> writer_;
  bool starts_command_, has_ended_ = false;
};

}  // namespace pinprick::cli
