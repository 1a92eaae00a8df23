// `report --graph` and `report --functions -o FILE`: the paths by which the functions of a
// recording were called, as graphs or as a file.
//
// Not thread-safe.
#pragma once

#include <optional>

#include "cli/messages/messages.h"
#include "cli/options.h"
#include "cli/render/renderer.h"
#include "recording/call_paths.h"
#include "recording/reader.h"

namespace pinprick::cli {

class ShowPaths : public recording::Sink {
 public:
  // The arguments must outlive this.
  ShowPaths(const Options& options, const recording::Header& header, Renderer& renderer);

  void event(const session::Event& event) override;
  void told_until(uint64_t tsc) override { paths_.told_until(tsc); }
  void report(const session::Report& report) override;
  // All of the recording is needed.
  bool is_done() const { return false; }
  // Returns why there is nothing to show, if so.
  std::optional<Message> finish();

 private:
  std::optional<Message> show_graphs();

  const Options& options_;
  Renderer& renderer_;
  uint64_t started_ns_, after_;
  double seconds_ = 0;
  layout::Losses losses_;
  recording::CallPaths paths_;
};

}  // namespace pinprick::cli
