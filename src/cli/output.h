// An output stream for text, which may be a terminal, may break, and may show colours.
//
// Names come from the files of other programs, and from processes, which choose them. So all text
// that is printed is made printable (render/text_width.h): a name forges no line, and no colour.
#pragma once

#include <fmt/color.h>
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/task.h"
#include "cli/options.h"
#include "cli/render/text_width.h"

namespace pinprick::cli {

// Printable text with the terminal's commands for its style, if it has one.
struct Styled {
  std::string text;
};

namespace output {

template <class T>
inline constexpr bool is_text = std::is_convertible_v<const T&, std::string_view>;

// What print() passes on: numbers, text that is made printable, and text with its style.
template <class T, class Value = std::remove_cvref_t<T>>
using Shown = std::conditional_t<is_text<Value>, std::string, Value>;

template <class T>
auto shown(const T& value) {
  static_assert(is_text<T> || std::is_arithmetic_v<T> || std::is_same_v<T, Styled>);
  if constexpr (is_text<T>)
    return printable(value, true);
  else
    return value;
}

}  // namespace output

class Output {
 public:
  // What a stream of Kind::replaced had before goes with the first write: a mistake in the command
  // does not cost the results of the last one.
  enum class Kind : bool { appended, replaced };
  Output(std::FILE* stream, Color color, Kind kind = Kind::appended);
  static Output standard_output(Color color) { return {stdout, color}; }
  static Output standard_error(Color color) { return {stderr, color}; }

  // Writes lines as they are. To a terminal, what it would take for a command becomes a '?'.
  void write(std::string_view text);
  template <class... Args>
  void print(fmt::format_string<output::Shown<Args>...> format, Args&&... args) {
    print_shown(format, output::shown(args)...);
  }
  void flush();
  // How many bytes can be written and flushed now without waiting for a reader; 0: none.
  size_t room() const;
  // Writes nothing any more, as if the reader were gone.
  void give_up();

  // Has writing failed, as the reader is gone (EPIPE) or the disk is full?
  bool is_broken() const { return error_ != 0; }
  int error() const { return error_; }  // the errno of the first failure; 0: none
  bool is_terminal() const { return terminal_; }
  bool is_colored() const { return colored_; }
  int columns() const;

  // Returns `text` in the style if colours are shown.
  Styled styled(std::string_view text, const fmt::text_style& style) const;
  Styled bold(std::string_view text) const { return styled(text, fmt::emphasis::bold); }
  Styled faint(std::string_view text) const { return styled(text, fmt::emphasis::faint); }

 private:
  template <class... Args>
  void print_shown(fmt::string_view format, const Args&... args) {
    write(fmt::vformat(format, fmt::make_format_args(args...)));
  }

  std::FILE* stream_;
  bool terminal_;
  bool colored_;
  bool replaces_;  // with the next write
  bool gave_up_ = false;
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

template <>
struct fmt::formatter<pinprick::cli::Styled> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const pinprick::cli::Styled& styled, Context& context) const {
    return fmt::formatter<std::string_view>::format(styled.text, context);
  }
};
