// The base of the renderers that write a page for browsers: `-o FILE.html` (export/html/page.h).
// The top of each page says how the measurement was made, and what it lacks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "cli/render/export.h"
#include "export/html/page.h"
#include "layout/losses.h"

namespace pinprick::cli {

class HtmlRenderer : public ExportRenderer {
 public:
  HtmlRenderer(TextRenderer text, const std::string& path, std::string command_line)
      : ExportRenderer(std::move(text), exports::Format::page, path),
        command_line_(std::move(command_line)) {}

  void warning(const std::string& text) override;
  void error(const Message& message) override;
  void armed(const ProcessName& process, const engine::ArmReport& report, uint64_t elapsed_ns,
             bool until_interrupt) override;
  void files_armed(const FilesFigures& figures, bool until_interrupt) override;
  void replays(const recording::Header& header) override;

 protected:
  exports::Page& page() const { return *page_; }
  // Takes the process, the time and the losses from a report.
  void add_facts_of(const Report& report);

 private:
  void finish() final;
  // Adds what the page shows.
  virtual void fill_page() = 0;
  void began_now();
  void tell_losses();

  std::unique_ptr<exports::Page> page_ = std::make_unique<exports::Page>();
  std::string command_line_;
  std::string machine_;  // empty: a recording may come from another one
  bool has_start_ = false;
  std::set<pid_t> processes_;
  std::map<pid_t, std::string> names_;  // of those that are named
  double seconds_ = 0;
  layout::Losses losses_;
  bool lacks_older_events_ = false;
  uint32_t every_ = 1;  // Nth hit was recorded
  size_t partial_ = 0;  // rows, with --budget
};

// Returns the process as people call it: its command and its number.
std::string name_of_process(const session::ProcessName& process);

}  // namespace pinprick::cli
