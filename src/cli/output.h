// Where text goes: a stream that may be a terminal, may break, and may show colours.
#pragma once

#include <fmt/color.h>
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "cli/options.h"

namespace pinprick::cli {

class Output {
 public:
  Output(std::FILE* stream, Color color);
  static Output standard_output(Color color) { return {stdout, color}; }
  static Output standard_error(Color color) { return {stderr, color}; }

  void write(std::string_view text);
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    write(fmt::format(format, std::forward<Args>(args)...));
  }
  void flush();

  // Nobody reads any more (EPIPE), or the disk is full.
  bool is_broken() const { return broken_; }
  bool is_terminal() const { return terminal_; }
  int columns() const;

  // `text` in the style, where colours are shown.
  std::string styled(std::string_view text, const fmt::text_style& style) const;
  std::string bold(std::string_view text) const { return styled(text, fmt::emphasis::bold); }
  std::string faint(std::string_view text) const { return styled(text, fmt::emphasis::faint); }

 private:
  std::FILE* stream_;
  bool terminal_;
  bool colored_;
  bool broken_ = false;
};

// Says what is going on, on a terminal, when it takes longer than half a second; takes it back at
// the end. From a thread of its own, so that what takes long need not know of it.
class Progress {
 public:
  Progress(std::string text, bool enabled);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

 private:
  struct State;
  State* state_ = nullptr;
};

}  // namespace pinprick::cli
