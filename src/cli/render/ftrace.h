// `trace --format=ftrace`, and `report` with it: events as the kernel's tracing prints them in its
// files `trace` and `trace_pipe` (docs/events.md); and `ftrace`: calls as its function tracer does
// (docs/ftrace.md). What is said to people is that of text.h.
#pragma once

#include <string>
#include <string_view>

#include "cli/render/text.h"
#include "recording/header.h"

namespace pinprick::cli {

class FtraceRenderer : public TextRenderer {
 public:
  enum class Tracer : bool { nop, function };
  FtraceRenderer(const TextRenderer& text, Tracer tracer) : TextRenderer(text), tracer_(tracer) {}

  void armed(const ProcessName& process, const engine::ArmReport& report, uint64_t elapsed_ns,
             bool until_interrupt) override;
  void files_armed(const FilesFigures& figures, bool until_interrupt) override;
  void replays(const recording::Header& header) override;
  void begin_dump(const Dump& dump) override;
  std::string line_of(const session::Event& event) const override;

  // A value of this name says where the call returns to, as a field of the kernel's events does.
  static constexpr std::string_view kReturnsTo = "__probe_ret_ip";
  // A value of this name says which function called.
  static constexpr std::string_view kParent = "__parent_ip";

 private:
  void write_heading();

  Tracer tracer_;
  recording::Clocks clocks_ = recording::Clocks::now();
  bool has_heading_ = false;
};

}  // namespace pinprick::cli
