#include "cli/top/screen_signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

namespace pinprick::cli::top {

ScreenSignals::ScreenSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGWINCH, SIGTSTP, SIGCONT}) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, &before_);
  descriptor_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

ScreenSignals::~ScreenSignals() {
  // What has arrived since is out of date: a SIGTSTP must not suspend pinprick while it ends.
  while (take()) {
  }
  ::sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> ScreenSignals::take() {
  signalfd_siginfo info;
  if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

void ScreenSignals::suspend() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTSTP);
  ::raise(SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);  // stops here
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
}

}  // namespace pinprick::cli::top
