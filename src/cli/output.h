// An output stream for text, which may be a terminal, may break, and may show colours.
#pragma once

#include <fmt/color.h>
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/task.h"
#include "cli/options.h"

namespace pinprick::cli {

class Output {
 public:
  // What a stream of Kind::replaced had before goes with the first write: a mistake in the command
  // does not cost the results of the last one.
  enum class Kind : bool { appended, replaced };
  Output(std::FILE* stream, Color color, Kind kind = Kind::appended);
  static Output standard_output(Color color) { return {stdout, color}; }
  static Output standard_error(Color color) { return {stderr, color}; }

  void write(std::string_view text);
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    write(fmt::format(format, std::forward<Args>(args)...));
  }
  void flush();

  // Has writing failed, as the reader is gone (EPIPE) or the disk is full?
  bool is_broken() const { return error_ != 0; }
  int error() const { return error_; }  // the errno of the first failure; 0: none
  bool is_terminal() const { return terminal_; }
  bool is_colored() const { return colored_; }
  int columns() const;

  // Returns `text` in the style if colours are shown, and unchanged otherwise.
  std::string styled(std::string_view text, const fmt::text_style& style) const;
  std::string bold(std::string_view text) const { return styled(text, fmt::emphasis::bold); }
  std::string faint(std::string_view text) const { return styled(text, fmt::emphasis::faint); }

 private:
  std::FILE* stream_;
  bool terminal_;
  bool colored_;
  bool replaces_;  // with the next write
  int error_ = 0;
};

// Watches a task from a thread of its own. If the task takes longer than half a second, shows its
// progress on a terminal, and erases that at the end. Cancels the task when the descriptor
// `interrupts` becomes readable, without reading it; -1 for none.
class Progress {
 public:
  Progress(Task& task, bool enabled, int interrupts = -1);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pinprick::cli
