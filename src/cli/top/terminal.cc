#include "cli/top/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

namespace pinprick::cli::top {
namespace {

// The alternate screen, no cursor, and no line breaks of the terminal's own.
constexpr std::string_view kEnter = "\033[?1049h\033[?25l\033[?7l";
// Cleared first: tmux copies what is left there to the main screen, if its size has changed.
constexpr std::string_view kLeave = "\033[m\033[H\033[2J\033[?7h\033[?25h\033[?1049l";

constexpr std::array kFatalSignals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

// For the handler of fatal signals.
struct Emergency {
  int fd = -1;
  termios before = {};
};
Emergency emergency;

void restore_in_emergency(int signal) {
  static_cast<void>(!::write(emergency.fd, kLeave.data(), kLeave.size()));
  ::tcsetattr(emergency.fd, TCSANOW, &emergency.before);
  ::raise(signal);  // with the default action, by SA_RESETHAND, once this handler has returned
}

void prepare_for_emergency(int fd, const termios& before) {
  emergency = {fd, before};
  struct sigaction action = {};
  action.sa_handler = restore_in_emergency;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int signal : kFatalSignals) ::sigaction(signal, &action, nullptr);
}

void end_emergency() {
  for (const int signal : kFatalSignals) ::signal(signal, SIG_DFL);
}

termios raw_modes(termios modes) {
  modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | IEXTEN);
  modes.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL | INLCR);
  modes.c_cc[VMIN] = 1;
  modes.c_cc[VTIME] = 0;
  return modes;
}

}  // namespace

// The terminal is opened anew: O_NONBLOCK belongs to an open file description, and that of stdout
// is shared with the shell.
std::unique_ptr<Terminal> Terminal::open() {
  const char* kind = std::getenv("TERM");
  if (kind == nullptr || *kind == '\0' || std::string_view(kind) == "dumb") return nullptr;
  std::array<char, 256> path = {};
  if (::isatty(STDOUT_FILENO) != 1) return nullptr;
  const bool has_path = ::ttyname_r(STDOUT_FILENO, path.data(), path.size()) == 0;
  constexpr int kFlags = O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  Fd fd(has_path ? ::open(path.data(), kFlags) : -1);
  if (!fd) fd = Fd(::open("/dev/tty", kFlags));
  if (!fd) return nullptr;
  return std::unique_ptr<Terminal>(new Terminal(std::move(fd)));
}

Terminal::~Terminal() {
  leave();
}

ScreenSize Terminal::size() const {
  winsize size = {};
  if (::ioctl(fd_.get(), TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return kSmallestScreen;
  return {size.ws_col, size.ws_row};
}

bool Terminal::is_foreground() const {
  const pid_t group = ::tcgetpgrp(fd_.get());
  return group < 0 || group == ::getpgrp();  // no group: a terminal without job control
}

// A job in the background that sets modes is stopped by SIGTTOU. pinprick must not stop while it
// ends.
void Terminal::set_modes(const termios& modes) {
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGTTOU);
  ::sigprocmask(SIG_BLOCK, &set, &before);
  ::tcsetattr(fd_.get(), TCSANOW, &modes);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

void Terminal::enter() {
  const bool is_shown = before_.has_value();
  termios before = {};
  if (!is_shown) {
    if (::tcgetattr(fd_.get(), &before) != 0) return;  // it is gone; read() will tell
    before_ = before;
    prepare_for_emergency(fd_.get(), before);
  }
  set_modes(raw_modes(*before_));
  if (!is_shown) write(kEnter);
}

void Terminal::leave(std::string_view farewell) {
  if (!before_) return;
  // A frame that the terminal has not taken is dropped. The rest of an escape sequence does no
  // harm, as the next one starts anew.
  unsent_.clear();
  unsent_.append(kLeave).append(farewell);
  constexpr int kPatientMs = 1000;
  pollfd writable = {fd_.get(), POLLOUT, 0};
  while (has_unsent() && ::poll(&writable, 1, kPatientMs) == 1 && writable.revents == POLLOUT)
    flush();
  unsent_.clear();
  set_modes(*before_);
  before_.reset();
  end_emergency();
}

std::optional<std::string> Terminal::read() {
  std::array<char, 256> bytes;
  const ssize_t size = ::read(fd_.get(), bytes.data(), bytes.size());
  if (size > 0) return std::string(bytes.data(), static_cast<size_t>(size));
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::string();
  return std::nullopt;
}

void Terminal::write(std::string_view bytes) {
  unsent_ += bytes;
  flush();
}

void Terminal::flush() {
  while (has_unsent()) {
    const ssize_t size = ::write(fd_.get(), unsent_.data(), unsent_.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) {
      if (errno != EAGAIN) unsent_.clear();  // it is gone; read() will tell
      return;
    }
    unsent_.erase(0, static_cast<size_t>(size));
  }
}

}  // namespace pinprick::cli::top
