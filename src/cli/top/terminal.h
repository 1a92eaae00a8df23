// The user's terminal as a full screen: raw keys, the alternate screen, and the state from before
// when it ends, also if pinprick crashes. One thread uses it, and there is at most one.
//
// It never blocks: a terminal that takes no output (Ctrl-S, a stalled connection) must not keep
// pinprick from looking after the processes with probes.
#pragma once

#include <termios.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "cli/top/screen.h"

namespace pinprick::cli::top {

class Terminal {
 public:
  // Opens the terminal that stdout is; nullptr if it is none that can show a screen.
  static std::unique_ptr<Terminal> open();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal();

  int descriptor() const { return fd_.get(); }
  ScreenSize size() const;
  // May pinprick use it now, or has the shell given it to another job?
  bool is_foreground() const;

  // Shows the alternate screen, and takes keys as they are pressed. Ctrl-C, Ctrl-Z and Ctrl-\ still
  // send signals. If the screen is shown already, only sets the modes again, which another program
  // (a shell) may have changed.
  void enter();
  // Restores the state from before enter(), and prints `farewell`.
  void leave(std::string_view farewell = {});

  // Returns what was typed; nullopt if the terminal is gone.
  std::optional<std::string> read();
  // Sends bytes, as far as the terminal takes them now; flush() sends the rest.
  void write(std::string_view bytes);
  void flush();
  // Flush when descriptor() takes output.
  bool has_unsent() const { return !unsent_.empty(); }

 private:
  explicit Terminal(Fd fd) : fd_(std::move(fd)) {}
  void set_modes(const termios& modes);

  Fd fd_;
  std::optional<termios> before_;  // while the screen is shown
  std::string unsent_;
};

}  // namespace pinprick::cli::top
